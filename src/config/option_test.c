#include "config/option.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "config/setter.h"
#include "config/value.h"

static bool is_single(enum option_type type)
{
    return type > OPTION_STRINGS;
}

static void every_default_is_a_value_its_own_option_accepts(void **state)
{
    (void)state;
    for (size_t i = 0; i < option_count; i++) {
        const struct option *o = &option_table[i];
        struct setter_reason why = {0};
        char room[sizeof(struct config_address)];

        if (!o->initial)
            continue;
        assert_true(is_single(o->type));
        if (!setter_write(o, str_from(o->initial), room, &why))
            fail_msg("%s: %s", o->path, why.text);
    }
}

/* Zero bytes are a number, but nobody has thought about them. */
static void every_number_has_a_default_and_a_range(void **state)
{
    (void)state;
    for (size_t i = 0; i < option_count; i++) {
        const struct option *o = &option_table[i];

        if (o->type == OPTION_NUMBER || o->type == OPTION_SIZE || o->type == OPTION_DURATION || o->type == OPTION_BOOL)
            assert_non_null(o->initial);
        if (o->type == OPTION_CHOICE && !(o->flags & OPTION_REQUIRED))
            assert_non_null(o->initial);
        if (o->type != OPTION_SECTION && o->type != OPTION_BOOL && o->type != OPTION_ADDRESS && !o->choices && o->max <= o->min)
            fail_msg("%s has no range", o->path);
        assert_int_equal(o->type == OPTION_CHOICE, o->choices && o->type != OPTION_PROPERTIES);
        assert_int_equal(o->type == OPTION_LIST || o->type == OPTION_MAP, o->element_bytes > 0);
    }
}

static void every_help_is_made_of_sentences(void **state)
{
    (void)state;
    for (size_t i = 0; i < option_count; i++) {
        const char *help = option_table[i].help;

        if (strlen(help) < 10 || help[strlen(help) - 1] != '.')
            fail_msg("%s: %s", option_table[i].path, help);
    }
}

static void paths_are_unique_and_lead_through_the_index(void **state)
{
    struct option_index index;

    (void)state;
    option_index_init(&index);
    for (size_t i = 0; i < option_count; i++) {
        assert_ptr_equal(option_at(str_from(option_table[i].path)), &option_table[i]);
        assert_true(index.key[i].n > 0);
    }
    int kafka = option_find(&index, option_root(), STR("kafka"));
    assert_int_not_equal(kafka, OPTION_NONE);
    assert_string_equal(option_table[option_find(&index, kafka, STR("bootstrap"))].path, "kafka.bootstrap");
    assert_string_equal(option_table[option_find(&index, kafka, STR("properties"))].path, "kafka.properties.*");
    assert_int_equal(option_find(&index, kafka, STR("zzz")), OPTION_NONE);
    assert_int_equal(option_find_nearest(&index, kafka, STR("zzz")), OPTION_NONE);
    assert_string_equal(option_table[option_find_nearest(&index, kafka, STR("bootsrtap"))].path, "kafka.bootstrap");
    assert_null(option_at(STR("kafka.nothing")));
    assert_null(option_at(STR("")));
}

static void names_are_checked_character_by_character(void **state)
{
    static const struct {
        enum option_characters characters;
        const char *text;
        bool want;
    } rows[] = {
        {OPTION_TOPIC, "aZ09._-", true},   {OPTION_TOPIC, "a:b", false},      {OPTION_TOPIC, "a b", false},
        {OPTION_TOPIC, "\xc3\xa9", false}, {OPTION_DEVICE, "4711:a=b", true}, {OPTION_DEVICE, "a@b", false},
        {OPTION_DEVICE, "a/b", false},     {OPTION_ANY, "a @/", true},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(option_has_only(rows[i].characters, str_from(rows[i].text)), rows[i].want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_default_is_a_value_its_own_option_accepts),
        cmocka_unit_test(every_number_has_a_default_and_a_range),
        cmocka_unit_test(every_help_is_made_of_sentences),
        cmocka_unit_test(paths_are_unique_and_lead_through_the_index),
        cmocka_unit_test(names_are_checked_character_by_character),
    };

    return cmocka_run_group_tests_name("option", tests, NULL, NULL);
}
