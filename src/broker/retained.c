#include "broker/retained.h"

#include "base/check.h"
#include "core/message.h"
#include "loop/loop.h"

/* A deletion is remembered for this long; mail between workers takes far less. */
enum { DELETED_MS = 10000 };

/* What a node's value is: the message, or with an empty payload the memory of its deletion. */
struct held {
    struct message *message;
    struct topic_node *node;
    struct list link; /* of deletions */
    uint64_t deleted_ms;
};

static bool is_deleted(const struct held *held)
{
    return held->message->payload.n == 0;
}

/* What the held message counts for, taken out or put in. */
static void account(struct retained *r, struct held *held, bool add)
{
    size_t bytes = message_size(held->message);

    if (is_deleted(held))
        return;
    r->n_messages += add ? 1 : (size_t)-1;
    r->bytes += add ? bytes : 0 - bytes;
}

static void forget(struct retained *r, struct held *held)
{
    struct topic_node *node = held->node;

    list_remove(&held->link);
    account(r, held, false);
    message_unref(held->message);
    mem_free(MEM_BROKER, held);
    node->value = NULL;
    topic_tree_prune(&r->tree, node);
}

static void on_sweep(struct timer *t)
{
    struct retained *r = CONTAINER_OF(t, struct retained, sweep);

    while (!list_is_empty(&r->deleted)) {
        struct held *oldest = CONTAINER_OF(r->deleted.next, struct held, link);

        if (oldest->deleted_ms + DELETED_MS > r->wheel->now_ms) {
            wheel_start(r->wheel, t, oldest->deleted_ms + DELETED_MS - r->wheel->now_ms);
            return;
        }
        forget(r, oldest);
    }
}

void retained_init(struct retained *r, struct wheel *wheel)
{
    *r = (struct retained){.wheel = wheel, .sweep = {.on_timer = on_sweep}};
    list_init(&r->deleted);
}

void retained_fini(struct retained *r)
{
    uint32_t cursor = 0;
    struct topic_node *node;

    wheel_stop(&r->sweep);
    while ((node = map_next(&r->tree.edges, &cursor))) {
        struct held *held = node->value;

        if (held)
            message_unref(held->message);
        mem_free(MEM_BROKER, held);
    }
    topic_tree_free(&r->tree);
}

static struct held *held_new(struct topic_node *node)
{
    struct held *held = mem_try_alloc(MEM_BROKER, sizeof *held);

    if (!held)
        return NULL;
    *held = (struct held){.node = node};
    node->value = held;
    return held;
}

err retained_set(struct retained *r, struct message *m)
{
    struct topic_node *node = topic_tree_insert(&r->tree, m->tenant, m->topic);
    struct held *held = node ? node->value : NULL;

    if (!node)
        return E_NOMEM;
    if (!held && !(held = held_new(node))) {
        topic_tree_prune(&r->tree, node);
        return E_NOMEM;
    }
    if (held->message) {
        if (held->message->sequence > m->sequence)
            return E_OK;
        account(r, held, false);
        message_unref(held->message);
    }
    held->message = message_ref(m);
    account(r, held, true);
    list_remove(&held->link);
    if (is_deleted(held)) {
        held->deleted_ms = r->wheel->now_ms;
        list_push(&r->deleted, &held->link);
        if (!wheel_is_set(&r->sweep))
            wheel_start(r->wheel, &r->sweep, DELETED_MS);
    }
    return E_OK;
}

struct lookup {
    uint64_t now_ms;
    retained_visit visit;
    void *context;
};

static void on_node(void *context, struct topic_node *node)
{
    struct lookup *l = context;
    struct held *held = node->value;
    uint32_t left_s;

    if (!is_deleted(held) && message_is_alive(held->message, l->now_ms, &left_s))
        l->visit(l->context, held->message);
}

void retained_match(struct retained *r, struct str tenant, struct str filter, uint64_t now_ms, retained_visit visit,
                    void *context)
{
    struct lookup l = {now_ms, visit, context};

    topic_tree_match_filter(&r->tree, tenant, filter, on_node, &l);
}
