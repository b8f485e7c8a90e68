/* Records that wait for a subscriber, by topic. */
#include "base/check.h"
#include "broker/feed_private.h"
#include "core/message.h"

enum { DECIDING_MS = 5 /* a decision takes a turn of another worker */ };

struct feed_topic *feed_topic_find(struct feed_worker *fw, const struct message *m, bool makes)
{
    struct topic_node *node = topic_tree_find(&fw->topics, m->tenant, m->topic);
    struct feed_topic *topic;

    if (node && node->value)
        return node->value;
    node = makes ? topic_tree_insert(&fw->topics, m->tenant, m->topic) : NULL;
    if (!node)
        return NULL;
    topic = mem_alloc_zero(MEM_BROKER, sizeof *topic);
    topic->node = node;
    list_init(&topic->waiting);
    node->value = topic;
    /* Either the workers that the record is now published to are seen to have subscribers, or whoever subscribes there sees that
     * something may wait here. */
    atomic_fetch_add(&fw->n_topics, 1);
    atomic_thread_fence(memory_order_seq_cst);
    return topic;
}

static void drop_if_idle(struct feed_worker *fw, struct feed_topic *topic)
{
    struct topic_node *node = topic->node;

    if (feed_topic_is_busy(topic) || topic->is_flushing || topic->is_woken)
        return;
    mem_free(MEM_BROKER, topic);
    node->value = NULL;
    topic_tree_prune(&fw->topics, node);
    atomic_fetch_sub(&fw->n_topics, 1);
}

static struct feed_record *first_of(struct feed_topic *topic)
{
    return CONTAINER_OF(topic->waiting.next, struct feed_record, waiting);
}

static void set_held(struct feed_record *fr, bool is_held)
{
    if (fr->is_held != is_held)
        feed_count(FEED_HELD, is_held ? 1 : -1);
    fr->is_held = is_held;
}

/* Its time is over. One that waits for the decision about the record before it may still find a subscriber. */
static void on_hold_over(struct timer *t)
{
    struct feed_record *fr = CONTAINER_OF(t, struct feed_record, timer);
    struct feed_worker *fw = fr->fw;
    struct feed_topic *topic = fr->topic;

    if (topic->deciding) {
        wheel_start(&fw->worker->loop.wheel, t, DECIDING_MS);
        return;
    }
    list_remove(&fr->waiting);
    set_held(fr, false);
    fr->topic = NULL;
    feed_finish(fr, FEED_DROPPED_NO_SUBSCRIBER);
    drop_if_idle(fw, topic);
}

/* Records of several partitions may share a topic; those of one keep their order. */
static bool comes_before(const struct feed_record *a, const struct feed_record *b)
{
    return a->partition == b->partition && a->offset < b->offset;
}

void feed_topic_wait(struct feed_topic *topic, struct feed_record *fr)
{
    uint64_t now = feed_now_ms(fr->fw);
    struct list *at = topic->waiting.prev;

    while (at != &topic->waiting && comes_before(fr, CONTAINER_OF(at, struct feed_record, waiting)))
        at = at->prev;
    list_push(at->next, &fr->waiting); /* before the one behind `at` */
    fr->topic = topic;
    fr->timer.on_timer = on_hold_over;
    set_held(fr, true);
    wheel_start(&fr->fw->worker->loop.wheel, &fr->timer, fr->hold_until_ms > now ? fr->hold_until_ms - now : 0);
}

/* The first that waits is tried. False: the rest waits on. */
static bool flush_first(struct feed_topic *topic)
{
    struct feed_record *fr = first_of(topic);

    list_remove(&fr->waiting);
    wheel_stop(&fr->timer);
    set_held(fr, false);
    switch (feed_publish(fr)) {
    case FEED_TAKEN:
    case FEED_REFUSED:
        return true;
    case FEED_DECIDING:
        topic->deciding = fr;
        return false;
    case FEED_NOBODY:
        feed_topic_wait(topic, fr);
        return false;
    case FEED_STALLED:
        topic->deciding = fr;
        feed_stall(fr);
        return false;
    }
    return false;
}

void feed_topic_flush(struct feed_worker *fw, struct feed_topic *topic)
{
    if (topic->is_flushing)
        return;
    topic->is_flushing = true;
    topic->must_retry = false;
    while (!topic->deciding && !list_is_empty(&topic->waiting) && flush_first(topic))
        ;
    topic->is_flushing = false;
    drop_if_idle(fw, topic);
}

struct wake {
    struct feed_topic *first;
};

static void on_match(void *context, struct topic_node *node)
{
    struct wake *wake = context;
    struct feed_topic *topic = node->value;

    topic->is_woken = true;
    topic->next_woken = wake->first;
    wake->first = topic;
}

void feed_topic_wake(struct feed_worker *fw, struct str tenant, struct str filter)
{
    struct wake wake = {0};

    topic_tree_match_filter(&fw->topics, tenant, filter, on_match, &wake);
    while (wake.first) {
        struct feed_topic *topic = wake.first;

        wake.first = topic->next_woken;
        topic->is_woken = false;
        if (topic->deciding)
            topic->must_retry = true;
        else
            feed_topic_flush(fw, topic);
    }
}

void feed_topic_free_all(struct feed_worker *fw)
{
    uint32_t cursor = 0;
    struct topic_node *node;

    while ((node = map_next(&fw->topics.edges, &cursor)))
        mem_free(MEM_BROKER, node->value);
    topic_tree_free(&fw->topics);
}
