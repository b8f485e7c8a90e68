/* The partitions being read: how they come, pause, go on, and begin anew. The consumer's thread. */
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/siphash.h"
#include "kafka/kafka_consumer_metrics.h"
#include "kafka/kafka_consumer_private.h"

enum {
    FULL_MS = 500,      /* a partition that has paused for so long is full: clients that are just busy settle before */
    FULL_TICK_MS = 100, /* how often that is looked at */
    SHARE = 8,          /* of max_bytes that one partition may have: a part of this */
};

struct partition_key {
    struct str topic;
    int32_t number;
};

static uint64_t hash_of(struct str topic, int32_t number)
{
    return siphash(topic) + (uint64_t)(uint32_t)number;
}

static bool is_same(const void *entry, const void *key)
{
    const struct kafka_partition *p = entry;
    const struct partition_key *k = key;

    return p->port.number == k->number && str_equal(p->full_topic, k->topic);
}

struct kafka_partition *kafka_consumer_find(const struct kafka_consumer *c, const char *full_topic, int32_t number)
{
    struct partition_key key = {str_from(full_topic), number};

    return map_find(&c->partitions, hash_of(key.topic, number), &key, is_same);
}

static rd_kafka_topic_partition_list_t *list_of(const struct kafka_partition *p, int64_t offset)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);

    rd_kafka_topic_partition_list_add(list, p->full_topic.p, p->port.number)->offset = offset;
    return list;
}

/* Runs at the partition's home. */
static void on_full(struct mail *m)
{
    struct kafka_partition *p = CONTAINER_OF(m, struct kafka_partition, full);

    atomic_store(&p->is_telling, false);
    p->consumer->reader->on_full(p->consumer->reader->context, &p->port);
}

static void tell_full(struct kafka_partition *p)
{
    if (!atomic_exchange(&p->is_telling, true))
        mailbox_post(p->port.home, &p->full);
}

static void pause(struct kafka_consumer *c, struct kafka_partition *p)
{
    rd_kafka_topic_partition_list_t *list = list_of(p, RD_KAFKA_OFFSET_INVALID);

    (void)rd_kafka_pause_partitions(c->rk, list); /* one that is not assigned any more needs none */
    rd_kafka_topic_partition_list_destroy(list);
    p->is_paused = true;
    c->n_paused++;
    kafka_consumer_count(c, KAFKA_CONSUMER_PAUSED, 1);
    kafka_consumer_count(c, KAFKA_CONSUMER_PAUSES, 1);
    LOG_DEBUG(LOG_KAFKA, "consumer.paused", F_STR("topic", p->full_topic), F_INT("partition", p->port.number));
    p->paused_ms = c->loop.now_ms;
    if (!wheel_is_set(&c->full_timer))
        wheel_start(&c->loop.wheel, &c->full_timer, FULL_TICK_MS);
}

static void resume(struct kafka_consumer *c, struct kafka_partition *p)
{
    rd_kafka_topic_partition_list_t *list = list_of(p, RD_KAFKA_OFFSET_INVALID);

    (void)rd_kafka_resume_partitions(c->rk, list);
    rd_kafka_topic_partition_list_destroy(list);
    p->is_paused = false;
    c->n_paused--;
    kafka_consumer_count(c, KAFKA_CONSUMER_PAUSED, -1);
}

static bool is_full(const struct kafka_consumer *c, const struct kafka_partition *p)
{
    return p->window.n_unsettled >= c->max_unsettled || p->window.unsettled_bytes >= c->max_bytes / SHARE;
}

static bool has_room(const struct kafka_consumer *c, const struct kafka_partition *p)
{
    return p->window.n_unsettled <= c->max_unsettled / 2 && p->window.unsettled_bytes <= c->max_bytes / SHARE / 2;
}

static void on_full_timer(struct timer *t)
{
    struct kafka_consumer *c = CONTAINER_OF(t, struct kafka_consumer, full_timer);

    for (struct kafka_partition *p = c->list; p; p = p->next)
        if (p->is_paused && c->loop.now_ms - p->paused_ms >= FULL_MS)
            tell_full(p);
    if (c->n_paused)
        wheel_start(&c->loop.wheel, t, FULL_TICK_MS);
}

static void assign(struct kafka_consumer *c, rd_kafka_topic_partition_list_t *list)
{
    rd_kafka_error_t *error = list->cnt ? rd_kafka_incremental_assign(c->rk, list) : NULL;

    if (error) {
        LOG_ERROR(LOG_KAFKA, "consumer.assign", F_TEXT("error", rd_kafka_error_string(error)));
        rd_kafka_error_destroy(error);
    }
}

/* Both only note it; the caller has lists for librdkafka. */
static void begin_reading(struct kafka_partition *p)
{
    p->is_read = true;
    kafka_consumer_count(p->consumer, KAFKA_CONSUMER_PARTITIONS, 1);
    LOG_INFO(LOG_KAFKA, "consumer.partition", F_STR("topic", p->full_topic), F_INT("partition", p->port.number),
             F_INT("offset", p->window.next_offset), F_INT("left_open", p->window.n_undone));
}

static void end_reading(struct kafka_partition *p)
{
    p->is_read = false;
    kafka_consumer_count(p->consumer, KAFKA_CONSUMER_PARTITIONS, -1);
    LOG_INFO(LOG_KAFKA, "consumer.left", F_STR("topic", p->full_topic), F_INT("partition", p->port.number),
             F_INT("offset", p->window.next_offset), F_INT("unsettled", p->window.n_unsettled));
}

/* The part of it that does not depend on the reader. */
static bool may_be_read(const struct kafka_consumer *c, const struct kafka_partition *p)
{
    return p->is_ours && p->is_placed && !p->awaits_commit && !c->is_changing && !c->is_revoking;
}

static bool is_wanted(const struct kafka_consumer *c, const struct kafka_partition *p)
{
    return c->reader->interest(c->wants, p->port.topic) >= 0;
}

static void leave(struct kafka_consumer *c, bool leaves_all)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(8);
    rd_kafka_error_t *error;

    for (struct kafka_partition *p = c->list; p; p = p->next) {
        if (!p->is_read || (!leaves_all && is_wanted(c, p)))
            continue;
        rd_kafka_topic_partition_list_add(list, p->full_topic.p, p->port.number);
        end_reading(p);
    }
    error = list->cnt ? rd_kafka_incremental_unassign(c->rk, list) : NULL;
    if (error) {
        LOG_ERROR(LOG_KAFKA, "consumer.unassign", F_TEXT("error", rd_kafka_error_string(error)));
        rd_kafka_error_destroy(error);
    }
    rd_kafka_topic_partition_list_destroy(list);
    for (struct kafka_partition *p = c->list; p; p = p->next)
        if (!p->is_read && p->is_paused)
            resume(c, p); /* librdkafka would remember */
}

void kafka_partition_leave_unwanted(struct kafka_consumer *c)
{
    leave(c, false);
}

void kafka_partition_leave_all(struct kafka_consumer *c)
{
    leave(c, true);
}

void kafka_partition_read_wanted(struct kafka_consumer *c)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(8);

    for (struct kafka_partition *p = c->list; p; p = p->next) {
        if (p->is_read || !may_be_read(c, p) || !is_wanted(c, p))
            continue;
        rd_kafka_topic_partition_list_add(list, p->full_topic.p, p->port.number)->offset = p->window.next_offset;
        begin_reading(p);
    }
    assign(c, list);
    rd_kafka_topic_partition_list_destroy(list);
    for (struct kafka_partition *p = c->list; p; p = p->next)
        kafka_partition_check(c, p);
}

struct kafka_partition *kafka_partition_add(struct kafka_consumer *c, const char *full_topic, int32_t number)
{
    struct str topic = str_from(full_topic);
    struct kafka_partition *p = mem_alloc_zero(MEM_KAFKA, sizeof *p);

    p->consumer = c;
    p->full_topic = (struct str){mem_copy_text(MEM_KAFKA, topic.p, topic.n), topic.n};
    p->port.topic = str_from_offset(p->full_topic, c->prefix.n);
    p->port.number = number;
    p->port.reader = c->reader;
    p->port.home = c->reader->home(c->reader->context, p->port.topic, number);
    p->full.on_mail = on_full;
    p->next = c->list;
    list_init(&p->stale);
    kafka_window_start(&p->window, 0, (struct str){0});
    c->list = p;
    map_add(&c->partitions, MEM_KAFKA, hash_of(topic, number), p);
    return p;
}

/* Whether nobody has moved the position since we did: then what is out is still ours to settle. One that is not there any more was
 * of an earlier topic with the name. */
static bool is_unmoved(const struct kafka_partition *p, const struct kafka_found *found)
{
    struct kafka_place now = kafka_place_of(found->offset, (struct str){found->metadata, found->metadata_n});
    const struct kafka_place *ours[] = {&p->committed, &p->sent};

    if (!p->is_kept || found->is_new == p->has_position)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        if (ours[i]->offset == now.offset && ours[i]->metadata == now.metadata)
            return true;
    return false;
}

void kafka_partition_place(struct kafka_consumer *c, struct kafka_partition *p, const struct kafka_found *found)
{
    struct str metadata = {found->metadata, found->metadata_n};

    if (!is_unmoved(p, found)) {
        kafka_partition_lose(c, p);
        kafka_window_start(&p->window, found->offset, metadata);
    }
    p->committed = p->sent = kafka_place_of(found->offset, metadata);
    p->is_kept = p->is_ours = p->is_placed = true;
    p->has_position = !found->is_new;
    if (found->lost_at > 0)
        atomic_store(&p->port.lost_at, found->lost_at);
    p->awaits_commit = c->member && found->is_new;
    p->is_dirty = p->is_dirty || p->awaits_commit;
}

/* Runs at the partition's home. */
static void on_lost(struct mail *m)
{
    struct kafka_loss *loss = CONTAINER_OF(m, struct kafka_loss, mail);
    struct kafka_partition *p = loss->partition;

    p->consumer->reader->on_lost(p->consumer->reader->context, &p->port);
    atomic_store(&loss->is_told, true);
}

static struct kafka_loss *new_loss(struct kafka_partition *p)
{
    struct kafka_loss *loss = p->losses;

    while (loss && !atomic_load(&loss->is_told))
        loss = loss->next;
    if (loss) {
        atomic_store(&loss->is_told, false);
        return loss;
    }
    loss = mem_alloc_zero(MEM_KAFKA, sizeof *loss);
    loss->mail.on_mail = on_lost;
    loss->partition = p;
    loss->next = p->losses;
    p->losses = loss;
    return loss;
}

void kafka_partition_lose(struct kafka_consumer *c, struct kafka_partition *p)
{
    if (!p->is_kept)
        return;
    p->is_kept = p->is_dirty = false;
    LOG_INFO(LOG_KAFKA, "consumer.lost", F_STR("topic", p->full_topic), F_INT("partition", p->port.number),
             F_INT("unsettled", p->window.n_unsettled));
    kafka_consumer_count(c, KAFKA_CONSUMER_LOST, 1);
    kafka_window_clear(&p->window, &p->stale);
    if (c->reader->on_lost)
        mailbox_post(p->port.home, &new_loss(p)->mail);
}

/* From the finder, which may have looked for what has not been wanted, or was not ours, for a moment. */
static void on_finding(struct mail *m)
{
    struct kafka_finding *finding = CONTAINER_OF(m, struct kafka_finding, mail);
    struct kafka_consumer *c = finding->consumer;
    bool is_late = c->is_stop_asked || finding->round != c->round;

    for (struct kafka_found *found = finding->first, *next; found; found = next) {
        struct kafka_partition *p = is_late ? NULL : kafka_consumer_find(c, found->full_topic, found->number);

        next = found->next;
        if (!is_late && !p)
            p = kafka_partition_add(c, found->full_topic, found->number);
        if (p && found->offset >= 0)
            kafka_partition_place(c, p, found);
        kafka_found_free(found);
    }
    mem_free(MEM_KAFKA, finding);
    if (is_late)
        return;
    kafka_consumer_commit(c); /* the first positions of a shared group */
    kafka_partition_read_wanted(c);
    if (c->started)
        mailbox_post(c->started_home, c->started);
    c->started = NULL;
}

void kafka_consumer_take(struct kafka_consumer *c, struct kafka_found *first, uint32_t round)
{
    struct kafka_finding *finding = mem_alloc(MEM_KAFKA, sizeof *finding);

    *finding = (struct kafka_finding){.mail = {.on_mail = on_finding}, .consumer = c, .first = first, .round = round};
    mailbox_post(&c->loop.mailbox, &finding->mail);
}

void kafka_partition_begin_anew(struct kafka_consumer *c, struct kafka_partition *p, const char *why)
{
    rd_kafka_topic_partition_list_t *list = list_of(p, RD_KAFKA_OFFSET_BEGINNING);
    rd_kafka_error_t *error = rd_kafka_incremental_unassign(c->rk, list);

    LOG_WARN(LOG_KAFKA, "consumer.reset", F_STR("topic", p->full_topic), F_INT("partition", p->port.number),
             F_INT("offset", p->window.next_offset), F_TEXT("why", why));
    kafka_consumer_count(c, KAFKA_CONSUMER_RESETS, 1);
    atomic_store(&p->port.lost_at, p->window.next_offset);
    if (error)
        rd_kafka_error_destroy(error);
    kafka_window_clear(&p->window, &p->stale);
    kafka_window_start(&p->window, 0, (struct str){0});
    if (p->is_paused)
        resume(c, p);
    assign(c, list);
    rd_kafka_topic_partition_list_destroy(list);
}

void kafka_partition_check(struct kafka_consumer *c, struct kafka_partition *p)
{
    if (!p->is_read)
        return;
    if (!p->is_paused && is_full(c, p))
        pause(c, p);
    else if (p->is_paused && has_room(c, p))
        resume(c, p);
}

void kafka_partition_init(struct kafka_consumer *c)
{
    c->full_timer.on_timer = on_full_timer;
}

void kafka_partition_free(struct kafka_partition *p)
{
    kafka_consumer_count(p->consumer, KAFKA_CONSUMER_PARTITIONS, -(int64_t)p->is_read);
    kafka_consumer_count(p->consumer, KAFKA_CONSUMER_PAUSED, -(int64_t)p->is_paused);
    while (p->losses) {
        struct kafka_loss *loss = p->losses;

        p->losses = loss->next;
        mem_free(MEM_KAFKA, loss);
    }
    mem_free(MEM_KAFKA, (char *)(uintptr_t)p->full_topic.p);
    mem_free(MEM_KAFKA, p);
}
