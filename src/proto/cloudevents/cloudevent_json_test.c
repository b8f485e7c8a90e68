#include "proto/cloudevents/cloudevent_json.h"

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

#define EVENT(more)     "{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"/s\",\"type\":\"t\"" more "}"
#define OLD_EVENT(more) "{\"specversion\":\"0.3\",\"id\":\"1\",\"source\":\"/s\",\"type\":\"t\"" more "}"

static struct cloudevent read_event(struct str document)
{
    struct errinfo ei = {0};
    struct cloudevent event;

    if (cloudevent_json_read(&arena, MEM_TEST, document, &event, &ei) != E_OK)
        fail_msg("%.*s: %s", STR_ARG(document), ei.text);
    return event;
}

static void attributes_become_their_canonical_text(void **state)
{
    static const struct {
        const char *json, *value;
        enum cloudevent_type type;
    } rows[] = {
        {"\"text\"", "text", CLOUDEVENT_STRING},
        {"\"\"", "", CLOUDEVENT_STRING},
        {"\"\\u20ac \\ud83d\\ude00\"", "\xe2\x82\xac \xf0\x9f\x98\x80", CLOUDEVENT_STRING},
        {"true", "true", CLOUDEVENT_BOOLEAN},
        {"false", "false", CLOUDEVENT_BOOLEAN},
        {"0", "0", CLOUDEVENT_INTEGER},
        {"-0", "0", CLOUDEVENT_INTEGER},
        {"2147483647", "2147483647", CLOUDEVENT_INTEGER},
        {"-2147483648", "-2147483648", CLOUDEVENT_INTEGER},
        {"null", NULL, CLOUDEVENT_STRING},
    };
    char document[200];
    struct str value;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cloudevent event;

        snprintf(document, sizeof document, EVENT(",\"x\":%s"), rows[i].json);
        event = read_event(str_from(document));
        assert_int_equal(cloudevent_find(&event, STR("x"), &value), rows[i].value != NULL);
        if (!rows[i].value)
            continue;
        assert_true(str_equal(value, str_from(rows[i].value)));
        assert_int_equal(event.attributes[4].type, rows[i].type);
    }
}

static void data_is_what_its_type_says(void **state)
{
    static const struct {
        const char *document, *data;
        enum cloudevent_data kind;
    } rows[] = {
        {EVENT(""), "", CLOUDEVENT_NO_DATA},
        {EVENT(",\"data\": { \"a\" : [ 1 ,\"\\u0041\"] } "), "{ \"a\" : [ 1 ,\"\\u0041\"] }", CLOUDEVENT_JSON},
        {EVENT(",\"data\":null"), "null", CLOUDEVENT_JSON},
        {EVENT(",\"data\":\"a\\n\""), "\"a\\n\"", CLOUDEVENT_JSON},
        {EVENT(",\"data\":\"a\\n\",\"datacontenttype\":\"text/json\""), "\"a\\n\"", CLOUDEVENT_JSON},
        {EVENT(",\"data\":\"a\\n\",\"datacontenttype\":\"text/plain\""), "a\n", CLOUDEVENT_TEXT},
        {EVENT(",\"datacontenttype\":\"text/xml\",\"data\":\"<a/>\""), "<a/>", CLOUDEVENT_TEXT},
        {EVENT(",\"datacontenttype\":\"text/xml\",\"data\":12"), "12", CLOUDEVENT_JSON},
        {EVENT(",\"data_base64\":\"AGE=\""), NULL, CLOUDEVENT_BYTES},
        {EVENT(",\"data_base64\":\"AG\\u0045=\""), NULL, CLOUDEVENT_BYTES},
        {EVENT(",\"data_base64\":null"), "", CLOUDEVENT_NO_DATA},
        {EVENT(",\"data_base64\":null,\"data\":1"), "1", CLOUDEVENT_JSON},
        {OLD_EVENT(",\"datacontentencoding\":\"base64\",\"data\":\"AGE=\""), NULL, CLOUDEVENT_BYTES},
        {OLD_EVENT(",\"data\":\"AGE=\",\"datacontentencoding\":\"Base64\""), NULL, CLOUDEVENT_BYTES},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cloudevent event = read_event(str_from(rows[i].document));
        struct str want = rows[i].data ? str_from(rows[i].data) : STR("\0a"), ignored;

        assert_int_equal(event.data_kind, rows[i].kind);
        if (!str_equal(event.data, want))
            fail_msg("%s: %.*s", rows[i].document, STR_ARG(event.data));
        assert_false(cloudevent_find(&event, STR("datacontentencoding"), &ignored));
    }
}

static void what_is_no_event_is_told(void **state)
{
    static const struct {
        const char *document, *fault;
    } rows[] = {
        {"", "the event is not a JSON object"},
        {"[]", "the event is not a JSON object"},
        {"\xff", "the event is not UTF-8"},
        {"{", "the JSON is wrong, or nested too deep, at byte 1"},
        {EVENT("") "x", "the JSON is wrong, or nested too deep, at byte 55"},
        {EVENT(",\"data\":[1,]"), "the JSON is wrong, or nested too deep, at byte 65"},
        {EVENT(",\"x\":\"a\nb\""), "the JSON is wrong, or nested too deep, at byte"},
        {"{}", "attribute \"specversion\" is missing"},
        {"{\"specversion\":null}", "attribute \"specversion\" is missing"},
        {"{\"specversion\":\"1.0\",\"id\":\"\"}", "attribute \"id\" is empty"},
        {"{\"specversion\":\"1.1\",\"id\":\"1\",\"source\":\"s\",\"type\":\"t\"}", "specversion \"1.1\" is not supported: 1.0"},
        {"{\"specversion\":1.0}", "attribute \"specversion\" is not a string"},
        {EVENT(",\"subject\":1"), "attribute \"subject\" is not a string"},
        {EVENT(",\"time\":true"), "attribute \"time\" is not a string"},
        {EVENT(",\"datacontenttype\":{}"), "attribute \"datacontenttype\" is not a string"},
        {EVENT(",\"x\":{}"), "attribute \"x\" is an object"},
        {EVENT(",\"x\":[1]"), "attribute \"x\" is an array"},
        {EVENT(",\"x\":2147483648"), "attribute \"x\" is a number other than an integer of 32 bits"},
        {EVENT(",\"x\":-2147483649"), "attribute \"x\" is a number other than"},
        {EVENT(",\"x\":1.0"), "attribute \"x\" is a number other than"},
        {EVENT(",\"x\":1e1"), "attribute \"x\" is a number other than"},
        {EVENT(",\"x\":\"\\u0001\""), "attribute \"x\" has a control character"},
        {EVENT(",\"x\":\"\\u0000\""), "attribute \"x\" is not UTF-8"},
        {EVENT(",\"x\":\"\\ud800\""), "attribute \"x\" has half of a surrogate pair"},
        {EVENT(",\"id\":\"2\""), "\"id\" is there twice"},
        {EVENT(",\"\\u0069d\":\"2\""), "\"id\" is there twice"},
        {EVENT(",\"x\":null,\"x\":\"1\""), "\"x\" is there twice"},
        {EVENT(",\"data\":1,\"data\":2"), "\"data\" is there twice"},
        {EVENT(",\"data\":1,\"data_base64\":\"\""), "there are both data and data_base64"},
        {EVENT(",\"data_base64\":1"), "data_base64 is not a string"},
        {EVENT(",\"data_base64\":\"AGE\""), "data_base64 is not base64"},
        {OLD_EVENT(",\"datacontentencoding\":\"base64\",\"data\":\"*\""), "data is not base64"},
        {EVENT(",\"datacontenttype\":\"text/plain\",\"data\":\"\\udc00\""), "data has half of a surrogate pair"},
        {EVENT(",\"a_b\":1"), "\"a_b\" cannot be the name of an attribute: a-z and 0-9"},
        {EVENT(",\"Abc\":1"), "\"Abc\" cannot be the name of an attribute: they are lower-case"},
        {EVENT(",\"ID\":1"), "\"ID\" cannot be the name of an attribute: they are lower-case"},
        {EVENT(",\"\":null"), "\"\" cannot be the name of an attribute"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cloudevent event;
        struct errinfo ei = {0};

        assert_int_equal(cloudevent_json_read(&arena, MEM_TEST, str_from(rows[i].document), &event, &ei), E_INVAL);
        if (strncmp(ei.text, rows[i].fault, strlen(rows[i].fault)) != 0)
            fail_msg("%s: %s", rows[i].document, ei.text);
    }
}

static void attributes_and_depth_are_bounded(void **state)
{
    char document[4096];
    struct cloudevent event;

    (void)state;
    for (int n = CLOUDEVENT_ATTRIBUTES_MAX; n <= CLOUDEVENT_ATTRIBUTES_MAX + 1; n++) {
        size_t at = (size_t)snprintf(document, sizeof document,
                                     "{\"data\":1,\"specversion\":\"1.0\",\"id\":\"1\","
                                     "\"source\":\"/s\",\"type\":\"t\"");

        for (int i = 4; i < n; i++)
            at += (size_t)snprintf(document + at, sizeof document - at, ",\"x%d\":%d", i, i);
        snprintf(document + at, sizeof document - at, "}");
        assert_int_equal(cloudevent_json_read(&arena, MEM_TEST, str_from(document), &event, NULL),
                         n == CLOUDEVENT_ATTRIBUTES_MAX ? E_OK : E_INVAL);
    }
    for (int depth = JSONR_MAX_DEPTH; depth <= JSONR_MAX_DEPTH + 1; depth++) {
        char open[JSONR_MAX_DEPTH + 2] = "", close[JSONR_MAX_DEPTH + 2] = "";

        memset(open, '[', (size_t)depth);
        memset(close, ']', (size_t)depth);
        snprintf(document, sizeof document, EVENT(",\"data\":%s%s"), open, close);
        assert_int_equal(cloudevent_json_read(&arena, MEM_TEST, str_from(document), &event, NULL),
                         depth == JSONR_MAX_DEPTH ? E_OK : E_INVAL);
    }
}

static void documents_come_out_as_they_went_in(void **state)
{
    static const char *const documents[] = {
        EVENT(""),
        EVENT(",\"n\":-5,\"b\":true,\"s\":\"\xe2\x82\xac \\\"\\\\\""),
        EVENT(",\"data\":{ \"a\" : 1.50 }"),
        EVENT(",\"data\":null"),
        EVENT(",\"datacontenttype\":\"application/json\",\"data\":\"x\""),
        EVENT(",\"datacontenttype\":\"text/plain\",\"data\":\"x\\u0009y\""),
        EVENT(",\"data_base64\":\"AP8=\""),
        OLD_EVENT(",\"datacontentencoding\":\"base64\",\"data\":\"AP8=\""),
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(documents); i++) {
        struct cloudevent event = read_event(str_from(documents[i]));
        struct buf out = {0};

        assert_int_equal(cloudevent_json_write(&out, MEM_TEST, &event, NULL), E_OK);
        if (!str_equal(buf_str(&out), str_from(documents[i])))
            fail_msg("%s became %.*s", documents[i], STR_ARG(buf_str(&out)));
        buf_free(&out, MEM_TEST);
    }
}

/* What came in binary mode. */
static void bytes_become_json_text_or_base64(void **state)
{
    static const struct {
        const char *version, *type;
        struct str data;
        const char *member;
    } rows[] = {
        {"1.0", "application/json", STR_INIT(" {\"a\":1} "), ",\"data\": {\"a\":1} }"},
        {"1.0", "application/json", STR_INIT("{\"a\":"), ",\"data_base64\":\"eyJhIjo=\"}"},
        {"1.0", "application/json", STR_INIT("\"\xff\""), ",\"data_base64\":\"Iv8i\"}"},
        {"1.0", "text/plain", STR_INIT("a\"b"), ",\"data\":\"a\\\"b\"}"},
        {"1.0", "text/plain; charset=UTF-8", STR_INIT("ab"), ",\"data\":\"ab\"}"},
        {"1.0", "text/plain;charset=iso-8859-1", STR_INIT("ab"), ",\"data_base64\":\"YWI=\"}"},
        {"1.0", "text/plain", STR_INIT("\xff"), ",\"data_base64\":\"/w==\"}"},
        {"1.0", "application/octet-stream", STR_INIT("ab"), ",\"data_base64\":\"YWI=\"}"},
        {"1.0", NULL, STR_INIT("ab"), ",\"data_base64\":\"YWI=\"}"},
        {"0.3", NULL, STR_INIT("ab"), ",\"datacontentencoding\":\"base64\",\"data\":\"YWI=\"}"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cloudevent_attribute attributes[] = {
            {.name = STR("specversion"), .value = str_from(rows[i].version)},
            {.name = STR("datacontenttype"), .value = str_from(rows[i].type)},
        };
        struct cloudevent event = {.attributes = attributes,
                                   .n_attributes = rows[i].type ? 2 : 1,
                                   .specversion = attributes[0].value,
                                   .datacontenttype = attributes[1].value,
                                   .data = rows[i].data,
                                   .data_kind = CLOUDEVENT_BYTES};
        struct str member = str_from(rows[i].member);
        struct buf out = {0};

        assert_int_equal(cloudevent_json_write(&out, MEM_TEST, &event, NULL), E_OK);
        if (buf_size(&out) < member.n || !str_equal(str_from_offset(buf_str(&out), buf_size(&out) - member.n), member))
            fail_msg("%.*s instead of %s", STR_ARG(buf_str(&out)), rows[i].member);
        buf_free(&out, MEM_TEST);
    }
}

static void extras_are_appended_or_replace(void **state)
{
    static const struct cloudevent_attribute more[] = {
        {.name = STR_INIT("hops"), .value = STR_INIT("3"), .type = CLOUDEVENT_INTEGER},
        {.name = STR_INIT("type"), .value = STR_INIT("u")},
        {.name = STR_INIT("x")},
    };
    const struct cloudevent_extras extras = {more, ARRAY_LEN(more)};
    struct cloudevent event = read_event(STR(EVENT(",\"x\":1,\"data\":[]")));
    struct buf out = {0};

    (void)state;
    assert_int_equal(cloudevent_json_write(&out, MEM_TEST, &event, &extras), E_OK);
    assert_true(str_equal(
        buf_str(&out), STR("{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"/s\",\"hops\":3,\"type\":\"u\",\"data\":[]}")));
    buf_free(&out, MEM_TEST);
}

static void a_batch_is_taken_apart(void **state)
{
    static const char *const items[] = {"{\"a\":[1,2]}", "\"x\\\"y\"", "null", "[]"};
    struct cloudevent_batch batch;
    struct str item;

    (void)state;
    assert_int_equal(cloudevent_json_begin(&batch, STR(" [ {\"a\":[1,2]} , \"x\\\"y\",null,[] ] "), 4), E_OK);
    for (size_t i = 0; i < ARRAY_LEN(items); i++) {
        assert_int_equal(cloudevent_json_next(&batch, &item), E_OK);
        assert_true(str_equal(item, str_from(items[i])));
    }
    assert_int_equal(cloudevent_json_next(&batch, &item), E_CLOSED);
    assert_int_equal(cloudevent_json_begin(&batch, STR("[]"), 4), E_OK);
    assert_int_equal(cloudevent_json_next(&batch, &item), E_CLOSED);
    assert_int_equal(cloudevent_json_begin(&batch, STR("[1,2]"), 1), E_OK);
    assert_int_equal(cloudevent_json_next(&batch, &item), E_OK);
    assert_int_equal(cloudevent_json_next(&batch, &item), E_LIMIT);
}

static void what_is_no_batch_is_told(void **state)
{
    static const char *const texts[] = {"",      "{}",   "1",    "[1", "[1,", "[1,]", "[,1]",
                                        "[1 2]", "[1]x", "[1],", "[",  "[]]", "[\"]"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct cloudevent_batch batch;
        struct str item;
        err e = cloudevent_json_begin(&batch, str_from(texts[i]), 10);

        while (e == E_OK)
            e = cloudevent_json_next(&batch, &item);
        if (e != E_INVAL)
            fail_msg("%s is a batch", texts[i]);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(attributes_become_their_canonical_text, teardown),
        cmocka_unit_test_teardown(data_is_what_its_type_says, teardown),
        cmocka_unit_test_teardown(what_is_no_event_is_told, teardown),
        cmocka_unit_test_teardown(attributes_and_depth_are_bounded, teardown),
        cmocka_unit_test_teardown(documents_come_out_as_they_went_in, teardown),
        cmocka_unit_test_teardown(bytes_become_json_text_or_base64, teardown),
        cmocka_unit_test_teardown(extras_are_appended_or_replace, teardown),
        cmocka_unit_test_teardown(a_batch_is_taken_apart, teardown),
        cmocka_unit_test_teardown(what_is_no_batch_is_told, teardown),
    };

    return cmocka_run_group_tests_name("cloudevent_json", tests, NULL, NULL);
}
