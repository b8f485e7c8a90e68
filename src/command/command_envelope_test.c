#include "command/command_envelope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "command/command_port.h"

enum { ROOM = 32 };

static struct record_header room[ROOM], read_room[ROOM];
static struct command_envelope_text text;
static struct record record;
static struct command_envelope envelope;

static const struct record_header headers[] = {{STR_INIT("device_id"), STR_INIT("d1")}, {STR_INIT("subject"), STR_INIT("s")}};

static struct command_request request_of(void)
{
    return (struct command_request){
        .ticket = {STR("t1"), 3, 1234567890123},
        .from = {STR("one"), UINT64_MAX},
        .to = {STR("two"), 7},
        .after = 99,
        .epoch = 5,
        .gateway = STR("g1"),
        .timestamp_ms = 1700000000000,
        .key = STR("d1"),
        .value = STR("on"),
        .headers = headers,
        .n_headers = ARRAY_LEN(headers),
    };
}

/* The value of the first header with that name in a record that was written. */
static const char *header(const char *name)
{
    static char copy[64];

    for (size_t i = 0; i < record.n_headers; i++) {
        if (!str_equal(record.headers[i].name, str_from(name)))
            continue;
        assert_true(record.headers[i].value.n < sizeof copy);
        memcpy(copy, record.headers[i].value.p, record.headers[i].value.n);
        copy[record.headers[i].value.n] = '\0';
        return copy;
    }
    return NULL;
}

static void a_request_has_the_headers_of_a_command_router_and_ours(void **state)
{
    struct command_request request = request_of();

    (void)state;
    command_envelope_write_request(&request, room, &text, &record);
    assert_true(record.has_partition);
    assert_int_equal(record.partition, 0);
    assert_true(str_equal(record.key, STR("d1")));
    assert_true(str_equal(record.value, STR("on")));
    assert_string_equal(header("device_id"), "d1");
    assert_string_equal(header("subject"), "s");
    assert_string_equal(header("tenant_id"), "t1");
    assert_string_equal(header("via"), "g1");
    assert_string_equal(header("orig-partition"), "3");
    assert_string_equal(header("orig-offset"), "1234567890123");
    assert_string_equal(header("millrace-from"), "one");
    assert_string_equal(header("millrace-from-incarnation"), "18446744073709551615");
    assert_string_equal(header("millrace-to-incarnation"), "7");
    assert_true(str_equal(command_envelope_tenant(record.headers, record.n_headers), STR("t1")));
}

static void what_is_written_is_read(void **state)
{
    struct command_request request = request_of();
    const struct command_request *r = &envelope.request;

    (void)state;
    command_envelope_write_request(&request, room, &text, &record);
    assert_int_equal(command_envelope_read(&record, read_room, &envelope), E_OK);
    assert_false(envelope.is_result);
    assert_true(str_equal(r->ticket.tenant, STR("t1")));
    assert_int_equal(r->ticket.partition, 3);
    assert_int_equal(r->ticket.offset, 1234567890123);
    assert_true(str_equal(r->from.instance, STR("one")));
    assert_true(r->from.incarnation == UINT64_MAX);
    assert_int_equal(r->to.incarnation, 7);
    assert_int_equal(r->after, 99);
    assert_int_equal(r->epoch, 5);
    assert_true(str_equal(r->gateway, STR("g1")));
    assert_int_equal(r->timestamp_ms, 1700000000000);
    assert_true(str_equal(r->key, STR("d1")));
    assert_true(str_equal(r->value, STR("on")));
    assert_int_equal(r->n_headers, ARRAY_LEN(headers));
    assert_true(str_equal(r->headers[1].name, STR("subject")));
}

static void a_null_value_a_missing_gateway_and_an_unknown_time_stay_so(void **state)
{
    struct command_request request = request_of();

    (void)state;
    request.value = request.gateway = (struct str){0};
    request.timestamp_ms = -1;
    command_envelope_write_request(&request, room, &text, &record);
    assert_null(header("via"));
    assert_int_equal(command_envelope_read(&record, read_room, &envelope), E_OK);
    assert_null(envelope.request.value.p);
    assert_int_equal(envelope.request.gateway.n, 0);
    assert_int_equal(envelope.request.timestamp_ms, -1);
    request.value = STR("");
    command_envelope_write_request(&request, room, &text, &record);
    assert_int_equal(command_envelope_read(&record, read_room, &envelope), E_OK);
    assert_non_null(envelope.request.value.p);
}

static void an_application_cannot_say_where_its_command_came_from(void **state)
{
    const struct record_header forged[] = {
        {STR("tenant_id"), STR("t2")},      {STR("via"), STR("g2")},           {STR("orig-offset"), STR("1")},
        {STR("millrace-result"), STR("0")}, {STR("millrace-epoch"), STR("1")}, {STR("subject"), STR("s")},
    };
    struct command_request request = request_of();

    (void)state;
    request.headers = forged;
    request.n_headers = ARRAY_LEN(forged);
    request.gateway = (struct str){0};
    command_envelope_write_request(&request, room, &text, &record);
    assert_int_equal(command_envelope_read(&record, read_room, &envelope), E_OK);
    assert_false(envelope.is_result);
    assert_true(str_equal(envelope.request.ticket.tenant, STR("t1")));
    assert_int_equal(envelope.request.gateway.n, 0);
    assert_int_equal(envelope.request.ticket.offset, 1234567890123);
    assert_int_equal(envelope.request.epoch, 5);
    assert_int_equal(envelope.request.n_headers, 1);
}

static void results_are_read_as_they_are_written(void **state)
{
    static const struct command_result_message result = {
        .ticket = {STR_INIT("t1"), 0, 0},
        .from = {STR_INIT("two"), 7},
        .to = {STR_INIT("one"), 8},
        .result = COMMAND_FAILED,
        .status = 503,
        .text = STR_INIT("no consumer"),
    };

    (void)state;
    command_envelope_write_result(&result, room, &text, &record);
    assert_int_equal(command_envelope_read(&record, read_room, &envelope), E_OK);
    assert_true(envelope.is_result);
    assert_true(str_equal(envelope.result.ticket.tenant, STR("t1")));
    assert_int_equal(envelope.result.ticket.offset, 0);
    assert_true(str_equal(envelope.result.from.instance, STR("two")));
    assert_int_equal(envelope.result.from.incarnation, 7);
    assert_int_equal(envelope.result.to.incarnation, 8);
    assert_int_equal(envelope.result.result, COMMAND_FAILED);
    assert_int_equal(envelope.result.status, 503);
    assert_true(str_equal(envelope.result.text, STR("no consumer")));
}

/* As an Eclipse Hono Command Router writes it. */
static void what_a_command_router_sends_is_a_request_that_nobody_waits_for(void **state)
{
    const struct record_header router[] = {
        {STR("device_id"), STR("d1")}, {STR("subject"), STR("s")},        {STR("tenant_id"), STR("t1")},
        {STR("via"), STR("g1")},       {STR("orig-partition"), STR("0")}, {STR("orig-offset"), STR("17")},
    };

    (void)state;
    record = (struct record){.key = STR("d1"), .headers = router, .n_headers = ARRAY_LEN(router)};
    assert_int_equal(command_envelope_read(&record, read_room, &envelope), E_OK);
    assert_false(envelope.is_result);
    assert_int_equal(envelope.request.from.instance.n, 0);
    assert_int_equal(envelope.request.to.incarnation, 0);
    assert_int_equal(envelope.request.ticket.offset, 17);
    assert_true(str_equal(envelope.request.gateway, STR("g1")));
    assert_int_equal(envelope.request.n_headers, 2);
}

static void what_is_neither_is_refused(void **state)
{
    /* Whole but for one header, which is wrong. */
    static const struct {
        const char *name, *value; /* NULL: it is missing */
    } wrong[] = {
        {"tenant_id", NULL},
        {"tenant_id", ""},
        {"orig-partition", NULL},
        {"orig-partition", "2147483648"},
        {"orig-partition", "-1"},
        {"orig-offset", "9223372036854775808"},
        {"orig-offset", " 1"},
        {"orig-offset", ""},
        {"millrace-from", ""},
        {"millrace-from-incarnation", NULL},
        {"millrace-to-incarnation", "18446744073709551616"},
        {"millrace-epoch", "x"},
        {"millrace-after", NULL},
        {"millrace-timestamp", "1.5"},
        {"millrace-result", "4"},
        {"millrace-result", "1"}, /* a result without a status */
    };
    struct command_request request = request_of();

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct str name = str_from(wrong[i].name);
        size_t at = 0;

        command_envelope_write_request(&request, room, &text, &record);
        while (at < record.n_headers && !str_equal(room[at].name, name))
            at++;
        if (at == record.n_headers)
            room[record.n_headers++].name = name;
        room[at].value = str_from(wrong[i].value);
        if (!wrong[i].value)
            room[at].name = STR("other");
        if (command_envelope_read(&record, read_room, &envelope) != E_PROTO)
            fail_msg("%s: %s", wrong[i].name, wrong[i].value ? wrong[i].value : "(missing)");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_has_the_headers_of_a_command_router_and_ours),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_null_value_a_missing_gateway_and_an_unknown_time_stay_so),
        cmocka_unit_test(an_application_cannot_say_where_its_command_came_from),
        cmocka_unit_test(results_are_read_as_they_are_written),
        cmocka_unit_test(what_a_command_router_sends_is_a_request_that_nobody_waits_for),
        cmocka_unit_test(what_is_neither_is_refused),
    };

    return cmocka_run_group_tests_name("command_envelope", tests, NULL, NULL);
}
