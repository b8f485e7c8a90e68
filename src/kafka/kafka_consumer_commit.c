/* How positions get to the cluster: one request for all partitions with news, never two at a time. A group without members takes
 * offsets, with metadata, from whoever names it; one that is shared from its members, if they know of its last change. They are
 * committed by the handle, whose group it is, and not by AlterConsumerGroupOffsets: in librdkafka 2.0.2 that aborts the process
 * when the coordinator goes away at the wrong moment. */
#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"
#include "base/siphash.h"
#include "kafka/kafka_consumer_metrics.h"
#include "kafka/kafka_consumer_private.h"

enum { RETRY_MS = 1000, LEAST_METADATA_BYTES = 64 };

struct kafka_place kafka_place_of(int64_t offset, struct str metadata)
{
    return (struct kafka_place){offset, siphash(metadata)};
}

static bool has_news(const struct kafka_partition *p)
{
    return p->is_dirty && p->is_ours && p->is_placed;
}

static rd_kafka_topic_partition_list_t *collect(struct kafka_consumer *c)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(8);
    char metadata[KAFKA_WINDOW_METADATA_BYTES];

    for (struct kafka_partition *p = c->list; p; p = p->next) {
        rd_kafka_topic_partition_t *at;
        size_t n;

        if (!has_news(p))
            continue;
        p->is_dirty = false;
        at = rd_kafka_topic_partition_list_add(list, p->full_topic.p, p->port.number);
        at->offset = kafka_window_commit_point(&p->window);
        n = kafka_window_format(&p->window, metadata, c->metadata_bytes);
        p->sent = kafka_place_of(at->offset, (struct str){metadata, n});
        if (n == 0)
            continue;
        at->metadata = malloc(n); /* freed with the list */
        ASSERT(at->metadata);
        memcpy(at->metadata, metadata, n);
        at->metadata_size = n;
    }
    return list;
}

/* Nothing was committed; which partitions it was about, nobody says: those with anything behind them. */
static void note_all_failed(struct kafka_consumer *c, const char *why)
{
    kafka_consumer_count(c, KAFKA_CONSUMER_COMMIT_ERRORS, 1);
    LOG_WARN(LOG_KAFKA, "consumer.commit", F_STR("group", c->group), F_TEXT("error", why));
    for (struct kafka_partition *p = c->list; p; p = p->next)
        p->is_dirty = true;
}

void kafka_consumer_commit(struct kafka_consumer *c)
{
    rd_kafka_topic_partition_list_t *list;
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;

    if (c->is_committing || c->is_transient)
        return;
    list = collect(c);
    if (list->cnt > 0)
        code = rd_kafka_commit_queue(c->member ? c->member : c->rk, list, c->results, NULL, NULL);
    c->is_committing = list->cnt > 0 && !code;
    if (code)
        note_all_failed(c, rd_kafka_err2name(code));
    rd_kafka_topic_partition_list_destroy(list);
}

/* The cluster takes less metadata than was sent: with less, more records come again after a restart. */
static void shrink_metadata(struct kafka_consumer *c)
{
    c->metadata_bytes /= 2;
    if (c->metadata_bytes < LEAST_METADATA_BYTES)
        c->metadata_bytes = 0;
    LOG_WARN(LOG_KAFKA, "consumer.metadata_too_large", F_INT("now_bytes", c->metadata_bytes));
}

/* False: it makes no sense to try again. */
static bool is_worth_retrying(rd_kafka_resp_err_t code)
{
    return code != RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
}

static void note_failure(struct kafka_consumer *c, const char *topic, int32_t number, rd_kafka_resp_err_t code)
{
    struct kafka_partition *p = kafka_consumer_find(c, topic, number);

    kafka_consumer_count(c, KAFKA_CONSUMER_COMMIT_ERRORS, 1);
    LOG_WARN(LOG_KAFKA, "consumer.commit", F_TEXT("topic", topic), F_INT("partition", number),
             F_TEXT("error", rd_kafka_err2name(code)));
    if (code == RD_KAFKA_RESP_ERR_OFFSET_METADATA_TOO_LARGE)
        shrink_metadata(c);
    if (p && is_worth_retrying(code))
        p->is_dirty = true;
}

static bool has_dirty(const struct kafka_consumer *c)
{
    for (const struct kafka_partition *p = c->list; p; p = p->next)
        if (has_news(p))
            return true;
    return false;
}

static void note_committed(struct kafka_consumer *c, const char *topic, int32_t number)
{
    struct kafka_partition *p = kafka_consumer_find(c, topic, number);

    kafka_consumer_count(c, KAFKA_CONSUMER_COMMITS, 1);
    if (!p)
        return;
    p->committed = p->sent;
    p->has_position = true;
    if (!p->awaits_commit)
        return;
    p->awaits_commit = false;
    kafka_partition_read_wanted(c);
}

/* True: all went well. */
static bool read_result(struct kafka_consumer *c, const rd_kafka_topic_partition_list_t *list)
{
    bool is_well = true;

    for (int i = 0; i < list->cnt; i++) {
        const rd_kafka_topic_partition_t *at = &list->elems[i];

        if (at->err)
            note_failure(c, at->topic, at->partition, at->err);
        else
            note_committed(c, at->topic, at->partition);
        is_well = is_well && !at->err;
    }
    return is_well;
}

/* Whether the partitions say for themselves what went wrong. */
static bool has_errors(const rd_kafka_topic_partition_list_t *list)
{
    for (int i = 0; list && i < list->cnt; i++)
        if (list->elems[i].err)
            return true;
    return false;
}

void kafka_consumer_committed(struct kafka_consumer *c, rd_kafka_event_t *event)
{
    const rd_kafka_topic_partition_list_t *list;
    bool is_well = false;

    if (rd_kafka_event_type(event) != RD_KAFKA_EVENT_OFFSET_COMMIT)
        return;
    c->is_committing = false;
    list = rd_kafka_event_topic_partition_list(event);
    if (list && (!rd_kafka_event_error(event) || has_errors(list)))
        is_well = read_result(c, list);
    else
        note_all_failed(c, rd_kafka_event_error_string(event));
    if (c->member)
        kafka_consumer_group_on_committed(c);
    if (has_dirty(c) && !wheel_is_set(&c->commit_timer))
        wheel_start(&c->loop.wheel, &c->commit_timer, is_well ? 1 : RETRY_MS);
    if (is_well)
        kafka_consumer_group_try_leave(c);
}
