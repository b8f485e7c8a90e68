#include "core/command_id.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"

static void a_request_id_carries_the_correlation_id(void **state)
{
    static const struct {
        const char *correlation_id, *request_id;
    } rows[] = {
        {"abc", "203abc"},
        {"0123456789abcdef", "2100123456789abcdef"},
        {"\xc3\xa4", "201\xc3\xa4"},                   /* one unit of two bytes */
        {"\xf0\x9f\x98\x80x", "203\xf0\x9f\x98\x80x"}, /* two units of four bytes, and one */
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char id[COMMAND_ID_BYTES];
        size_t n = command_id_write(str_from(rows[i].correlation_id), id);
        struct str back;

        assert_true(command_id_is_legal(str_from(rows[i].correlation_id)));
        assert_true(str_equal((struct str){id, n}, str_from(rows[i].request_id)));
        assert_true(command_id_read((struct str){id, n}, &back));
        assert_true(str_equal(back, str_from(rows[i].correlation_id)));
    }
}

static void the_longest_correlation_ids_fit(void **state)
{
    static const char *const units[] = {"x", "\xe2\x82\xac"}; /* of one and of three bytes */
    char text[3 * 256], id[COMMAND_ID_BYTES];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        size_t bytes = strlen(units[i]), n;
        struct str back;

        for (size_t k = 0; k < 256; k++)
            memcpy(text + k * bytes, units[i], bytes);
        assert_false(command_id_is_legal((struct str){text, 256 * bytes}));
        assert_true(command_id_is_legal((struct str){text, 255 * bytes}));
        n = command_id_write((struct str){text, 255 * bytes}, id);
        assert_int_equal(n, 3 + 255 * bytes);
        assert_memory_equal(id, "2ff", 3);
        assert_true(command_id_read((struct str){id, n}, &back));
        assert_int_equal(back.n, 255 * bytes);
    }
}

static void what_would_break_a_topic_is_no_correlation_id(void **state)
{
    static const char *const rows[] = {"", "a/b", "a+b", "#", "a\nb", "\x7f", "\xff\xfe", "\xc0\xa0", "\xed\xa0\x80"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_false(command_id_is_legal(str_from(rows[i])));
    assert_false(command_id_is_legal((struct str){"a\0b", 3}));
}

static void request_ids_of_others_are_read_if_kafka_gave_them(void **state)
{
    static const struct {
        const char *request_id, *correlation_id; /* NULL: refused */
    } rows[] = {
        {"203abc", "abc"},
        {"303abcdevice-1", "abc"}, /* with what follows */
        {"20Aabcdefghij", "abcdefghij"},
        {"003abc", NULL}, /* AMQP */
        {"103abc", NULL},
        {"403abc", NULL}, /* Pub/Sub */
        {"803abc", NULL},
        {"9zz", NULL},
        {"", NULL},
        {"2", NULL},
        {"203", NULL},
        {"203ab", NULL},
        {"2g3abc", NULL},
        {"2 3abc", NULL},
        {"200abc", NULL},
        {"203a\xff"
         "c",
         NULL},
        {"201\xf0\x9f\x98\x80", NULL}, /* half of a code point */
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct str got = {0};

        assert_int_equal(command_id_read(str_from(rows[i].request_id), &got), rows[i].correlation_id != NULL);
        assert_true(str_equal(got, str_from(rows[i].correlation_id)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_id_carries_the_correlation_id),
        cmocka_unit_test(the_longest_correlation_ids_fit),
        cmocka_unit_test(what_would_break_a_topic_is_no_correlation_id),
        cmocka_unit_test(request_ids_of_others_are_read_if_kafka_gave_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
