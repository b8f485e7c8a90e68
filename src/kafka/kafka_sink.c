#include "kafka/kafka_sink.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/siphash.h"
#include "kafka/kafka_creation.h"
#include "kafka/kafka_error.h"
#include "kafka/kafka_metrics.h"
#include "kafka/kafka_name.h"

enum {
    /* What librdkafka holds for a record and for a header besides their bytes, measured with malloc_usable_size(), so that
     * the budget bounds memory and not only payload. */
    RECORD_OVERHEAD_BYTES = 256,
    HEADER_OVERHEAD_BYTES = 64,
    RECORD_MAX_BYTES = 1000 * 1000 * 1000, /* librdkafka's own limit of message.max.bytes */
};

static struct kafka_sink *from_port(struct sink *sink)
{
    return CONTAINER_OF(sink, struct kafka_sink, sink);
}

static bool has_name(const void *entry, const void *key)
{
    return str_equal(((const struct sink_topic *)entry)->name, *(const struct str *)key);
}

static struct str copy_str(struct str s)
{
    return (struct str){mem_copy_text(MEM_KAFKA, s.p, s.n), s.n};
}

static void free_str(struct str *s)
{
    mem_free(MEM_KAFKA, (char *)(uintptr_t)s->p);
    *s = (struct str){0};
}

/* Writes the full name; its length, or 0 when it is not legal. */
static size_t join_name(const struct kafka_sink *ks, struct str name, char out_text[KAFKA_NAME_MAX_BYTES + 1])
{
    struct str full = {out_text, ks->prefix.n + name.n};

    if (name.n == 0 || full.n > KAFKA_NAME_MAX_BYTES)
        return 0;
    memcpy(out_text, ks->prefix.p, ks->prefix.n);
    memcpy(out_text + ks->prefix.n, name.p, name.n);
    out_text[full.n] = '\0';
    return kafka_name_is_legal(full) ? full.n : 0;
}

static uint32_t limit_of(const struct kafka_sink *ks, struct str full_name)
{
    struct str name = str_from_offset(full_name, ks->prefix.n);

    for (size_t i = 0; i < ks->n_time_limits; i++)
        if (str_starts_with(name, ks->time_limits[i].name_prefix))
            return ks->time_limits[i].limit_ms;
    return 0;
}

static struct sink_topic *find(struct kafka_sink *ks, uint64_t hash, struct str full_name)
{
    struct sink_topic *topic;

    pthread_rwlock_rdlock(&ks->lock);
    topic = map_find(&ks->topics, hash, &full_name, has_name);
    pthread_rwlock_unlock(&ks->lock);
    return topic;
}

static void open_handle(struct sink_topic *topic, struct kafka_producer *p)
{
    atomic_store(&topic->handle, kafka_producer_add_topic(p, topic->name.p, topic->limit_ms));
}

static struct sink_topic *add(struct kafka_sink *ks, uint64_t hash, struct str full_name, uint32_t limit_ms)
{
    struct sink_topic *topic;

    pthread_rwlock_wrlock(&ks->lock);
    topic = map_find(&ks->topics, hash, &full_name, has_name);
    if (!topic) {
        topic = mem_alloc_zero(MEM_KAFKA, sizeof *topic);
        topic->name = copy_str(full_name);
        topic->limit_ms = limit_ms ? limit_ms : limit_of(ks, full_name);
        if (!atomic_load(&ks->is_closed))
            open_handle(topic, atomic_load(&ks->producer));
        map_add(&ks->topics, MEM_KAFKA, hash, topic);
    }
    pthread_rwlock_unlock(&ks->lock);
    return topic;
}

static struct sink_topic *find_topic(struct sink *sink, struct str name, uint32_t limit_ms)
{
    struct kafka_sink *ks = from_port(sink);
    char text[KAFKA_NAME_MAX_BYTES + 1];
    struct str full = {text, join_name(ks, name, text)};
    struct sink_topic *topic;
    uint64_t hash;

    if (!full.n)
        return NULL;
    hash = siphash(full);
    topic = find(ks, hash, full);
    return topic ? topic : add(ks, hash, full, limit_ms);
}

/* The handle to produce with, counted at its producer. The count is raised first and the handle looked at again: either this
 * thread sees that it was changed, or whoever changed it sees the count. NULL when the topic has none. */
static struct kafka_handle *enter(struct sink_topic *topic)
{
    for (;;) {
        struct kafka_handle *h = atomic_load(&topic->handle);

        if (!h)
            return NULL;
        atomic_fetch_add(&h->producer->records, 1);
        if (atomic_load(&topic->handle) == h)
            return h;
        atomic_fetch_sub(&h->producer->records, 1);
    }
}

/* What a record is charged, or 0 when it is larger than any that Kafka takes. */
static uint64_t charge(const struct record *r)
{
    uint64_t n = RECORD_OVERHEAD_BYTES + (uint64_t)r->key.n + r->value.n;

    for (size_t i = 0; i < r->n_headers; i++)
        n += HEADER_OVERHEAD_BYTES + (uint64_t)r->headers[i].name.n + r->headers[i].value.n;
    return n > RECORD_MAX_BYTES ? 0 : n;
}

static rd_kafka_headers_t *make_headers(const struct record *r)
{
    rd_kafka_headers_t *headers = rd_kafka_headers_new(r->n_headers);

    for (size_t i = 0; i < r->n_headers; i++) {
        const struct record_header *h = &r->headers[i];

        /* A NULL value would be stored as null, which is not the same as an empty one. */
        (void)rd_kafka_header_add(headers, h->name.p, (ssize_t)h->name.n, h->value.p ? h->value.p : "", (ssize_t)h->value.n);
    }
    return headers;
}

static void *without_const(const char *p)
{
    return (void *)(uintptr_t)p; /* librdkafka's interface serves both directions with one type; it only reads */
}

/* One copy of key and value is made here, by librdkafka, into the block that holds its message. */
static rd_kafka_resp_err_t produce(const struct kafka_handle *h, const struct record *r, struct delivery *d)
{
    rd_kafka_headers_t *headers = r->n_headers ? make_headers(r) : NULL;
    rd_kafka_vu_t args[] = {
        {.vtype = RD_KAFKA_VTYPE_RKT, .u.rkt = h->rkt},
        {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
        {.vtype = RD_KAFKA_VTYPE_VALUE, .u.mem = {without_const(r->value.p), r->value.n}},
        {.vtype = RD_KAFKA_VTYPE_KEY, .u.mem = {r->key.n ? without_const(r->key.p) : NULL, r->key.n}},
        {.vtype = RD_KAFKA_VTYPE_OPAQUE, .u.ptr = d},
        {.vtype = RD_KAFKA_VTYPE_PARTITION, .u.i32 = r->has_partition ? r->partition : RD_KAFKA_PARTITION_UA},
        {.vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = headers},
    };
    rd_kafka_error_t *error = rd_kafka_produceva(h->producer->rk, args, ARRAY_LEN(args) - !headers);
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;

    if (error) {
        code = rd_kafka_error_code(error);
        rd_kafka_error_destroy(error);
        if (headers)
            rd_kafka_headers_destroy(headers);
    }
    return code;
}

static err refuse(struct delivery *d, enum outcome outcome)
{
    d->outcome = outcome;
    kafka_metrics_add_records(outcome, 1);
    return E_INVAL;
}

static err reserve(struct sink *sink, uint64_t bytes, size_t n_records)
{
    if (kafka_budget_take_several(&from_port(sink)->budget, bytes, n_records))
        return E_OK;
    kafka_metrics_add(KAFKA_COUNTER_NO_ROOM, 1);
    return E_AGAIN;
}

static void unreserve(struct sink *sink, uint64_t bytes, size_t n_records)
{
    kafka_budget_give(&from_port(sink)->budget, bytes, n_records);
}

static err submit_reserved(struct sink *sink, const struct record *r, struct delivery *d)
{
    struct kafka_sink *ks = from_port(sink);
    uint64_t n = charge(r);
    enum outcome outcome = n ? OUTCOME_UNAVAILABLE : OUTCOME_TOO_LARGE;
    struct kafka_handle *h = n ? enter(r->topic) : NULL;

    d->charged_bytes = (uint32_t)n;
    /* Looked at after enter(), so that whoever closed the sink finds this record in the count or never at all. */
    if (h && !atomic_load(&ks->is_closed)) {
        rd_kafka_resp_err_t code = produce(h, r, d);

        if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
            return E_OK;
        outcome = code == RD_KAFKA_RESP_ERR__FATAL ? kafka_error_fatal_outcome(rd_kafka_fatal_error(h->producer->rk, NULL, 0))
                                                   : kafka_error_outcome(code);
    }
    if (h)
        atomic_fetch_sub(&h->producer->records, 1);
    kafka_budget_give(&ks->budget, n, 1);
    return refuse(d, outcome);
}

static err submit(struct sink *sink, const struct record *r, struct delivery *d)
{
    uint64_t n = charge(r);
    err e;

    if (!n)
        return refuse(d, OUTCOME_TOO_LARGE);
    e = reserve(sink, n, 1);
    return e == E_OK ? submit_reserved(sink, r, d) : e;
}

static void wait_for_room(struct sink *sink, struct sink_waiter *waiter)
{
    struct kafka_sink *ks = from_port(sink);

    kafka_budget_wait(&ks->budget, waiter);
    if (atomic_load(&ks->is_closed))
        kafka_budget_wake_all(&ks->budget);
}

static const struct sink_ops ops = {
    .topic = find_topic,
    .submit = submit,
    .wait = wait_for_room,
    .charge = charge,
    .reserve = reserve,
    .unreserve = unreserve,
    .submit_reserved = submit_reserved,
    .create = kafka_creation_begin,
};

void kafka_sink_init(struct kafka_sink *ks, const struct kafka_settings *settings)
{
    uint64_t limit = settings->max_inflight_bytes;

    *ks = (struct kafka_sink){.sink.ops = &ops, .prefix = copy_str(settings->topic_prefix)};
    kafka_budget_init(&ks->budget, limit ? limit : KAFKA_DEFAULT_INFLIGHT_BYTES);
    pthread_rwlock_init(&ks->lock, NULL);
    ks->n_time_limits = settings->n_time_limits;
    ks->time_limits = mem_alloc(MEM_KAFKA, ks->n_time_limits * sizeof *ks->time_limits + 1);
    for (size_t i = 0; i < ks->n_time_limits; i++)
        ks->time_limits[i] = (struct kafka_time_limit){.name_prefix = copy_str(settings->time_limits[i].name_prefix),
                                                       .limit_ms = settings->time_limits[i].limit_ms};
}

void kafka_sink_fini(struct kafka_sink *ks)
{
    struct sink_topic *topic;
    uint32_t cursor = 0;

    while ((topic = map_next(&ks->topics, &cursor))) {
        free_str(&topic->name);
        mem_free(MEM_KAFKA, topic);
    }
    map_free(&ks->topics, MEM_KAFKA);
    for (size_t i = 0; i < ks->n_time_limits; i++)
        free_str(&ks->time_limits[i].name_prefix);
    mem_free(MEM_KAFKA, ks->time_limits);
    free_str(&ks->prefix);
    pthread_rwlock_destroy(&ks->lock);
}

void kafka_sink_use(struct kafka_sink *ks, struct kafka_producer *p)
{
    struct sink_topic *topic;
    uint32_t cursor = 0;

    pthread_rwlock_wrlock(&ks->lock);
    while ((topic = map_next(&ks->topics, &cursor)))
        open_handle(topic, p);
    atomic_store(&ks->producer, p);
    pthread_rwlock_unlock(&ks->lock);
}

void kafka_sink_close(struct kafka_sink *ks)
{
    /* Under the lock, so that nobody opens a topic of a producer about to be closed. */
    pthread_rwlock_wrlock(&ks->lock);
    atomic_store(&ks->is_closed, true);
    pthread_rwlock_unlock(&ks->lock);
    kafka_budget_wake_all(&ks->budget);
}

struct kafka_producer *kafka_sink_hold(struct kafka_sink *ks)
{
    for (;;) {
        struct kafka_producer *p = atomic_load(&ks->producer);

        atomic_fetch_add(&p->holds, 1);
        if (atomic_load(&ks->producer) == p)
            return p;
        atomic_fetch_sub(&p->holds, 1);
    }
}

void kafka_sink_release(struct kafka_producer *p)
{
    atomic_fetch_sub(&p->holds, 1);
}

struct str kafka_sink_full_name(const struct kafka_sink *ks, struct str name)
{
    char text[KAFKA_NAME_MAX_BYTES + 1];
    struct str full = {text, join_name(ks, name, text)};

    return full.n ? copy_str(full) : (struct str){0};
}
