#include "core/rule_template.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/check.h"

static struct arena arena;
static struct rule_filter filter;
static struct rule_variables variables;
static struct rule_template_error error;

static int open_scope(void **state)
{
    struct errinfo ei;

    (void)state;
    variables = (struct rule_variables){0};
    return rule_filter_parse(&arena, MEM_TEST, STR("x/{site}/{line}/{rest#}"), &filter, &ei) != E_OK;
}

static int drop_arena(void **state)
{
    (void)state;
    arena_free(&arena, MEM_TEST);
    return mem_used(MEM_TEST) != 0;
}

static err parse(const char *text, struct rule_template *out)
{
    struct rule_scope scope = {.filter = &filter};

    return rule_template_parse(&arena, MEM_TEST, str_from(text), &scope, &variables, out, &error);
}

static struct rule_template must_parse(const char *text)
{
    struct rule_template t;

    if (parse(text, &t) != E_OK)
        fail_msg("%s: %s", text, error.ei.text);
    return t;
}

/* The number of a variable as it is written in a template. */
static size_t number_of(const char *name)
{
    for (size_t i = 0; i < variables.n; i++)
        if (str_equal(variables.items[i].name, str_from(name)))
            return i;
    fail_msg("no variable %s", name);
    return 0;
}

static void values_stand_where_their_variables_do(void **state)
{
    struct rule_template t = must_parse("{{{site}}}-{client_id}{site}.{user_property.a b}{payload./x/y}!");
    struct str values[RULE_TEMPLATE_MAX_VARIABLES];
    char text[64];
    size_t n;

    (void)state;
    assert_int_equal(variables.n, 4); /* site once */
    values[number_of("site")] = STR("S");
    values[number_of("client_id")] = STR("c/1");
    values[number_of("a b")] = STR("");
    values[number_of("/x/y")] = STR("42");
    n = rule_template_size(&t, values);
    rule_template_write(&t, values, text);
    assert_true(str_equal((struct str){text, n}, STR("{S}-c/1S.42!")));
    t = must_parse("");
    assert_int_equal(rule_template_size(&t, values), 0);
    assert_true(rule_template_is_fixed(&t));
    t = must_parse("plain");
    assert_true(rule_template_is_fixed(&t) && str_equal(rule_template_fixed(&t), STR("plain")));
}

static void faulty_templates_are_refused(void **state)
{
    static const struct {
        const char *text, *unknown;
    } rows[] = {
        {"{", ""},
        {"}", ""},
        {"a}b", ""},
        {"{site", ""},
        {"{sit}", "sit"},
        {"{}", ""},
        {"{Client_id}", "Client_id"},
        {"{user_property.}", ""},
        {"{payload.}", ""},
        {"{payload.x}", ""},
        {"{payload./~}", ""},
        {"{site }", "site "},
        {"\xff", ""},
    };
    struct rule_template t;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (parse(rows[i].text, &t) == E_OK)
            fail_msg("%s was taken", rows[i].text);
        assert_true(error.ei.text[0]);
        assert_true(str_equal(error.unknown, str_from(rows[i].unknown)));
    }
}

static void events_have_no_variables_of_publishes(void **state)
{
    static const struct {
        const char *text;
        bool is_taken;
    } rows[] = {
        {"{client_id}.{user}.{tenant}.{device_id}", true},
        {"{payload./reason}", true},
        {"{topic}", false},
        {"{qos}", false},
        {"{user_property.a}", false},
        {"{site}", false},
    };
    struct rule_scope scope = {0};
    struct rule_template t;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        err e = rule_template_parse(&arena, MEM_TEST, str_from(rows[i].text), &scope, &variables, &t, &error);

        if ((e == E_OK) != rows[i].is_taken)
            fail_msg("%s: %s", rows[i].text, error.ei.text);
    }
}

static void topics_that_could_be_illegal_are_refused(void **state)
{
    static const struct {
        const char *text;
        bool is_taken;
    } rows[] = {
        {"plant.{site}", true},
        {"{site}.x", true},
        {"{client_id}", true},
        {"{topic}", true},
        {"{tenant}.{site}", true},
        {"{site}-{line}", true},
        {"a_{site}", true},
        {"{qos}", true},
        {"{site}", false},
        {"", false},
        {"{user}", false},
        {"{device_id}", false},
        {"{payload./a}", false},
        {"plant/{site}", false},
        {"a b", false},
        {"{site}{line}", false},
        {"{site}_{line}", false},
        {"{site}.{line}", false},
        {".", false},
        {"..", false},
        {"...", true},
        {".{site}", false},
        {"{site}.", false},
        {"{client_id}{site}", false},
        {"\xc3\xa9", false},
        {"{{}}", false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct errinfo ei = {0};
        struct rule_template t = must_parse(rows[i].text);
        err e = rule_template_check_topic(&t, &variables, 0, &ei);

        if ((e == E_OK) != rows[i].is_taken)
            fail_msg("%s: %s", rows[i].text, ei.text);
    }
}

static void a_topic_with_its_prefix_fits(void **state)
{
    char text[RULE_NAME_MAX_BYTES + 1];
    struct errinfo ei;
    struct rule_template t;

    (void)state;
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    t = must_parse(text);
    assert_int_equal(rule_template_check_topic(&t, &variables, 0, &ei), E_OK);
    assert_int_equal(rule_template_check_topic(&t, &variables, 1, &ei), E_INVAL);
}

static struct rule_name name_of(const struct rule_template *t, const struct str *values)
{
    struct rule_name name = {.max_bytes = RULE_NAME_MAX_BYTES};

    rule_template_write_name(t, values, &name);
    return name;
}

static void values_are_encoded_in_names(void **state)
{
    static const struct {
        const char *text, *value, *want;
    } rows[] = {
        {"{topic}", "a/b c/#\xc3\xa9", "a_2fb_20c_2f_23_c3_a9"},
        {"m.{topic}", "A-Z.0_9", "m.A-Z.0__9"},
        {"{topic}", ".", "_2e"},
        {"{topic}", "..", "_2e."},
        {"{topic}", ".x", "_2ex"},
        {"{topic}", "x.", "x."},
        {"a{topic}", ".", "a."},
        {"{topic}", "_2f", "__2f"},
        {"{topic}.{topic}", "v1.2", "v1_2e2.v1.2"},
        {"x.{topic}", "", "x."},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct str value = str_from(rows[i].value);
        struct rule_template t;

        variables.n = 0;
        t = must_parse(rows[i].text);
        struct rule_name name = name_of(&t, &value);
        if (!str_equal(rule_name_str(&name), str_from(rows[i].want)))
            fail_msg("%s: %.*s", rows[i].text, STR_ARG(rule_name_str(&name)));
    }
}

static void a_name_that_is_too_long_says_so(void **state)
{
    struct rule_template t = must_parse("{topic}");
    char text[RULE_NAME_MAX_BYTES + 1];
    struct str value = {text, RULE_NAME_MAX_BYTES};
    struct rule_name name;

    (void)state;
    memset(text, 'a', sizeof text);
    name = name_of(&t, &value);
    assert_true(!name.is_too_long && name.n == RULE_NAME_MAX_BYTES);
    value.n++;
    name = name_of(&t, &value);
    assert_true(name.is_too_long);
    text[0] = '/';
    value.n = RULE_NAME_MAX_BYTES - 1;
    name = name_of(&t, &value);
    assert_true(name.is_too_long);
}

/* Values of few characters, those that encode to more among them. */
static struct str random_value(char *out, unsigned *seed)
{
    static const char alphabet[] = "._-/a2efx\xc3";
    size_t n = (size_t)rand_r(seed) % 5;

    for (size_t i = 0; i < n; i++)
        out[i] = alphabet[(size_t)rand_r(seed) % (sizeof alphabet - 1)];
    return (struct str){out, n};
}

struct seen {
    char name[64];
    char values[3][8];
    size_t sizes[3];
};

static int compare_seen(const void *a, const void *b)
{
    return strcmp(((const struct seen *)a)->name, ((const struct seen *)b)->name);
}

static bool has_same_values(const struct seen *a, const struct seen *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a->sizes[i] != b->sizes[i] || memcmp(a->values[i], b->values[i], a->sizes[i]) != 0)
            return false;
    return true;
}

/* The property that the encoding exists for: every legal name comes from one list of values. */
static void different_values_never_meet(void **state)
{
    static const char *const templates[] = {"{topic}",
                                            "x.{topic}",
                                            "{client_id}.{topic}",
                                            "{client_id}-{topic}",
                                            "{tenant}.{client_id}.{topic}",
                                            "{tenant}2{client_id}ea{topic}",
                                            "..{topic}x"};
    enum { N = 20000 };
    static struct seen seen[N];
    unsigned seed = 7;

    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(templates); k++) {
        struct errinfo ei;
        struct rule_template t;

        variables.n = 0;
        t = must_parse(templates[k]);
        assert_int_equal(rule_template_check_topic(&t, &variables, 0, &ei), E_OK);
        for (size_t i = 0; i < N; i++) {
            struct str values[3];
            struct rule_name name;

            for (size_t v = 0; v < variables.n; v++) {
                values[v] = random_value(seen[i].values[v], &seed);
                if (values[v].n == 0) /* these are never empty */
                    values[v] = (struct str){memcpy(seen[i].values[v], "e", 1), 1};
                seen[i].sizes[v] = values[v].n;
            }
            name = name_of(&t, values);
            assert_true(!name.is_too_long && name.n > 0 && rule_name_is_legal(rule_name_str(&name)));
            assert_false(str_equal(rule_name_str(&name), STR(".")) || str_equal(rule_name_str(&name), STR("..")));
            snprintf(seen[i].name, sizeof seen[i].name, "%.*s", STR_ARG(rule_name_str(&name)));
        }
        qsort(seen, N, sizeof *seen, compare_seen);
        for (size_t i = 1; i < N; i++)
            if (strcmp(seen[i - 1].name, seen[i].name) == 0 && !has_same_values(&seen[i - 1], &seen[i], variables.n))
                fail_msg("%s: two lists of values give %s", templates[k], seen[i].name);
    }
}

static void templates_that_can_meet_are_found(void **state)
{
    static const struct {
        const char *a, *b;
        bool can;
    } rows[] = {
        {"a", "a", true},
        {"a", "b", false},
        {"a.{site}", "a.b", true},
        {"a.{site}", "b.{site}", false},
        {"a.{site}", "a", false},
        {"{topic}", "anything", true},
        {"{site}.x", "y.{line}", true},
        {"{site}.x", "{line}.y", false},
        {"a{site}c", "abc", true},
        {"a{site}c", "ac", true},
        {"a{site}c", "ab", false},
        {"a.{site}.b", "a.{line}.c.b", true},
        {"", "{topic}", true},
        {"{site}x{line}", "yz", false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rule_template a = must_parse(rows[i].a), b = must_parse(rows[i].b);

        if (rule_template_can_meet(&a, &b) != rows[i].can || rule_template_can_meet(&b, &a) != rows[i].can)
            fail_msg("%s and %s", rows[i].a, rows[i].b);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(values_stand_where_their_variables_do, open_scope, drop_arena),
        cmocka_unit_test_setup_teardown(faulty_templates_are_refused, open_scope, drop_arena),
        cmocka_unit_test_setup_teardown(events_have_no_variables_of_publishes, open_scope, drop_arena),
        cmocka_unit_test_setup_teardown(topics_that_could_be_illegal_are_refused, open_scope, drop_arena),
        cmocka_unit_test_setup_teardown(a_topic_with_its_prefix_fits, open_scope, drop_arena),
        cmocka_unit_test_setup_teardown(values_are_encoded_in_names, open_scope, drop_arena),
        cmocka_unit_test_setup_teardown(a_name_that_is_too_long_says_so, open_scope, drop_arena),
        cmocka_unit_test_setup_teardown(different_values_never_meet, open_scope, drop_arena),
        cmocka_unit_test_setup_teardown(templates_that_can_meet_are_found, open_scope, drop_arena),
    };

    return cmocka_run_group_tests_name("rule_template", tests, NULL, NULL);
}
