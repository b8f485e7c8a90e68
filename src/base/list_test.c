#include "base/list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/check.h"

struct node {
    int number;
    struct list link;
};

/* Fills `l` with nodes numbered from `first` on. */
static void fill(struct list *l, struct node *nodes, int n, int first)
{
    list_init(l);
    for (int i = 0; i < n; i++) {
        nodes[i] = (struct node){.number = first + i};
        list_push(l, &nodes[i].link);
    }
}

/* Whether the list holds exactly these numbers, read forwards and backwards. */
static void assert_numbers(struct list *l, const int *numbers, size_t n)
{
    struct list *at = l;

    for (size_t i = 0; i < n; i++) {
        at = at->next;
        assert_int_equal(CONTAINER_OF(at, struct node, link)->number, numbers[i]);
    }
    assert_ptr_equal(at->next, l);
    for (size_t i = n; i > 0; i--) {
        assert_int_equal(CONTAINER_OF(at, struct node, link)->number, numbers[i - 1]);
        at = at->prev;
    }
    assert_ptr_equal(at, l);
}

static void an_all_zero_node_is_unlinked_and_an_initialised_list_is_empty(void **state)
{
    struct list node = {0}, l;

    (void)state;
    list_init(&l);
    assert_false(list_is_linked(&node));
    assert_true(list_is_empty(&node));
    assert_true(list_is_empty(&l));
    assert_null(list_pop(&l));
    assert_null(list_pop(&node));
}

static void nodes_come_out_in_the_order_of_pushing(void **state)
{
    struct node nodes[3];
    struct list l, *link;

    (void)state;
    fill(&l, nodes, 3, 0);
    assert_numbers(&l, (int[]){0, 1, 2}, 3);
    for (int i = 0; i < 3; i++) {
        link = list_pop(&l);
        assert_ptr_equal(link, &nodes[i].link);
        assert_false(list_is_linked(link));
    }
    assert_true(list_is_empty(&l));
}

static void removing_takes_out_any_node_once(void **state)
{
    static const struct {
        int removed;
        int left[2];
    } rows[] = {{0, {1, 2}}, {1, {0, 2}}, {2, {0, 1}}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct node nodes[3];
        struct list l, *link = &nodes[rows[i].removed].link;

        fill(&l, nodes, 3, 0);
        assert_true(list_is_linked(link));
        list_remove(link);
        assert_false(list_is_linked(link));
        assert_numbers(&l, rows[i].left, 2);
        list_remove(link); /* a no-op */
        assert_numbers(&l, rows[i].left, 2);
    }
}

static void moving_appends_all_and_empties_the_source(void **state)
{
    static const struct {
        int to, from;
    } rows[] = {{0, 0}, {0, 1}, {1, 0}, {2, 3}, {1, 1}, {0, 3}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct node a[3], b[3];
        struct list to, from;

        fill(&to, a, rows[i].to, 0);
        fill(&from, b, rows[i].from, rows[i].to);
        list_move(&to, &from);
        assert_true(list_is_empty(&from));
        assert_numbers(&to, (int[]){0, 1, 2, 3, 4}, (size_t)(rows[i].to + rows[i].from));
        list_push(&from, &(struct node){0}.link); /* the source is a list as before */
        assert_false(list_is_empty(&from));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_all_zero_node_is_unlinked_and_an_initialised_list_is_empty),
        cmocka_unit_test(nodes_come_out_in_the_order_of_pushing),
        cmocka_unit_test(removing_takes_out_any_node_once),
        cmocka_unit_test(moving_appends_all_and_empties_the_source),
    };

    return cmocka_run_group_tests_name("list", tests, NULL, NULL);
}
