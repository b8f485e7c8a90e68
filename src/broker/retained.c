#include "broker/retained.h"

#include "base/check.h"
#include "core/message.h"

enum {
    MS_PER_S = 1000,
    DELETED_MS = 10000, /* a deletion is remembered for this long; mail between workers takes far less */
};

/* What a node's value is: the message, or with an empty payload the memory of its deletion. */
struct held {
    struct message *message;
    struct topic_node *node;
    struct retained *retained;
    struct timer timer; /* runs when it is to be forgotten */
};

static bool is_deleted(const struct held *held)
{
    return held->message->payload.n == 0;
}

/* Lets go of the message, if there is one. */
static void empty(struct held *held)
{
    struct retained *r = held->retained;

    wheel_stop(&held->timer);
    if (!held->message)
        return;
    *(is_deleted(held) ? &r->n_deleted : &r->n_messages) -= 1;
    r->bytes -= message_size(held->message);
    message_unref(held->message);
    held->message = NULL;
}

static void forget(struct held *held)
{
    struct retained *r = held->retained;
    struct topic_node *node = held->node;

    empty(held);
    mem_free(MEM_BROKER, held);
    node->value = NULL;
    topic_tree_prune(&r->tree, node);
}

/* An expiry can be longer than a timer. */
static void wait_to_forget(struct held *held)
{
    struct wheel *wheel = held->retained->wheel;
    const struct message *m = held->message;
    uint64_t due_ms = m->received_ms + (uint64_t)m->expiry_s * MS_PER_S;

    if (is_deleted(held))
        wheel_start(wheel, &held->timer, DELETED_MS);
    else if (m->has_expiry)
        wheel_start(wheel, &held->timer, due_ms > wheel->clock_ms ? due_ms - wheel->clock_ms : 0);
}

static void on_timer(struct timer *t)
{
    struct held *held = CONTAINER_OF(t, struct held, timer);
    uint32_t left_s;

    if (is_deleted(held) || !message_is_alive(held->message, held->retained->wheel->clock_ms, &left_s))
        forget(held);
    else
        wait_to_forget(held);
}

void retained_init(struct retained *r, struct wheel *wheel)
{
    *r = (struct retained){.wheel = wheel};
}

void retained_fini(struct retained *r)
{
    uint32_t cursor = 0;
    struct topic_node *node;

    while ((node = map_next(&r->tree.edges, &cursor))) {
        if (!node->value)
            continue;
        empty(node->value);
        mem_free(MEM_BROKER, node->value);
    }
    topic_tree_free(&r->tree);
}

static struct held *held_new(struct retained *r, struct topic_node *node)
{
    struct held *held = mem_try_alloc(MEM_BROKER, sizeof *held);

    if (!held)
        return NULL;
    *held = (struct held){.node = node, .retained = r, .timer = {.on_timer = on_timer}};
    node->value = held;
    return held;
}

err retained_set(struct retained *r, struct message *m)
{
    struct topic_node *node = topic_tree_insert(&r->tree, m->tenant, m->topic);
    struct held *held = node ? node->value : NULL;

    if (!node)
        return E_NOMEM;
    if (!held && !(held = held_new(r, node))) {
        topic_tree_prune(&r->tree, node);
        return E_NOMEM;
    }
    if (held->message && held->message->sequence > m->sequence)
        return E_OK;
    empty(held);
    held->message = message_ref(m);
    *(is_deleted(held) ? &r->n_deleted : &r->n_messages) += 1;
    r->bytes += message_size(m);
    wait_to_forget(held);
    return E_OK;
}

bool retained_may_set(const struct retained *r, const struct message *m, size_t max_messages, size_t max_bytes)
{
    const struct topic_node *node;
    const struct held *held;
    size_t n = r->n_messages + r->n_deleted + 1, bytes = r->bytes + message_size(m);

    if ((max_messages == 0 || n <= max_messages) && (max_bytes == 0 || bytes <= max_bytes))
        return true;
    node = topic_tree_find(&r->tree, m->tenant, m->topic);
    held = node ? node->value : NULL;
    if (!held)
        return false;
    return m->payload.n == 0 || max_bytes == 0 || bytes - message_size(held->message) <= max_bytes;
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
