#include "core/to_mqtt_template.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/check.h"

static const struct str groups[] = {STR_INIT("d"), STR_INIT("rest")};

struct parse_case {
    const char *text;
    err result;
};

static void only_sound_templates_are_accepted(void **state)
{
    static const struct parse_case cases[] = {
        {"in/{d}/x", E_OK},     {"{rest#}", E_OK},        {"in/{header.kind}", E_OK}, {"{topic}/{key}/{partition}", E_OK},
        {"a {{b}} c", E_OK},    {"in/{nobody}", E_INVAL}, {"in/{", E_INVAL},          {"in/}", E_INVAL},
        {"in/{d", E_INVAL},     {"in/+", E_INVAL},        {"in/#", E_INVAL},          {"in/{header.}", E_INVAL},
        {"in/{}", E_INVAL},     {"in/{#}", E_INVAL},      {"bell \a/{d}", E_INVAL},   {"not utf-8 \xff", E_INVAL},
        {"\xc3\xa9/{d}", E_OK},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct arena a = {0};
        struct to_mqtt_template t = {0};
        struct errinfo ei = {0};

        assert_int_equal(to_mqtt_template_parse(&a, str_from(cases[i].text), groups, 2, &t, &ei), cases[i].result);
        assert_int_equal(ei.text[0] != '\0', cases[i].result != E_OK);
        arena_free(&a, MEM_MESSAGE);
    }
}

struct filled {
    struct str d, rest, header, key;
};

static struct str value(void *context, const struct to_mqtt_piece *piece)
{
    const struct filled *f = context;

    switch (piece->variable) {
    case TO_MQTT_VARIABLE_GROUP:
        return piece->index == 0 ? f->d : f->rest;
    case TO_MQTT_VARIABLE_HEADER:
        assert_true(str_equal(piece->name, STR("kind")));
        return f->header;
    case TO_MQTT_VARIABLE_KEY:
        return f->key;
    default:
        return STR("7");
    }
}

struct write_case {
    const char *text;
    struct filled values;
    const char *topic; /* NULL: refused */
};

static void values_stand_only_where_they_may(void **state)
{
    static const struct write_case cases[] = {
        {"in/{d}", {.d = STR_INIT("dev-1")}, "in/dev-1"},
        {"in/{d}", {.d = STR_INIT("a/b")}, NULL},
        {"in/{d#}", {.d = STR_INIT("a/b")}, "in/a/b"},
        {"in/{d}", {.d = STR_INIT("")}, NULL},
        {"in/{d}", {.d = STR_INIT("+")}, NULL},
        {"in/{d#}", {.d = STR_INIT("a/#")}, NULL},
        {"in/{d}", {.d = STR_INIT("a\x01")}, NULL},
        {"in/{d}", {.d = STR_INIT("\xff")}, NULL},
        {"in/{d}", {.d = STR_INIT("\xc3\xa9")}, "in/\xc3\xa9"},
        {"{d}/x", {.d = STR_INIT("$SYS")}, NULL},
        {"x/{d}", {.d = STR_INIT("$SYS")}, "x/$SYS"},
        {"$own/{d}", {.d = STR_INIT("v")}, "$own/v"},
        {"{header.kind}-{d}/{rest#}/{partition}",
         {.d = STR_INIT("v"), .header = STR_INIT("k"), .rest = STR_INIT("r/s")},
         "k-v/r/s/7"},
        {"{{{key}}}", {.key = STR_INIT("k")}, "{k}"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct filled filled = cases[i].values;
        struct to_mqtt_values values = {&filled, value};
        struct arena a = {0};
        struct to_mqtt_template t = {0};
        struct errinfo ei = {0};
        struct buf out = {0};
        err e;

        assert_int_equal(to_mqtt_template_parse(&a, str_from(cases[i].text), groups, 2, &t, &ei), E_OK);
        e = to_mqtt_template_write(&t, &values, &out);
        assert_int_equal(e, cases[i].topic ? E_OK : E_INVAL);
        if (cases[i].topic)
            assert_true(str_equal(buf_str(&out), str_from(cases[i].topic)));
        buf_free(&out, MEM_MESSAGE);
        arena_free(&a, MEM_MESSAGE);
    }
}

static void a_topic_is_never_longer_than_mqtt_allows(void **state)
{
    static char long_text[TO_MQTT_TOPIC_MAX_BYTES];
    struct filled filled = {.d = {long_text, sizeof long_text}};
    struct to_mqtt_values values = {&filled, value};
    struct arena a = {0};
    struct to_mqtt_template t = {0};
    struct errinfo ei = {0};
    struct buf out = {0};

    (void)state;
    memset(long_text, 'x', sizeof long_text);
    assert_int_equal(to_mqtt_template_parse(&a, STR("a{d}"), groups, 1, &t, &ei), E_OK);
    assert_int_equal(to_mqtt_template_write(&t, &values, &out), E_LIMIT);
    buf_consume(&out, buf_size(&out));
    filled.d.n--;
    assert_int_equal(to_mqtt_template_write(&t, &values, &out), E_OK);
    assert_int_equal(buf_size(&out), TO_MQTT_TOPIC_MAX_BYTES);
    buf_free(&out, MEM_MESSAGE);
    arena_free(&a, MEM_MESSAGE);
}

struct meet_case {
    const char *text, *filter;
    bool can_meet;
};

static void meeting_a_filter_is_seen(void **state)
{
    static const struct meet_case cases[] = {
        {"in/{d}", "in/+", true},
        {"in/{d}", "in/#", true},
        {"in/{d}", "#", true},
        {"in/{d}", "out/#", false},
        {"in/{d}", "in/+/x", false},
        {"in/{d}", "in", false},
        {"in/{d}/up", "in/+/down", false},
        {"in/{d}/up", "in/{dev}/up", true},
        {"in/{d#}", "in/a/b/c", true},
        {"in", "in/#", true},
        {"in", "in/{rest#}", true},
        {"a/b", "a/b", true},
        {"a/b", "a/c", false},
        {"a/x{d}", "a/y", true},
        {"a/", "a/+", true},
        {"a/b/c", "a/b", false},
        {"{d}", "+", true},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct arena a = {0};
        struct to_mqtt_template t = {0};
        struct errinfo ei = {0};

        assert_int_equal(to_mqtt_template_parse(&a, str_from(cases[i].text), groups, 2, &t, &ei), E_OK);
        assert_int_equal(to_mqtt_template_can_meet(&t, str_from(cases[i].filter)), cases[i].can_meet);
        arena_free(&a, MEM_MESSAGE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_sound_templates_are_accepted),
        cmocka_unit_test(values_stand_only_where_they_may),
        cmocka_unit_test(a_topic_is_never_longer_than_mqtt_allows),
        cmocka_unit_test(meeting_a_filter_is_seen),
    };

    return cmocka_run_group_tests_name("to_mqtt_template", tests, NULL, NULL);
}
