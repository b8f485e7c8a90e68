/* list: intrusive doubly linked list with a sentinel. A node is in at most one list. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *prev, *next;
};

static inline void list_init(struct list *l)
{
    l->prev = l->next = l;
}

/* An all-zero node counts as unlinked, as does one that was removed. */
static inline bool list_is_linked(const struct list *node)
{
    return node->next != NULL && node->next != node;
}

static inline bool list_is_empty(const struct list *l)
{
    return !list_is_linked(l);
}

static inline void list_push(struct list *l, struct list *node)
{
    node->prev = l->prev;
    node->next = l;
    l->prev->next = node;
    l->prev = node;
}

/* Unlinks; a no-op on a node that is in no list. */
static inline void list_remove(struct list *node)
{
    if (!node->next)
        return;
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->prev = node->next = NULL;
}

/* The first node, unlinked; NULL when the list is empty. */
static inline struct list *list_pop(struct list *l)
{
    struct list *first = l->next;

    if (!first || first == l)
        return NULL;
    list_remove(first);
    return first;
}

/* Moves all of `from` to the end of `to` and leaves `from` empty. Both are initialised. */
static inline void list_move(struct list *to, struct list *from)
{
    if (list_is_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    list_init(from);
}
