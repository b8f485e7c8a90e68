/* Where partitions begin: where their group stands, and if it stands nowhere, where new ones do. The finder's thread: these questions
 * block. */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "kafka/kafka_consumer_finder.h"
#include "kafka/kafka_consumer_private.h"

enum { SLICE_MS = 100 /* between looks at whether it is time to stop */ };

static bool is_stopping(const struct kafka_finder *f)
{
    return atomic_load(&f->is_stopping);
}

static rd_kafka_event_t *wait_for(struct kafka_finder *f, rd_kafka_queue_t *queue)
{
    rd_kafka_event_t *event = NULL;

    for (int ms = 0; !event && !is_stopping(f) && ms < 2 * KAFKA_FINDER_PATIENCE_MS; ms += SLICE_MS)
        event = rd_kafka_queue_poll(queue, SLICE_MS);
    return event;
}

static rd_kafka_topic_partition_list_t *to_list(const struct kafka_found *found)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(16);

    for (; found; found = found->next)
        rd_kafka_topic_partition_list_add(list, found->full_topic, found->number)->offset = found->offset;
    return list;
}

static struct kafka_found *find(struct kafka_found *list, const char *topic, int32_t number)
{
    while (list && (list->number != number || strcmp(list->full_topic, topic) != 0))
        list = list->next;
    return list;
}

/* The answer keeps the order of the question, so the search begins where the last one ended. */
static rd_kafka_resp_err_t take_positions(const rd_kafka_topic_partition_list_t *positions, struct kafka_found *list)
{
    struct kafka_found *at = list;

    for (int i = 0; i < positions->cnt; i++) {
        const rd_kafka_topic_partition_t *p = &positions->elems[i];
        struct kafka_found *found = find(at, p->topic, p->partition);

        if (p->err)
            return p->err;
        if (!found)
            found = find(list, p->topic, p->partition);
        if (!found || p->offset < 0)
            continue;
        at = found;
        found->offset = p->offset;
        if (p->metadata_size == 0)
            continue;
        found->metadata = mem_copy_text(MEM_KAFKA, p->metadata, p->metadata_size);
        found->metadata_n = p->metadata_size;
    }
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

rd_kafka_resp_err_t kafka_begin_read_positions(struct kafka_finder *f, struct kafka_found *list)
{
    rd_kafka_topic_partition_list_t *positions = to_list(list);
    rd_kafka_resp_err_t code = rd_kafka_committed(f->c->rk, positions, f->patience_ms);

    if (!code)
        code = take_positions(positions, list);
    rd_kafka_topic_partition_list_destroy(positions);
    return code;
}

static rd_kafka_resp_err_t choose_beginning(struct kafka_finder *f, struct kafka_found *found)
{
    const struct source_reader *reader = f->c->reader;
    struct str topic = str_from_offset(str_from(found->full_topic), f->c->prefix.n);
    int64_t low, high, known;
    rd_kafka_resp_err_t code =
        rd_kafka_query_watermark_offsets(f->c->rk, found->full_topic, found->number, &low, &high, f->patience_ms);

    if (code)
        return code;
    known = reader->begins_at ? reader->begins_at(reader->context, topic, found->number) : -1;
    if (known > high) { /* the topic was made anew */
        found->lost_at = known;
        known = low;
    }
    if (known >= 0)
        found->offset = known < low ? low : known;
    else
        found->offset = found->begins_at_end ? high : low;
    found->is_new = true;
    LOG_INFO(LOG_KAFKA, "consumer.new_position", F_TEXT("topic", found->full_topic), F_INT("partition", found->number),
             F_INT("offset", found->offset), F_INT("beginning", low), F_INT("end", high));
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

static rd_kafka_resp_err_t write_positions(struct kafka_finder *f, rd_kafka_topic_partition_list_t *list)
{
    rd_kafka_queue_t *queue = rd_kafka_queue_new(f->c->rk);
    rd_kafka_resp_err_t code = rd_kafka_commit_queue(f->c->rk, list, queue, NULL, NULL);
    rd_kafka_event_t *event = code ? NULL : wait_for(f, queue);

    if (event) {
        const rd_kafka_topic_partition_list_t *done = rd_kafka_event_topic_partition_list(event);

        code = rd_kafka_event_error(event);
        for (int i = 0; !code && done && i < done->cnt; i++)
            code = done->elems[i].err;
        rd_kafka_event_destroy(event);
    } else if (!code) {
        code = RD_KAFKA_RESP_ERR__TIMED_OUT;
    }
    rd_kafka_queue_destroy(queue);
    return code;
}

rd_kafka_resp_err_t kafka_begin_choose(struct kafka_finder *f, struct kafka_found *list)
{
    rd_kafka_topic_partition_list_t *fresh = rd_kafka_topic_partition_list_new(16);
    bool is_whole = !f->c->member, is_committed_here = is_whole && !f->c->is_transient;
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR, one;

    for (struct kafka_found *found = list; found && !(code && is_whole) && !is_stopping(f); found = found->next) {
        if (found->offset >= 0)
            continue;
        one = choose_beginning(f, found);
        if (one)
            code = one;
        else
            rd_kafka_topic_partition_list_add(fresh, found->full_topic, found->number)->offset = found->offset;
    }
    if (!code && is_stopping(f))
        code = RD_KAFKA_RESP_ERR__DESTROY;
    if (!code && fresh->cnt > 0 && is_committed_here)
        code = write_positions(f, fresh);
    rd_kafka_topic_partition_list_destroy(fresh);
    return code;
}
