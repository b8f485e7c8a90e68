#include "broker/topic_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/check.h"

enum { TEXT = 40, MANY = 300, ROUNDS = 200 };

static const struct str ten = STR_INIT("t"), other = STR_INIT("u");

/* The visited nodes' values, which the tests make the stored text. */
struct visits {
    const char *texts[2 * MANY];
    size_t n;
};

static void on_visit(void *context, struct topic_node *node)
{
    struct visits *v = context;

    assert_true(v->n < ARRAY_LEN(v->texts));
    v->texts[v->n++] = node->value;
}

static bool has_visited(const struct visits *v, const char *text)
{
    size_t n = 0;

    for (size_t i = 0; i < v->n; i++)
        n += strcmp(v->texts[i], text) == 0;
    assert_true(n <= 1); /* nothing is visited twice */
    return n == 1;
}

static void add(struct topic_tree *tree, struct str tenant, const char *text)
{
    struct topic_node *node = topic_tree_insert(tree, tenant, str_from(text));

    assert_non_null(node);
    node->value = (void *)(uintptr_t)text;
}

static void drop(struct topic_tree *tree, struct str tenant, const char *text)
{
    struct topic_node *node = topic_tree_find(tree, tenant, str_from(text));

    assert_non_null(node);
    node->value = NULL;
    topic_tree_prune(tree, node);
}

/* MQTT 5.0 section 4.7, as slowly as it is written there: level by level, wildcards at the top do not see `$`. */
static bool slow_match(const char *filter, const char *name, bool is_top)
{
    size_t f = strcspn(filter, "/"), n = strcspn(name, "/");
    bool is_wild = f == 1 && (*filter == '#' || *filter == '+');

    if (is_wild && is_top && *name == '$')
        return false;
    if (is_wild && *filter == '#')
        return true;
    if (!is_wild && (f != n || memcmp(filter, name, n) != 0))
        return false;
    if (filter[f] == '\0' || name[n] == '\0')
        return filter[f] == name[n] || strcmp(filter + f, "/#") == 0; /* `a/#` matches `a` */
    return slow_match(filter + f + 1, name + n + 1, false);
}

static void matching_follows_the_examples_of_section_4_7(void **state)
{
    static const struct {
        const char *filter, *name;
        bool matches;
    } rows[] = {
        {"sport/tennis/player1/#", "sport/tennis/player1", true},
        {"sport/tennis/player1/#", "sport/tennis/player1/ranking", true},
        {"sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", true},
        {"sport/#", "sport", true},
        {"#", "a/b", true},
        {"#", "/", true},
        {"sport/tennis/+", "sport/tennis/player1", true},
        {"sport/tennis/+", "sport/tennis/player1/ranking", false},
        {"sport/+", "sport", false},
        {"sport/+", "sport/", true},
        {"+/+", "/finance", true},
        {"/+", "/finance", true},
        {"+", "/finance", false},
        {"+", "a", true},
        {"#", "$SYS/x", false},
        {"+/monitor/Clients", "$SYS/monitor/Clients", false},
        {"$SYS/#", "$SYS/x", true},
        {"$SYS/#", "$SYS", true},
        {"$SYS/+", "$SYS/$x", true},
        {"a/#", "a/$x", true},
        {"a/+", "a/$x", true},
        {"+/#", "$SYS/x", false},
        {"a/b", "a/B", false},
        {"a/b", "a/b/", false},
        {"a//b", "a//b", true},
        {"a/+/b", "a//b", true},
        {"/", "/", true},
        {"+", "", true},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct topic_tree filters = {0}, names = {0};
        struct visits by_name = {0}, by_filter = {0};

        assert_int_equal(slow_match(rows[i].filter, rows[i].name, true), rows[i].matches);
        add(&filters, ten, rows[i].filter);
        add(&names, ten, rows[i].name);
        topic_tree_match_name(&filters, ten, str_from(rows[i].name), on_visit, &by_name);
        topic_tree_match_filter(&names, ten, str_from(rows[i].filter), on_visit, &by_filter);
        if (by_name.n != rows[i].matches || by_filter.n != rows[i].matches)
            fail_msg("%s and %s: %zu, %zu", rows[i].filter, rows[i].name, by_name.n, by_filter.n);
        topic_tree_free(&filters);
        topic_tree_free(&names);
    }
}

/* Few words, so that much coincides. */
static void random_topic(unsigned *seed, bool is_filter, char text[TEXT])
{
    static const char *const words[] = {"a", "b", "", "$a", "aa", "+", "#"};
    int levels = 1 + rand_r(seed) % 5;
    size_t n = 0;

    for (int i = 0; i < levels; i++) {
        const char *word = words[(unsigned)rand_r(seed) % (is_filter ? 7 : 5)];

        if (*word == '#' && i + 1 < levels)
            word = "+";
        n += (size_t)snprintf(text + n, TEXT - n, "%s%s", i ? "/" : "", word);
    }
    if (n == 0)
        snprintf(text, TEXT, "a");
}

static char texts[2 * MANY][TEXT];

static const char *text_at(const struct topic_tree *tree, size_t i)
{
    struct topic_node *node = topic_tree_find(tree, i % 2 ? other : ten, str_from(texts[i]));

    return node && node->value ? texts[i] : NULL;
}

/* Stored texts go in and out, for two tenants, and every look-up is checked against the slow matcher. */
static void matching_agrees_with_a_slow_matcher(bool are_filters)
{
    unsigned seed = are_filters ? 20261129 : 31;
    struct topic_tree tree = {0};

    for (size_t i = 0; i < MANY; i++)
        random_topic(&seed, are_filters, texts[i]);
    for (int round = 0; round < ROUNDS; round++) {
        char sought[TEXT];
        struct visits v = {0};
        size_t at = (size_t)rand_r(&seed) % MANY;
        struct str tenant = round % 2 ? other : ten;

        if (text_at(&tree, at))
            drop(&tree, at % 2 ? other : ten, texts[at]);
        for (size_t i = 0; i < 5; i++) {
            at = (size_t)rand_r(&seed) % MANY;
            add(&tree, at % 2 ? other : ten, texts[at]);
        }
        random_topic(&seed, !are_filters, sought);
        (are_filters ? topic_tree_match_name : topic_tree_match_filter)(&tree, tenant, str_from(sought), on_visit, &v);
        for (size_t i = 0; i < MANY; i++) {
            struct topic_node *node = topic_tree_find(&tree, tenant, str_from(texts[i]));
            bool is_stored = node && node->value;
            bool wanted = is_stored && (are_filters ? slow_match(texts[i], sought, true) : slow_match(sought, texts[i], true));

            if (has_visited(&v, texts[i]) != wanted)
                fail_msg("%s and %s: %d", texts[i], sought, wanted);
        }
    }
    for (size_t i = 0; i < MANY; i++)
        if (text_at(&tree, i))
            drop(&tree, i % 2 ? other : ten, texts[i]);
    assert_int_equal(tree.n_nodes, 0);
    topic_tree_free(&tree);
}

static void names_are_matched_against_filters_as_by_a_slow_matcher(void **state)
{
    (void)state;
    matching_agrees_with_a_slow_matcher(true);
}

static void filters_are_matched_against_names_as_by_a_slow_matcher(void **state)
{
    (void)state;
    matching_agrees_with_a_slow_matcher(false);
}

static void no_wildcard_crosses_tenants(void **state)
{
    struct topic_tree tree = {0};
    struct visits v = {0};

    (void)state;
    add(&tree, ten, "#");
    add(&tree, STR("+"), "+/x");
    add(&tree, STR("#"), "#");
    topic_tree_match_name(&tree, other, STR("a/x"), on_visit, &v);
    assert_int_equal(v.n, 0);
    topic_tree_match_name(&tree, ten, STR("a/x"), on_visit, &v);
    assert_int_equal(v.n, 1);
    topic_tree_match_filter(&tree, other, STR("#"), on_visit, &v);
    assert_int_equal(v.n, 1);
    topic_tree_free(&tree);
}

static void an_empty_tree_matches_nothing(void **state)
{
    struct topic_tree tree = {0};
    struct visits v = {0};

    (void)state;
    topic_tree_match_name(&tree, ten, STR("a"), on_visit, &v);
    topic_tree_match_filter(&tree, ten, STR("#"), on_visit, &v);
    assert_null(topic_tree_find(&tree, ten, STR("a")));
    assert_int_equal(v.n, 0);
    topic_tree_free(&tree);
}

static void insert_finds_the_node_that_is_there(void **state)
{
    struct topic_tree tree = {0};

    (void)state;
    add(&tree, ten, "a/b");
    assert_ptr_equal(topic_tree_insert(&tree, ten, STR("a/b")), topic_tree_find(&tree, ten, STR("a/b")));
    assert_int_equal(tree.n_nodes, 3); /* the tenant, `a`, `b` */
    topic_tree_free(&tree);
}

static void pruning_stops_at_what_is_still_in_use(void **state)
{
    struct topic_tree tree = {0};

    (void)state;
    add(&tree, ten, "a");
    add(&tree, ten, "a/b/c/d");
    add(&tree, ten, "a/b/+");
    drop(&tree, ten, "a/b/c/d");
    assert_int_equal(tree.n_nodes, 4);
    drop(&tree, ten, "a");
    assert_int_equal(tree.n_nodes, 4);
    assert_non_null(topic_tree_find(&tree, ten, STR("a/b/+")));
    drop(&tree, ten, "a/b/+");
    assert_int_equal(tree.n_nodes, 0);
    topic_tree_free(&tree);
}

/* A wildcard child that is gone must not be found by its shortcut. */
static void a_pruned_wildcard_matches_no_more(void **state)
{
    static const char *const filters[] = {"+", "#", "a/+", "a/#", "+/+"};
    struct topic_tree tree = {0};
    struct visits v = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(filters); i++)
        add(&tree, ten, filters[i]);
    for (size_t i = 0; i < ARRAY_LEN(filters); i++)
        drop(&tree, ten, filters[i]);
    topic_tree_match_name(&tree, ten, STR("a"), on_visit, &v);
    topic_tree_match_name(&tree, ten, STR("a/b"), on_visit, &v);
    assert_int_equal(v.n, 0);
    topic_tree_free(&tree);
}

static void an_insert_without_memory_leaves_the_tree_as_it_was(void **state)
{
    static const struct str deep = STR_INIT("a/b/c/d/e");
    struct topic_tree tree = {0};
    struct topic_node *node = NULL;
    int64_t before;
    unsigned nth;

    (void)state;
    add(&tree, ten, "a/b");
    before = mem_used(MEM_BROKER);
    for (nth = 1; !node; nth++) {
        mem_fail_after(nth);
        node = topic_tree_insert(&tree, ten, deep);
        mem_fail_after(0);
        if (!node) {
            assert_int_equal(tree.n_nodes, 3);
            assert_int_equal(mem_used(MEM_BROKER), before);
        }
    }
    assert_int_equal(nth, 5); /* three new nodes */
    topic_tree_free(&tree);
}

static void levels_may_hold_any_text(void **state)
{
    static char level[65535];
    struct topic_tree tree = {0};
    struct str text = {level, sizeof level};

    (void)state;
    memset(level, 'x', sizeof level);
    assert_non_null(topic_tree_insert(&tree, ten, text));
    assert_non_null(topic_tree_find(&tree, ten, text));
    text.n--;
    assert_null(topic_tree_find(&tree, ten, text));
    topic_tree_free(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matching_follows_the_examples_of_section_4_7),
        cmocka_unit_test(names_are_matched_against_filters_as_by_a_slow_matcher),
        cmocka_unit_test(filters_are_matched_against_names_as_by_a_slow_matcher),
        cmocka_unit_test(no_wildcard_crosses_tenants),
        cmocka_unit_test(an_empty_tree_matches_nothing),
        cmocka_unit_test(insert_finds_the_node_that_is_there),
        cmocka_unit_test(pruning_stops_at_what_is_still_in_use),
        cmocka_unit_test(a_pruned_wildcard_matches_no_more),
        cmocka_unit_test(an_insert_without_memory_leaves_the_tree_as_it_was),
        cmocka_unit_test(levels_may_hold_any_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
