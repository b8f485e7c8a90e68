#include "core/command_topic.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"

static void filters_of_five_levels_are_read(void **state)
{
    static const struct {
        const char *filter;
        bool is_short_endpoint, is_short_request, is_for_all;
        const char *tenant, *device;
    } rows[] = {
        {"command///req/#", false, false, false, "", ""},   {"c///q/#", true, true, false, "", ""},
        {"c///req/#", true, false, false, "", ""},          {"command//+/q/#", false, true, true, "", ""},
        {"c//D/q/#", true, true, false, "", "D"},           {"c/T/D/q/#", true, true, false, "T", "D"},
        {"command/T/+/req/#", false, false, true, "T", ""}, {"command/T//req/#", false, false, false, "T", ""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct command_filter f;

        assert_int_equal(command_topic_parse_filter(str_from(rows[i].filter), &f), E_OK);
        assert_int_equal(f.is_short_endpoint, rows[i].is_short_endpoint);
        assert_int_equal(f.is_short_request, rows[i].is_short_request);
        assert_int_equal(f.is_for_all, rows[i].is_for_all);
        assert_true(str_equal(f.tenant, str_from(rows[i].tenant)));
        assert_true(str_equal(f.device, str_from(rows[i].device)));
    }
}

static void other_filters_are_refused_or_not_ours(void **state)
{
    static const struct {
        const char *filter;
        err result;
    } rows[] = {
        {"a/b/c", E_NOTFOUND},
        {"commands///req/#", E_NOTFOUND},
        {"#", E_NOTFOUND},
        {"+/+/+/req/#", E_NOTFOUND},
        {"", E_NOTFOUND},
        {"command", E_INVAL},
        {"c/#", E_INVAL},
        {"command///req", E_INVAL},
        {"command/+/+/req/#", E_INVAL},
        {"command///req/#/x", E_INVAL},
        {"command///req/+", E_INVAL},
        {"c//d/x/#", E_INVAL},
        {"c///s/#", E_INVAL},
        {"c//#", E_INVAL},
        {"c///q/x/#", E_INVAL},
        {"c//a+/q/#", E_INVAL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct command_filter f;

        assert_int_equal(command_topic_parse_filter(str_from(rows[i].filter), &f), rows[i].result);
    }
}

static void topics_spell_what_the_filter_spelled(void **state)
{
    static const struct {
        const char *filter, *device, *request_id, *subject, *topic;
    } rows[] = {
        {"c///q/#", "", "", "reboot", "c///q//reboot"},
        {"command///req/#", "", "203abc", "set", "command///req/203abc/set"},
        {"command///q/#", "", "", "set", "command///q//set"},
        {"c//+/q/#", "d2", "203abc", "set", "c//d2/q/203abc/set"},
        {"c//+/q/#", "", "", "set", "c///q//set"}, /* a gateway's own command */
        {"c//d1/q/#", "", "", "set", "c//d1/q//set"},
        {"c/T/d1/q/#", "", "", "set", "c/T/d1/q//set"},
        {"c//d2/q/#", "d2", "", "set", "c//d2/q//set"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct command_address address = {.device = str_from(rows[i].device),
                                          .request_id = str_from(rows[i].request_id),
                                          .subject = str_from(rows[i].subject)};
        struct command_filter f;
        char topic[64];
        size_t n;

        assert_int_equal(command_topic_parse_filter(str_from(rows[i].filter), &f), E_OK);
        n = command_topic_size(&f, &address);
        assert_int_equal(n, strlen(rows[i].topic));
        command_topic_format(&f, &address, topic);
        assert_memory_equal(topic, rows[i].topic, n);
    }
}

static void a_message_id_stands_behind_the_topic_when_it_is_wanted(void **state)
{
    static const struct {
        const char *message_id, *topic;
    } rows[] = {
        {"", "c///q//set"},
        {"m-1", "c///q//set/?message-id=m-1"},
        {"hono.command.T/0/17", "c///q//set/?message-id=hono.command.T%2F0%2F17"},
        {"a+b #%~&=", "c///q//set/?message-id=a%2Bb%20%23%25~%26%3D"},
        {"\xc3\xa9", "c///q//set/?message-id=%C3%A9"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct command_address address = {.subject = STR("set"), .message_id = str_from(rows[i].message_id)};
        struct command_filter f;
        char topic[64];
        size_t n;

        assert_int_equal(command_topic_parse_filter(STR("c///q/#"), &f), E_OK);
        n = command_topic_size(&f, &address);
        assert_int_equal(n, strlen(rows[i].topic));
        command_topic_format(&f, &address, topic);
        assert_memory_equal(topic, rows[i].topic, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filters_of_five_levels_are_read),
        cmocka_unit_test(other_filters_are_refused_or_not_ours),
        cmocka_unit_test(topics_spell_what_the_filter_spelled),
        cmocka_unit_test(a_message_id_stands_behind_the_topic_when_it_is_wanted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
