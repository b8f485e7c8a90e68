#include "core/command_record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"

static const struct command_place place = {
    .topic = {"hono.command.t1", 15}, .partition = 3, .offset = 4711, .timestamp_ms = 1000};

static struct str from_headers(const struct record_header *headers, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (str_equal(headers[i].name, str_from(name)))
            return headers[i].value;
    return (struct str){0};
}

#define assert_text(got, want) assert_true(str_equal((got), str_from(want)))
#define assert_header(answer, name, want)                                                                                      \
    assert_text(from_headers((answer).record.headers, (answer).record.n_headers, (name)), (want))

static void a_command_is_read_with_all_it_says(void **state)
{
    static const struct record_header headers[] = {
        {STR_INIT("device_id"), STR_INIT("d1")},
        {STR_INIT("device_id"), STR_INIT("d2")}, /* the first counts */
        {STR_INIT("subject"), STR_INIT("set/brightness")},
        {STR_INIT("content-type"), STR_INIT("text/plain")},
        {STR_INIT("correlation-id"), STR_INIT("abc")},
        {STR_INIT("response-required"), STR_INIT("true")},
        {STR_INIT("ack-required"), STR_INIT("true")},
        {STR_INIT("delivery-failure-notification-metadata-x"), STR_INIT("1")},
        {STR_INIT("delivery-failure-notification-metadata"), STR_INIT("2")},
        {STR_INIT("traceparent"), STR_INIT("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")},
    };
    struct command_record c;

    (void)state;
    assert_int_equal(command_record_read(STR("d1"), STR("v"), headers, ARRAY_LEN(headers), &place, 2000, &c),
                     COMMAND_FAULT_NONE);
    assert_text(c.device_id, "d1");
    assert_text(c.subject, "set/brightness");
    assert_text(c.content_type, "text/plain");
    assert_text(c.correlation_id, "abc");
    assert_text(c.value, "v");
    assert_text(c.message_id, "hono.command.t1/3/4711");
    assert_true(c.is_response_required && c.is_ack_required && c.has_value && !c.has_ttl);
    assert_int_equal(c.n_metadata, 2);
    assert_int_equal(c.trace.parent.n, 55);
}

static void a_message_id_of_the_application_is_kept(void **state)
{
    static const struct record_header headers[] = {{STR_INIT("device_id"), STR_INIT("d1")},
                                                   {STR_INIT("subject"), STR_INIT("s")},
                                                   {STR_INIT("message-id"), STR_INIT("m-1")}};
    struct command_record c;

    (void)state;
    assert_int_equal(command_record_read(STR("d1"), (struct str){0}, headers, ARRAY_LEN(headers), &place, 2000, &c),
                     COMMAND_FAULT_NONE);
    assert_text(c.message_id, "m-1");
    assert_false(c.has_value);
}

static void faults_are_told_apart(void **state)
{
    static char long_text[1100];
    struct {
        const char *key;
        struct record_header headers[4];
        enum command_fault fault;
    } rows[] = {
        {"d1", {{STR("subject"), STR("s")}}, COMMAND_FAULT_NO_DEVICE},
        {"d2", {{STR("device_id"), STR("d1")}, {STR("subject"), STR("s")}}, COMMAND_FAULT_KEY},
        {"", {{STR("device_id"), STR("d1")}, {STR("subject"), STR("s")}}, COMMAND_FAULT_KEY},
        {"d1", {{STR("device_id"), STR("d1")}}, COMMAND_FAULT_SUBJECT},
        {"d1", {{STR("device_id"), STR("d1")}, {STR("subject"), STR("")}}, COMMAND_FAULT_SUBJECT},
        {"d1", {{STR("device_id"), STR("d1")}, {STR("subject"), STR("a+b")}}, COMMAND_FAULT_SUBJECT},
        {"d1", {{STR("device_id"), STR("d1")}, {STR("subject"), STR("#")}}, COMMAND_FAULT_SUBJECT},
        {"d1", {{STR("device_id"), STR("d1")}, {STR("subject"), STR("\xff")}}, COMMAND_FAULT_SUBJECT},
        {"d1", {{STR("device_id"), STR("d1")}, {STR("subject"), {long_text, 1025}}}, COMMAND_FAULT_SUBJECT},
        {"d1", {{STR("device_id"), STR("d1")}, {STR("subject"), {long_text, 1024}}}, COMMAND_FAULT_NONE},
        {"d1",
         {{STR("device_id"), STR("d1")}, {STR("subject"), STR("s")}, {STR("response-required"), STR("true")}},
         COMMAND_FAULT_CORRELATION_ID},
        {"d1",
         {{STR("device_id"), STR("d1")},
          {STR("subject"), STR("s")},
          {STR("response-required"), STR("true")},
          {STR("correlation-id"), STR("a/b")}},
         COMMAND_FAULT_CORRELATION_ID},
        {"d1",
         {{STR("device_id"), STR("d1")},
          {STR("subject"), STR("s")},
          {STR("response-required"), STR("false")},
          {STR("correlation-id"), STR("a/b")}},
         COMMAND_FAULT_NONE}, /* one-way */
        {"d1",
         {{STR("device_id"), STR("d1")}, {STR("subject"), STR("s")}, {STR("ttl"), STR("999")}},
         COMMAND_FAULT_EXPIRED}, /* since the record's own time */
        {"d1",
         {{STR("device_id"), STR("d1")},
          {STR("subject"), STR("s")},
          {STR("ttl"), STR("999")},
          {STR("creation-time"), STR("1500")}},
         COMMAND_FAULT_NONE},
        {"d1",
         {{STR("device_id"), STR("d1")}, {STR("subject"), STR("s")}, {STR("ttl"), STR("soon")}},
         COMMAND_FAULT_NONE}, /* cannot be decoded: absent */
    };

    (void)state;
    memset(long_text, 'x', sizeof long_text);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct command_record c;
        enum command_fault fault = command_record_read(str_from(rows[i].key), STR(""), rows[i].headers, 4, &place, 2000, &c);

        if (fault != rows[i].fault)
            fail_msg("row %zu: %s", i, command_record_fault_name(fault));
    }
}

static void responses_and_notices_have_honos_headers(void **state)
{
    struct command_response response = {.tenant = STR("t1"),
                                        .device_id = STR("d1"),
                                        .correlation_id = STR("abc"),
                                        .payload = STR("ok"),
                                        .status = 200,
                                        .ttl_s = 5,
                                        .now_ms = 1717000000000};
    struct command_record command = {
        .device_id = STR("d1"), .correlation_id = STR("abc"), .message_id = STR("m"), .n_metadata = 1};
    struct command_answer answer;

    (void)state;
    command_record_build_response(&response, &answer);
    assert_text(answer.record.key, "d1");
    assert_text(answer.record.value, "ok");
    assert_header(answer, "correlation-id", "abc");
    assert_header(answer, "creation-time", "1717000000000");
    assert_header(answer, "device_id", "d1");
    assert_header(answer, "tenant_id", "t1");
    assert_header(answer, "status", "200");
    assert_header(answer, "content-type", "application/octet-stream");
    assert_header(answer, "ttl", "5000");

    response = (struct command_response){
        .tenant = STR("t1"), .device_id = STR("d1"), .correlation_id = STR("abc"), .status = 404, .ttl_s = -1, .now_ms = 1};
    command_record_build_response(&response, &answer);
    assert_null(answer.record.value.p);
    assert_int_equal(answer.record.n_headers, 5);

    command.metadata[0] = (struct record_header){STR("delivery-failure-notification-metadata-x"), STR("1")};
    command_record_build_notice(&command, STR("t1"), 503, STR("no consumer available"), 7, &answer);
    assert_text(answer.record.value, "{\"error\":\"no consumer available\"}");
    assert_header(answer, "status", "503");
    assert_header(answer, "content-type", "application/vnd.eclipse-hono-delivery-failure-notification+json");
    assert_header(answer, "delivery-failure-notification-metadata-x", "1");
    assert_null(from_headers(answer.headers, answer.record.n_headers, "message-id").p);

    command.correlation_id = (struct str){0};
    command_record_build_notice(&command, STR("t1"), 202, STR("received"), 7, &answer);
    assert_text(answer.record.value, "{\"acknowledgement\":\"received\"}");
    assert_header(answer, "content-type", "application/vnd.eclipse-hono-delivery-success-notification+json");
    assert_header(answer, "message-id", "m");
    assert_null(from_headers(answer.headers, answer.record.n_headers, "correlation-id").p);
}

static void only_malformed_commands_have_a_status(void **state)
{
    (void)state;
    for (int fault = 0; fault < COMMAND_FAULTS; fault++)
        assert_int_equal(command_record_fault_status(fault), fault >= COMMAND_FAULT_SUBJECT ? 400 : 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_is_read_with_all_it_says),
        cmocka_unit_test(a_message_id_of_the_application_is_kept),
        cmocka_unit_test(faults_are_told_apart),
        cmocka_unit_test(responses_and_notices_have_honos_headers),
        cmocka_unit_test(only_malformed_commands_have_a_status),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
