#include "adapter/mqtt/mqtt_aliases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"

enum { MAXIMUM = 5 };

static void an_alias_is_what_it_was_set_to_last(void **state)
{
    static const struct {
        uint16_t alias;
        const char *topic;
    } steps[] = {{1, "a"}, {5, "e"}, {1, "b/c"}, {3, "x"}, {3, "x"}, {1, "a"}};
    const char *now[MAXIMUM + 1] = {NULL};
    struct mqtt_aliases *aliases = NULL;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        assert_int_equal(mqtt_aliases_set(&aliases, MAXIMUM, steps[i].alias, str_from(steps[i].topic)), E_OK);
        now[steps[i].alias] = steps[i].topic;
        for (uint16_t alias = 1; alias <= MAXIMUM; alias++)
            assert_true(str_equal(mqtt_aliases_find(aliases, alias), str_from(now[alias])));
    }
    mqtt_aliases_free(aliases);
}

static void the_topic_is_copied(void **state)
{
    char topic[] = "abc";
    struct mqtt_aliases *aliases = NULL;

    (void)state;
    assert_int_equal(mqtt_aliases_set(&aliases, MAXIMUM, 2, str_from(topic)), E_OK);
    topic[0] = 'x';
    assert_true(str_equal(mqtt_aliases_find(aliases, 2), STR("abc")));
    mqtt_aliases_free(aliases);
}

static void what_was_not_set_is_empty(void **state)
{
    struct mqtt_aliases *aliases = NULL;

    (void)state;
    assert_int_equal(mqtt_aliases_find(aliases, 1).n, 0);
    assert_int_equal(mqtt_aliases_set(&aliases, MAXIMUM, 1, STR("a")), E_OK);
    assert_int_equal(mqtt_aliases_find(aliases, 2).n, 0);
    assert_int_equal(mqtt_aliases_find(aliases, MAXIMUM + 1).n, 0);
    assert_int_equal(mqtt_aliases_find(aliases, UINT16_MAX).n, 0);
    mqtt_aliases_free(aliases);
    mqtt_aliases_free(NULL);
}

static void without_memory_the_alias_stays_as_it_was(void **state)
{
    int64_t before = mem_used(MEM_ADAPTER);

    (void)state;
    for (unsigned nth = 1; nth <= 2; nth++) {
        struct mqtt_aliases *aliases = NULL;

        mem_fail_after(nth);
        assert_int_equal(mqtt_aliases_set(&aliases, MAXIMUM, 1, STR("a")), E_NOMEM);
        mem_fail_after(0);
        assert_int_equal(mqtt_aliases_find(aliases, 1).n, 0);
        assert_int_equal(mqtt_aliases_set(&aliases, MAXIMUM, 1, STR("a")), E_OK);
        mem_fail_after(1);
        assert_int_equal(mqtt_aliases_set(&aliases, MAXIMUM, 1, STR("b")), E_NOMEM);
        mem_fail_after(0);
        assert_true(str_equal(mqtt_aliases_find(aliases, 1), STR("a")));
        mqtt_aliases_free(aliases);
    }
    assert_int_equal(mem_used(MEM_ADAPTER), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_alias_is_what_it_was_set_to_last),
        cmocka_unit_test(the_topic_is_copied),
        cmocka_unit_test(what_was_not_set_is_empty),
        cmocka_unit_test(without_memory_the_alias_stays_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
