#include "proto/cloudevents/cloudevent_http.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/check.h"

static struct arena arena;

static int teardown(void **state)
{
    (void)state;
    arena_free(&arena, MEM_TEST);
    return 0;
}

#define HEADER(name, value)                                                                                                    \
    {                                                                                                                          \
        STR_INIT(name), STR_INIT(value)                                                                                        \
    }
#define REQUIRED HEADER("ce-specversion", "1.0"), HEADER("ce-id", "1"), HEADER("ce-source", "/s"), HEADER("ce-type", "t")

static void the_content_type_says_the_mode(void **state)
{
    static const struct {
        const char *type;
        enum cloudevent_mode mode;
    } rows[] = {
        {"", CLOUDEVENT_MODE_BINARY},
        {"application/json", CLOUDEVENT_MODE_BINARY},
        {"application/cloud", CLOUDEVENT_MODE_BINARY},
        {"application/cloudevents+json", CLOUDEVENT_MODE_STRUCTURED},
        {"Application/CloudEvents+JSON; charset=UTF-8", CLOUDEVENT_MODE_STRUCTURED},
        {"application/cloudevents+json ;charset=utf-8", CLOUDEVENT_MODE_STRUCTURED},
        {"application/cloudevents-batch+json", CLOUDEVENT_MODE_BATCH},
        {"application/cloudevents-batch+JSON;x=y", CLOUDEVENT_MODE_BATCH},
        {"application/cloudevents", CLOUDEVENT_MODE_OTHER},
        {"application/cloudevents+xml", CLOUDEVENT_MODE_OTHER},
        {"application/cloudevents-batch", CLOUDEVENT_MODE_OTHER},
        {"application/cloudevents+jsonx", CLOUDEVENT_MODE_OTHER},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (cloudevent_http_mode(str_from(rows[i].type)) != rows[i].mode)
            fail_msg("'%s'", rows[i].type);
}

static void a_binary_event_is_read_in_place(void **state)
{
    static const struct http_header headers[] = {
        HEADER("Host", "x"),      HEADER("CE-SpecVersion", "1.0"), HEADER("Content-Type", "text/plain"),
        HEADER("Ce-Id", "1"),     HEADER("ce-source", "/s"),       HEADER("ce-type", "t"),
        HEADER("ce-MyExt", "e"),  HEADER("ce-myext", "second"),    HEADER("Content-Type", "second"),
        HEADER("ce-subject", ""), HEADER("cerise", "x"),
    };
    static const struct {
        const char *name, *value;
    } want[] = {{"specversion", "1.0"},           {"id", "1"}, {"source", "/s"}, {"type", "t"}, {"myext", "e"}, {"subject", ""},
                {"datacontenttype", "text/plain"}};
    struct cloudevent event;
    struct str body = STR("data");

    (void)state;
    assert_int_equal(cloudevent_http_read(&arena, MEM_TEST, headers, ARRAY_LEN(headers), body, &event, NULL), E_OK);
    assert_int_equal(event.n_attributes, ARRAY_LEN(want));
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        assert_true(str_equal(event.attributes[i].name, str_from(want[i].name)));
        assert_true(str_equal(event.attributes[i].value, str_from(want[i].value)));
    }
    assert_ptr_equal(event.id.p, headers[3].value.p);
    assert_ptr_equal(event.data.p, body.p);
    assert_true(str_equal(event.type, STR("t")) && str_equal(event.source, STR("/s")));
    assert_true(str_equal(event.datacontenttype, STR("text/plain")));
    assert_int_equal(event.data_kind, CLOUDEVENT_BYTES);
    assert_int_equal(cloudevent_http_read(&arena, MEM_TEST, headers, ARRAY_LEN(headers), (struct str){0}, &event, NULL), E_OK);
    assert_int_equal(event.data_kind, CLOUDEVENT_NO_DATA);
}

/* HTTP binding section 3.1.3.2: the value of an attribute, and the reason why not. */
static void values_are_decoded_once(void **state)
{
    static const struct {
        struct str sent;
        const char *value, *fault;
    } rows[] = {
        {STR_INIT("plain"), "plain", NULL},
        {STR_INIT("with space"), "with space", NULL},
        {STR_INIT("Euro%20%E2%82%AC%20%F0%9F%98%80"), "Euro \xe2\x82\xac \xf0\x9f\x98\x80", NULL},
        {STR_INIT("%e2%82%ac"), "\xe2\x82\xac", NULL},
        {STR_INIT("%41%2541"), "A%41", NULL},
        {STR_INIT("raw \xe2\x82\xac"), "raw \xe2\x82\xac", NULL},
        {STR_INIT("100%"), "100%", NULL},
        {STR_INIT("100%4"), "100%4", NULL},
        {STR_INIT("%zz%4g"), "%zz%4g", NULL},
        {STR_INIT("\"quoted \\\"text\\\\\""), "quoted \"text\\", NULL},
        {STR_INIT("\"%22\""), "\"", NULL},
        {STR_INIT("\"\""), "", NULL},
        {STR_INIT("\"open"), "\"open", NULL},
        {STR_INIT("\""), "\"", NULL},
        {STR_INIT("\"a\"b\""), "\"a\"b\"", NULL},
        {STR_INIT("\"a\\\""), "\"a\\\"", NULL},
        {STR_INIT("in\"side"), "in\"side", NULL},
        {STR_INIT("%C0%A0"), NULL, "attribute \"x\" is not UTF-8"},
        {STR_INIT("%ED%A0%80"), NULL, "attribute \"x\" is not UTF-8"},
        {STR_INIT("\xe9"), NULL, "attribute \"x\" is not UTF-8"},
        {STR_INIT("%0A"), NULL, "attribute \"x\" has a control character"},
        {STR_INIT("%C2%85"), NULL, "attribute \"x\" has a control character"},
        {STR_INIT("a\tb"), NULL, "attribute \"x\" has a control character"},
        {STR_INIT("%00"), NULL, "attribute \"x\" is not UTF-8"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_header headers[] = {REQUIRED, {STR("ce-x"), rows[i].sent}};
        struct errinfo ei = {0};
        struct cloudevent event;
        struct str value = {0};
        err e = cloudevent_http_read(&arena, MEM_TEST, headers, ARRAY_LEN(headers), STR(""), &event, &ei);

        if (rows[i].fault) {
            assert_int_equal(e, E_INVAL);
            assert_string_equal(ei.text, rows[i].fault);
            continue;
        }
        assert_int_equal(e, E_OK);
        assert_true(cloudevent_find(&event, STR("x"), &value));
        if (!str_equal(value, str_from(rows[i].value)))
            fail_msg("%s: %.*s", rows[i].sent.p, STR_ARG(value));
    }
}

static void what_is_no_event_is_told(void **state)
{
    static const struct {
        struct http_header headers[6];
        const char *fault;
    } rows[] = {
        {{HEADER("Host", "x"), HEADER("Content-Type", "text/plain")}, "this is no event: there are neither ce- headers nor"},
        {{HEADER("Content-Type", "application/cloudevents+xml")}, "Content-Type \"application/cloudevents+xml\" is none that"},
        {{HEADER("Content-Type", "application/cloudevents-batch+json")}, "Content-Type \"application/cloudevents-batch+json\""},
        {{HEADER("ce-id", "1"), HEADER("ce-source", "s"), HEADER("ce-type", "t")}, "attribute \"specversion\" is missing"},
        {{HEADER("ce-specversion", "1.0"), HEADER("ce-source", "s"), HEADER("ce-type", "t")}, "attribute \"id\" is missing"},
        {{HEADER("ce-specversion", "1.0"), HEADER("ce-id", "1"), HEADER("ce-type", "t")}, "attribute \"source\" is missing"},
        {{HEADER("ce-specversion", "1.0"), HEADER("ce-id", "1"), HEADER("ce-source", "s")}, "attribute \"type\" is missing"},
        {{HEADER("ce-specversion", "1.0"), HEADER("ce-id", ""), HEADER("ce-source", "s"), HEADER("ce-type", "t")},
         "attribute \"id\" is empty"},
        {{HEADER("ce-specversion", "10.0"), HEADER("ce-id", "1"), HEADER("ce-source", "s"), HEADER("ce-type", "t")},
         "specversion \"10.0\" is not supported: 1.0 and 0.3 are"},
        {{REQUIRED, HEADER("ce-datacontenttype", "x")}, "there is a header ce-datacontenttype"},
        {{REQUIRED, HEADER("ce-my_ext", "x")}, "\"my_ext\" cannot be the name of an attribute"},
        {{REQUIRED, HEADER("ce-", "x")}, "\"\" cannot be the name of an attribute"},
        {{REQUIRED, HEADER("ce-Data", "x")}, "\"Data\" cannot be the name of an attribute"},
        {{REQUIRED, HEADER("ce-a234567890b234567890c234567890d234567890e234567890f23456789012345", "x")},
         "an attribute's name is longer than 64 characters: a2345"},
        {{REQUIRED, HEADER("Content-Type", "text/\xff")}, "attribute \"datacontenttype\" is not UTF-8"},
        {{HEADER("Content-Type", "application/cloudevents+json"), REQUIRED}, "the event is not a JSON object"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cloudevent event;
        struct errinfo ei = {0};
        size_t n = 0;

        while (n < ARRAY_LEN(rows[i].headers) && rows[i].headers[n].name.p)
            n++;
        assert_int_equal(cloudevent_http_read(&arena, MEM_TEST, rows[i].headers, n, STR("x"), &event, &ei), E_INVAL);
        if (strncmp(ei.text, rows[i].fault, strlen(rows[i].fault)) != 0)
            fail_msg("%s instead of %s", ei.text, rows[i].fault);
    }
}

static void version_0_3_stays_what_it_is(void **state)
{
    static const struct http_header headers[] = {HEADER("ce-specversion", "0.3"), HEADER("ce-id", "1"),
                                                 HEADER("ce-source", "/s"), HEADER("ce-type", "t")};
    struct cloudevent event;
    struct buf out = {0};

    (void)state;
    assert_int_equal(cloudevent_http_read(&arena, MEM_TEST, headers, ARRAY_LEN(headers), STR(""), &event, NULL), E_OK);
    assert_int_equal(cloudevent_http_write(&out, MEM_TEST, &event, NULL, CLOUDEVENT_ENCODING_PERCENT), E_OK);
    assert_true(str_equal(buf_str(&out), STR("ce-specversion: 0.3\r\nce-id: 1\r\nce-source: /s\r\nce-type: t\r\n")));
    buf_free(&out, MEM_TEST);
}

static void the_number_of_attributes_is_bounded(void **state)
{
    struct http_header headers[CLOUDEVENT_ATTRIBUTES_MAX + 1] = {REQUIRED};
    static char names[CLOUDEVENT_ATTRIBUTES_MAX + 1][8];
    struct cloudevent event;

    (void)state;
    for (size_t i = 4; i < ARRAY_LEN(headers); i++) {
        snprintf(names[i], sizeof names[i], "ce-x%zu", i);
        headers[i] = (struct http_header){str_from(names[i]), STR("v")};
    }
    assert_int_equal(cloudevent_http_read(&arena, MEM_TEST, headers, CLOUDEVENT_ATTRIBUTES_MAX - 1, STR(""), &event, NULL),
                     E_OK);
    assert_int_equal(cloudevent_http_read(&arena, MEM_TEST, headers, CLOUDEVENT_ATTRIBUTES_MAX, STR(""), &event, NULL),
                     E_INVAL);
}

static void headers_are_written_encoded_or_raw(void **state)
{
    static const struct http_header headers[] = {REQUIRED, HEADER("ce-x", "a \"%25\" %E2%82%AC~!"),
                                                 HEADER("content-type", "text/plain"), HEADER("ce-gone", "g")};
    static const struct cloudevent_attribute more[] = {{.name = STR_INIT("type"), .value = STR_INIT("other")},
                                                       {.name = STR_INIT("hops"), .value = STR_INIT("3")},
                                                       {.name = STR_INIT("gone")}};
    static const char encoded[] = "ce-specversion: 1.0\r\nce-id: 1\r\nce-source: /s\r\nce-x: a%20%22%25%22%20%E2%82%AC~!\r\n"
                                  "ce-type: other\r\nce-hops: 3\r\n";
    static const char raw[] = "ce-specversion: 1.0\r\nce-id: 1\r\nce-source: /s\r\nce-x: a \"%\" \xe2\x82\xac~!\r\n"
                              "ce-type: other\r\nce-hops: 3\r\n";
    const struct cloudevent_extras extras = {more, ARRAY_LEN(more)};
    struct cloudevent event;

    (void)state;
    assert_int_equal(cloudevent_http_read(&arena, MEM_TEST, headers, ARRAY_LEN(headers), STR(""), &event, NULL), E_OK);
    for (int i = 0; i < 2; i++) {
        struct buf lines = {0};

        assert_int_equal(cloudevent_http_write(&lines, MEM_TEST, &event, &extras,
                                               i ? CLOUDEVENT_ENCODING_NONE : CLOUDEVENT_ENCODING_PERCENT),
                         E_OK);
        assert_true(str_equal(buf_str(&lines), i ? STR(raw) : STR(encoded)));
        buf_free(&lines, MEM_TEST);
    }
    /* The event was not touched. */
    assert_true(str_equal(event.type, STR("t")));
    assert_int_equal(event.n_attributes, 7);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_content_type_says_the_mode, teardown),
        cmocka_unit_test_teardown(a_binary_event_is_read_in_place, teardown),
        cmocka_unit_test_teardown(values_are_decoded_once, teardown),
        cmocka_unit_test_teardown(what_is_no_event_is_told, teardown),
        cmocka_unit_test_teardown(version_0_3_stays_what_it_is, teardown),
        cmocka_unit_test_teardown(the_number_of_attributes_is_bounded, teardown),
        cmocka_unit_test_teardown(headers_are_written_encoded_or_raw, teardown),
    };

    return cmocka_run_group_tests_name("cloudevent_http", tests, NULL, NULL);
}
