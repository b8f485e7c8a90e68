/* A record's way from its first publish to its end. */
#include "base/check.h"
#include "broker/broker_metrics.h"
#include "broker/feed_private.h"
#include "core/message.h"

/* A mailbox that was full is tried again after this time: whoever drains it tells nobody. */
enum { STALL_MS = 2 };

/* How a loss is counted, the one to be told first where several sessions lost it in different ways. */
static const struct {
    enum broker_metric loss;
    enum feed_metric what;
} losses[] = {
    {BROKER_DROPPED_SESSION_END, FEED_DROPPED_SESSION_END}, {BROKER_DROPPED_QUEUE_FULL, FEED_DROPPED_QUEUE_FULL},
    {BROKER_DROPPED_OUTPUT_FULL, FEED_DROPPED_OUTPUT_FULL}, {BROKER_DROPPED_OFFLINE, FEED_DROPPED_OFFLINE},
    {BROKER_DROPPED_TOO_LARGE, FEED_DROPPED_TOO_LARGE},     {BROKER_DROPPED_EXPIRED, FEED_DROPPED_EXPIRED},
};

/* --- the end of a record --- */

void feed_free_record(struct feed_record *fr)
{
    list_remove(&fr->open);
    list_remove(&fr->waiting);
    wheel_stop(&fr->timer);
    message_unref(fr->message);
    slab_free(&fr->fw->records, fr);
}

void feed_settle(struct feed_record *fr)
{
    if (fr->record)
        source_settle(fr->fw->feed->source, fr->record);
    fr->record = NULL;
}

void feed_finish(struct feed_record *fr, enum feed_metric what)
{
    /* What nobody has acknowledged when the process ends comes again when it has started anew. */
    if (what != FEED_DELIVERED && atomic_load(&fr->fw->feed->is_draining)) {
        feed_free_record(fr);
        return;
    }
    feed_count(what, 1);
    feed_count(FEED_WAITING, -1);
    feed_settle(fr);
    feed_free_record(fr);
}

static enum feed_metric loss_of(const struct feed_record *fr)
{
    unsigned all = atomic_load(&fr->tracker.losses);

    for (size_t i = 0; i < ARRAY_LEN(losses); i++)
        if (all >> losses[i].loss & 1)
            return losses[i].what;
    return FEED_DROPPED_NO_MEMORY;
}

/* Every session that got it has acknowledged it or lost it. If its only sessions ended, whoever subscribes next may have it. */
static void on_over(struct feed_record *fr)
{
    enum feed_metric what = atomic_load(&fr->tracker.acknowledged) || fr->is_retained ? FEED_DELIVERED : loss_of(fr);
    struct feed_worker *fw = fr->fw;
    struct feed_topic *topic;

    fr->is_out = false;
    if (what == FEED_DROPPED_SESSION_END && fr->record && feed_now_ms(fw) < fr->hold_until_ms) {
        topic = feed_topic_find(fw, fr->message, true);
        if (topic) {
            feed_topic_wait(topic, fr);
            if (!topic->deciding)
                feed_topic_flush(fw, topic);
            return;
        }
    }
    feed_finish(fr, what);
}

/* --- publishing --- */

/* All workers have looked for subscribers. */
static enum feed_try on_all_looked(struct feed_record *fr)
{
    bool is_over = tracker_note_decided(&fr->tracker);

    if (atomic_load(&fr->tracker.matched) == 0 && !fr->is_retained)
        return FEED_NOBODY;
    fr->is_out = true;
    fr->topic = NULL;
    if (is_over)
        on_over(fr);
    return FEED_TAKEN;
}

enum feed_try feed_publish(struct feed_record *fr)
{
    err e;

    tracker_start(&fr->tracker, fr->ack_timeout_ms);
    e = broker_publish_tracked(fr->fw->shard, fr->message, &fr->tracker);
    if (e == E_LIMIT) { /* waiting would not help, and would hold up all that comes behind */
        feed_finish(fr, FEED_DROPPED_RETAINED_FULL);
        return FEED_REFUSED;
    }
    if (e != E_OK)
        return FEED_STALLED;
    return fr->tracker.is_decided ? on_all_looked(fr) : FEED_DECIDING;
}

void feed_stall(struct feed_record *fr)
{
    struct feed_worker *fw = fr->fw;

    list_push(&fw->stalled, &fr->waiting);
    if (!wheel_is_set(&fw->stall_timer))
        wheel_start(&fw->worker->loop.wheel, &fw->stall_timer, STALL_MS);
}

/* Nobody is subscribed. With a queue it goes back there, if only to be dropped by its timer; what waits behind it is tried when
 * there is reason to. */
static void on_nobody(struct feed_record *fr)
{
    struct feed_topic *topic = fr->topic;

    if (!topic) {
        feed_finish(fr, FEED_DROPPED_NO_SUBSCRIBER);
        return;
    }
    feed_topic_wait(topic, fr);
    if (topic->must_retry)
        feed_topic_flush(fr->fw, topic);
}

/* The first try of a record, or another one of the record its topic is deciding about. */
static void publish(struct feed_record *fr)
{
    struct feed_worker *fw = fr->fw;
    struct feed_topic *topic = fr->topic;
    enum feed_try result;

    if (topic)
        topic->deciding = NULL;
    result = feed_publish(fr);
    if (topic && (result == FEED_DECIDING || result == FEED_STALLED))
        topic->deciding = fr;
    if (result == FEED_STALLED)
        feed_stall(fr);
    else if (result == FEED_NOBODY)
        on_nobody(fr);
    else if (topic && (result == FEED_TAKEN || result == FEED_REFUSED))
        feed_topic_flush(fw, topic);
}

/* First that all have looked, later that it is over. */
void feed_on_tracker(struct mail *m)
{
    struct feed_record *fr = CONTAINER_OF(m, struct feed_record, tracker.mail);
    struct feed_worker *fw = fr->fw;
    struct feed_topic *topic = fr->topic;

    if (fr->tracker.is_decided) {
        on_over(fr);
        return;
    }
    if (topic)
        topic->deciding = NULL;
    if (on_all_looked(fr) == FEED_NOBODY)
        on_nobody(fr);
    else if (topic)
        feed_topic_flush(fw, topic);
}

void feed_on_stall_timer(struct timer *t)
{
    struct feed_worker *fw = CONTAINER_OF(t, struct feed_worker, stall_timer);
    struct list again;
    struct list *link;

    list_init(&again);
    list_move(&again, &fw->stalled);
    while ((link = list_pop(&again))) {
        if (list_is_empty(&fw->stalled))
            publish(CONTAINER_OF(link, struct feed_record, waiting));
        else
            list_push(&fw->stalled, link);
    }
}

/* One that may have to wait for a subscriber gets a queue, and goes behind what is there. */
void feed_submit(struct feed_record *fr)
{
    struct feed_worker *fw = fr->fw;
    bool may_wait = !fr->is_retained && feed_now_ms(fw) < fr->hold_until_ms;
    struct feed_topic *topic = NULL;

    if (may_wait || atomic_load_explicit(&fw->n_topics, memory_order_relaxed) > 0)
        topic = feed_topic_find(fw, fr->message, may_wait);
    if (topic && feed_topic_is_busy(topic)) {
        feed_topic_wait(topic, fr);
        return;
    }
    fr->topic = topic;
    if (list_is_empty(&fw->stalled)) {
        publish(fr);
        return;
    }
    if (topic)
        topic->deciding = fr;
    feed_stall(fr);
}
