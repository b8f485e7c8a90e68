#include "config/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/check.h"

static struct config_errors errors;

static err parse(struct arena *a, struct str text, struct tree_node **out_root)
{
    errors = (struct config_errors){0};
    return tree_parse(a, text, "test.yaml", out_root, &errors);
}

static void nodes_know_their_lines_and_order(void **state)
{
    struct arena a = {0};
    struct tree_node *root, *list;

    (void)state;
    assert_int_equal(parse(&a, STR("# comment\na: 1\nb:\n  - x\n  -\n    - \"y\"\nc:\n  d: {e: f}\n"), &root), E_OK);
    assert_int_equal(root->kind, TREE_MAP);
    assert_int_equal(root->count, 3);
    assert_int_equal(tree_find(root, STR("a"))->line, 2);
    list = tree_find(root, STR("b"));
    assert_int_equal(list->line, 3);
    assert_int_equal(list->kind, TREE_LIST);
    assert_int_equal(list->count, 2);
    assert_int_equal(list->first->line, 4);
    assert_string_equal(list->last->first->text.p, "y");
    assert_true(list->last->first->is_quoted);
    assert_string_equal(tree_find(tree_find(tree_find(root, STR("c")), STR("d")), STR("e"))->text.p, "f");
    assert_null(tree_find(root, STR("e")));
    arena_free(&a, MEM_CONFIG);
}

static void a_text_without_values_is_an_empty_map(void **state)
{
    static const char *const texts[] = {"", "\n", "# only a comment\n", "---\n", "~\n", "null\n"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct arena a = {0};
        struct tree_node *root;

        assert_int_equal(parse(&a, str_from(texts[i]), &root), E_OK);
        assert_int_equal(root->kind, TREE_MAP);
        assert_int_equal(root->count, 0);
        arena_free(&a, MEM_CONFIG);
    }
}

static void left_out_is_not_the_same_as_empty(void **state)
{
    struct arena a = {0};
    struct tree_node *root;

    (void)state;
    assert_int_equal(parse(&a, STR("a:\nb: ~\nc: null\nd: \"\"\ne: \"null\"\nf: {}\n"), &root), E_OK);
    for (const struct tree_node *node = root->first; node; node = node->next)
        assert_int_equal(tree_is_null(node), node->key.p[0] <= 'c');
    assert_true(tree_is_null(NULL));
    arena_free(&a, MEM_CONFIG);
}

static void duplicate_keys_are_told_and_do_not_hide_the_rest(void **state)
{
    struct arena a = {0};
    struct tree_node *root;
    struct buf text = {0};

    (void)state;
    assert_int_equal(parse(&a, STR("a: 1\nb: 2\na: 3\na: 4\n"), &root), E_OK);
    assert_int_equal(errors.count, 2);
    assert_int_equal(errors.items[0].line, 3);
    assert_string_equal(errors.items[1].text, "a: given twice, first in line 1");
    for (int i = 0; i < 100; i++) /* the way of large maps */
        assert_int_equal(buf_printf(&text, MEM_TEST, "k%d: 1\n", i == 77 ? 3 : i), E_OK);
    assert_int_equal(parse(&a, buf_str(&text), &root), E_OK);
    assert_int_equal(errors.count, 1);
    assert_int_equal(errors.items[0].line, 78);
    assert_string_equal(errors.items[0].text, "k3: given twice, first in line 4");
    buf_free(&text, MEM_TEST);
    arena_free(&a, MEM_CONFIG);
}

static void texts_made_to_exhaust_us_are_refused_early(void **state)
{
    static const struct {
        const char *piece;
        size_t times;
        err want;
    } rows[] = {
        {"[", 1000000, E_LIMIT}, {"{a: ", 1000000, E_LIMIT}, {"- ", 1000000, E_LIMIT},
        {"? ", 100000, E_INVAL}, {"a: &x 1\n", 1, E_INVAL},  {"- 1\n", TREE_MAX_NODES + 1, E_LIMIT},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf text = {0};
        struct arena a = {0};
        struct tree_node *root;

        for (size_t k = 0; k < rows[i].times; k++)
            assert_int_equal(buf_append(&text, MEM_TEST, str_from(rows[i].piece)), E_OK);
        if (parse(&a, buf_str(&text), &root) != rows[i].want)
            fail_msg("row %zu: %s", i, errors.items[0].text);
        assert_int_equal(errors.count, 1);
        buf_free(&text, MEM_TEST);
        arena_free(&a, MEM_CONFIG);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_know_their_lines_and_order),
        cmocka_unit_test(a_text_without_values_is_an_empty_map),
        cmocka_unit_test(left_out_is_not_the_same_as_empty),
        cmocka_unit_test(duplicate_keys_are_told_and_do_not_hide_the_rest),
        cmocka_unit_test(texts_made_to_exhaust_us_are_refused_early),
    };

    return cmocka_run_group_tests_name("tree", tests, NULL, NULL);
}
