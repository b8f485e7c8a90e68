#include "kafka/kafka_consumer_finder.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/siphash.h"
#include "kafka/kafka_consumer_private.h"
#include "loop/thread.h"
#include "obs/metrics.h"

enum {
    FIRST_PAUSE_MS = 100, /* after a round that failed; then twice as long, up to */
    LAST_PAUSE_MS = 5000,
    SOON_PAUSE_MS = 500,      /* where it is known that it will not take long */
    FIRST_PATIENCE_MS = 1000, /* with one question: stopping may have to wait for it */
    MAX_INTERESTS = 256,
};

/* A partition that the consumer has. */
struct kafka_known {
    int32_t number;
    size_t topic_bytes;
    char topic[];
};

struct known_key {
    struct str topic;
    int32_t number;
};

struct kafka_found *kafka_found_new(const char *full_topic, int32_t number)
{
    struct kafka_found *found = mem_alloc_zero(MEM_KAFKA, sizeof *found);

    found->full_topic = mem_copy_text(MEM_KAFKA, full_topic, strlen(full_topic));
    found->number = number;
    found->offset = -1;
    return found;
}

void kafka_found_free(struct kafka_found *found)
{
    mem_free(MEM_KAFKA, found->full_topic);
    mem_free(MEM_KAFKA, found->metadata);
    mem_free(MEM_KAFKA, found);
}

static void free_all(struct kafka_found *list)
{
    while (list) {
        struct kafka_found *next = list->next;

        kafka_found_free(list);
        list = next;
    }
}

static bool is_known(const void *entry, const void *key)
{
    const struct kafka_known *known = entry;
    const struct known_key *k = key;

    return known->number == k->number && str_equal((struct str){known->topic, known->topic_bytes}, k->topic);
}

static uint64_t hash_of(struct str topic, int32_t number)
{
    return siphash(topic) + (uint64_t)(uint32_t)number;
}

static bool has(const struct kafka_finder *f, struct str topic, int32_t number)
{
    struct known_key key = {topic, number};

    return map_find(&f->known, hash_of(topic, number), &key, is_known) != NULL;
}

static void remember(struct kafka_finder *f, const struct kafka_found *found)
{
    struct str topic = str_from(found->full_topic);
    struct kafka_known *known = mem_alloc(MEM_KAFKA, sizeof *known + topic.n);

    known->number = found->number;
    known->topic_bytes = topic.n;
    memcpy(known->topic, topic.p, topic.n);
    map_add(&f->known, MEM_KAFKA, hash_of(topic, found->number), known);
}

static bool is_stopping(const struct kafka_finder *f)
{
    return atomic_load(&f->is_stopping);
}

/* --- what there is --- */

/* The interest that a topic belongs to. Kafka's own topics are nobody's. */
static int interest_of(const struct kafka_finder *f, struct str full)
{
    const struct kafka_consumer *c = f->c;

    if (str_equal(full, STR("__consumer_offsets")) || str_equal(full, STR("__transaction_state")))
        return -1;
    if (!str_starts_with(full, c->prefix) || full.n == c->prefix.n)
        return -1;
    return c->reader->interest(f->wants, str_from_offset(full, c->prefix.n));
}

static void add_new(struct kafka_finder *f, const struct rd_kafka_metadata_topic *t, struct kafka_found **list)
{
    struct str topic = str_from(t->topic);
    int interest = t->err ? -1 : interest_of(f, topic);

    for (int i = 0; interest >= 0 && i < t->partition_cnt; i++) {
        struct kafka_found *found;

        if (has(f, topic, t->partitions[i].id))
            continue;
        found = kafka_found_new(t->topic, t->partitions[i].id);
        found->interest = interest;
        found->next = *list;
        *list = found;
    }
}

/* What a shared group is to divide, with a signature that tells whether it has changed; the order does not matter. */
static void add_topic(const struct kafka_finder *f, const struct rd_kafka_metadata_topic *t,
                      rd_kafka_topic_partition_list_t *topics, uint64_t *signature)
{
    struct str topic = str_from(t->topic);

    if (t->err || interest_of(f, topic) < 0)
        return;
    rd_kafka_topic_partition_list_add(topics, t->topic, RD_KAFKA_PARTITION_UA);
    *signature += siphash(topic) * (2 * (uint64_t)t->partition_cnt + 1);
}

/* The member subscribes anew if anything has changed, which makes the group divide what there is anew. */
static void subscribe(struct kafka_finder *f, const struct rd_kafka_metadata *metadata)
{
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(16);
    uint64_t signature = 0;

    for (int i = 0; i < metadata->topic_cnt; i++)
        add_topic(f, &metadata->topics[i], topics, &signature);
    if (signature != f->signature) {
        f->signature = signature;
        kafka_consumer_group_subscribe(f->c, topics);
    } else {
        rd_kafka_topic_partition_list_destroy(topics);
    }
}

/* The partitions that were not there before. */
static rd_kafka_resp_err_t find_new(struct kafka_finder *f, struct kafka_found **out_list)
{
    const struct rd_kafka_metadata *metadata;
    rd_kafka_resp_err_t code = rd_kafka_metadata(f->c->rk, 1, NULL, &metadata, f->patience_ms);

    if (code)
        return code;
    for (int i = 0; i < metadata->topic_cnt; i++)
        add_new(f, &metadata->topics[i], out_list);
    if (f->c->member)
        subscribe(f, metadata);
    rd_kafka_metadata_destroy(metadata);
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

/* --- what is new to us --- */

static bool is_named(const struct source_reader *reader, void *wants, struct str name)
{
    for (int i = 0; wants && reader->name(wants, i).n > 0; i++)
        if (str_equal(reader->name(wants, i), name))
            return true;
    return false;
}

/* The interests that the consumer has partitions of. */
static void mark_known(const struct kafka_finder *f, bool *marks)
{
    uint32_t cursor = 0;
    const struct kafka_known *known;

    while ((known = map_next(&f->known, &cursor))) {
        int interest = interest_of(f, (struct str){known->topic, known->topic_bytes});

        if (interest >= 0)
            marks[interest % MAX_INTERESTS] = true;
    }
}

/* The interests that are not met for the first time. */
static void mark_old(const struct kafka_finder *f, const struct kafka_found *list, bool *marks)
{
    const struct source_reader *reader = f->c->reader;

    for (; list; list = list->next)
        if (list->offset >= 0)
            marks[list->interest % MAX_INTERESTS] = true;
    for (int i = 0; i < MAX_INTERESTS && reader->name(f->wants, i).n > 0; i++)
        marks[i] = marks[i] || is_named(reader, f->met, reader->name(f->wants, i));
    if (f->met != f->wants)
        mark_known(f, marks);
}

static void choose_ends(const struct kafka_finder *f, struct kafka_found *list)
{
    bool is_old[MAX_INTERESTS] = {0};

    mark_old(f, list, is_old);
    for (struct kafka_found *found = list; found; found = found->next)
        found->begins_at_end =
            !is_old[found->interest % MAX_INTERESTS] && f->c->reader->begins_at_end(f->wants, found->interest);
}

/* --- rounds --- */

static bool is_named_before(const struct source_reader *reader, void *wants, int interest)
{
    for (int i = 0; i < interest; i++)
        if (str_equal(reader->name(wants, i), reader->name(wants, interest)))
            return true;
    return false;
}

/* A name that is misspelt, or a topic that the cluster does not let us see, would else never be noticed. */
static void tell_missing(const struct kafka_finder *f)
{
    const struct source_reader *reader = f->c->reader;
    bool is_there[MAX_INTERESTS] = {0};

    mark_known(f, is_there);
    for (int i = 0; i < MAX_INTERESTS && reader->name(f->wants, i).n > 0; i++)
        if (!is_there[i] && !is_named_before(reader, f->wants, i) && !is_named(reader, f->met, reader->name(f->wants, i)))
            LOG_WARN(LOG_KAFKA, "consumer.no_topic", F_STR("topic", reader->name(f->wants, i)),
                     F_TEXT("why", "there is none yet, or it may not be seen"));
}

/* A round went well. */
static void note_met(struct kafka_finder *f)
{
    if (f->met == f->wants)
        return;
    tell_missing(f);
    f->c->reader->unref(f->met);
    f->met = f->c->reader->ref(f->wants);
}

/* Gives the partitions that were found their places. */
static rd_kafka_resp_err_t place(struct kafka_finder *f, struct kafka_found *list)
{
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;

    if (!list)
        return code;
    if (!f->c->is_transient)
        code = kafka_begin_read_positions(f, list);
    if (!code && !f->c->member)
        choose_ends(f, list);
    return code ? code : kafka_begin_choose(f, list);
}

static bool note_failure(struct kafka_finder *f, rd_kafka_resp_err_t code)
{
    f->is_soon = code == RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION || code == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE ||
                 code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    if (code == RD_KAFKA_RESP_ERR__TIMED_OUT && f->patience_ms < KAFKA_FINDER_PATIENCE_MS)
        f->patience_ms *= 2;
    if (!is_stopping(f))
        LOG_WARN(LOG_KAFKA, "consumer.waiting", F_TEXT("error", rd_kafka_err2str(code)));
    return false;
}

/* True: everything there is has been found. */
static bool look(struct kafka_finder *f)
{
    struct kafka_found *list = NULL;
    rd_kafka_resp_err_t code = find_new(f, &list);

    if (!code && !f->c->member)
        code = place(f, list);
    if (code) {
        free_all(list);
        return note_failure(f, code);
    }
    for (const struct kafka_found *found = list; found; found = found->next)
        remember(f, found);
    note_met(f);
    if (list && !f->c->member)
        kafka_consumer_take(f->c, list, 0);
    else
        free_all(list);
    return true;
}

/* As it was asked, for another attempt. */
static void forget_place(struct kafka_found *found)
{
    mem_free(MEM_KAFKA, found->metadata);
    found->metadata = NULL;
    found->metadata_n = 0;
    found->offset = -1;
    found->is_new = false;
}

/* Leaves those without a place. */
static struct kafka_found *take_placed(struct kafka_found **list)
{
    struct kafka_found *placed = NULL;

    for (struct kafka_found **at = list; *at;) {
        struct kafka_found *found = *at;

        if (found->offset < 0) {
            forget_place(found);
            at = &found->next;
            continue;
        }
        *at = found->next;
        found->next = placed;
        placed = found;
    }
    return placed;
}

/* True: nothing is asked any more. What is known is answered; a partition whose leader is not there yet holds up no other one. */
static bool answer(struct kafka_finder *f)
{
    rd_kafka_resp_err_t code = place(f, f->places);
    struct kafka_found *placed = take_placed(&f->places);

    if (placed)
        kafka_consumer_take(f->c, placed, f->places_round);
    if (code)
        return note_failure(f, code);
    free_all(f->places);
    f->places = NULL;
    return true;
}

/* With the lock. */
static void take_asked(struct kafka_finder *f)
{
    if (!f->asked)
        return;
    free_all(f->places);
    f->places = f->asked;
    f->places_round = f->asked_round;
    f->asked = NULL;
}

/* With the lock. */
static void take_wants(struct kafka_finder *f)
{
    if (!f->next_wants)
        return;
    f->c->reader->unref(f->wants);
    f->wants = f->next_wants;
    f->next_wants = NULL;
}

/* Waits to be started, then for `pause_ms` or other wants. False: it is time to stop. */
static bool wait_for_turn(struct kafka_finder *f, uint32_t pause_ms)
{
    struct timespec until;
    bool is_over = pause_ms == 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += pause_ms / 1000;
    until.tv_nsec += (long)(pause_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&f->lock);
    while (!is_stopping(f) && !f->is_started)
        pthread_cond_wait(&f->wake, &f->lock);
    while (!is_stopping(f) && !is_over && !f->next_wants && !f->asked)
        is_over = pthread_cond_timedwait(&f->wake, &f->lock, &until) != 0;
    take_wants(f);
    take_asked(f);
    pthread_mutex_unlock(&f->lock);
    return !is_stopping(f);
}

static void *run(void *context)
{
    struct kafka_finder *f = context;
    uint32_t pause_ms = 0;

    metrics_attach_thread();
    while (wait_for_turn(f, pause_ms)) {
        bool is_well = answer(f);
        uint32_t last_ms = f->is_soon ? SOON_PAUSE_MS : LAST_PAUSE_MS;

        if (look(f) && is_well)
            pause_ms = f->find_ms;
        else if (pause_ms == 0 || pause_ms == f->find_ms)
            pause_ms = FIRST_PAUSE_MS;
        else
            pause_ms = pause_ms * 2 < last_ms ? pause_ms * 2 : last_ms;
    }
    return NULL;
}

void kafka_finder_init(struct kafka_finder *f, struct kafka_consumer *c, uint32_t find_ms)
{
    pthread_condattr_t attr;

    *f = (struct kafka_finder){.c = c, .find_ms = find_ms, .patience_ms = FIRST_PATIENCE_MS, .wants = c->reader->ref(c->wants)};
    pthread_mutex_init(&f->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&f->wake, &attr);
    pthread_condattr_destroy(&attr);
}

void kafka_finder_fini(struct kafka_finder *f)
{
    uint32_t cursor = 0;
    void *known;

    while ((known = map_next(&f->known, &cursor)))
        mem_free(MEM_KAFKA, known);
    map_free(&f->known, MEM_KAFKA);
    free_all(f->asked);
    free_all(f->places);
    pthread_cond_destroy(&f->wake);
    pthread_mutex_destroy(&f->lock);
}

err kafka_finder_start(struct kafka_finder *f, struct errinfo *ei)
{
    err e = thread_start(&f->thread, "kafka-find", run, f, ei);

    f->is_running = e == E_OK;
    return e;
}

void kafka_finder_begin(struct kafka_finder *f)
{
    pthread_mutex_lock(&f->lock);
    f->is_started = true;
    pthread_cond_signal(&f->wake);
    pthread_mutex_unlock(&f->lock);
}

void kafka_finder_want(struct kafka_finder *f, void *wants)
{
    void *before;

    pthread_mutex_lock(&f->lock);
    before = f->next_wants;
    f->next_wants = f->c->reader->ref(wants);
    pthread_cond_signal(&f->wake);
    pthread_mutex_unlock(&f->lock);
    f->c->reader->unref(before);
}

void kafka_finder_place(struct kafka_finder *f, struct kafka_found *list, uint32_t round)
{
    struct kafka_found *before;

    pthread_mutex_lock(&f->lock);
    before = f->asked;
    f->asked = list;
    f->asked_round = round;
    pthread_cond_signal(&f->wake);
    pthread_mutex_unlock(&f->lock);
    free_all(before);
}

void kafka_finder_release(struct kafka_finder *f)
{
    const struct source_reader *reader = f->c->reader;

    reader->unref(f->next_wants);
    reader->unref(f->wants);
    reader->unref(f->met);
    f->next_wants = f->wants = f->met = NULL;
}

void kafka_finder_stop(struct kafka_finder *f)
{
    pthread_mutex_lock(&f->lock);
    atomic_store(&f->is_stopping, true);
    pthread_cond_signal(&f->wake);
    pthread_mutex_unlock(&f->lock);
    if (f->is_running)
        pthread_join(f->thread, NULL);
    f->is_running = false;
}
