#include "fake/fake_sink.h"

#include <stdint.h>

#include "base/check.h"
#include "base/mem.h"
#include "loop/mailbox.h"

struct sink_topic {
    struct sink_topic *next;
    struct str name;
};

static struct fake_sink *from_port(struct sink *sink)
{
    return CONTAINER_OF(sink, struct fake_sink, sink);
}

static struct str copy(struct str s)
{
    return s.p ? (struct str){mem_copy_text(MEM_TEST, s.p, s.n), s.n} : (struct str){0};
}

static void drop(struct str s)
{
    mem_free(MEM_TEST, (char *)(uintptr_t)s.p);
}

static bool is_legal(struct str name)
{
    static const char legal[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

    for (size_t i = 0; i < name.n; i++)
        if (!memchr(legal, name.p[i], sizeof legal - 1))
            return false;
    return name.n > 0 && name.n <= 249 && !str_equal(name, STR(".")) && !str_equal(name, STR(".."));
}

static struct sink_topic *find_topic(struct sink *sink, struct str name, uint32_t limit_ms)
{
    struct fake_sink *fs = from_port(sink);
    struct sink_topic *topic;

    (void)limit_ms;
    if (!is_legal(name))
        return NULL;
    pthread_mutex_lock(&fs->lock);
    for (topic = fs->topics; topic && !str_equal(topic->name, name); topic = topic->next)
        ;
    if (!topic) {
        topic = mem_alloc(MEM_TEST, sizeof *topic);
        *topic = (struct sink_topic){.next = fs->topics, .name = copy(name)};
        fs->topics = topic;
    }
    pthread_mutex_unlock(&fs->lock);
    return topic;
}

static void answer(struct fake_sink *fs, struct fake_record *r, enum outcome outcome)
{
    struct delivery *d = r->delivery;

    if (!d)
        return;
    r->delivery = NULL;
    r->outcome = d->outcome = outcome;
    fs->n_answered++;
    mailbox_post(d->home, &d->mail);
}

static bool has_room(const struct fake_sink *fs)
{
    return fs->n_records - fs->n_answered + fs->n_reserved < fs->room;
}

static void wake_waiters(struct fake_sink *fs)
{
    while (fs->waiting && has_room(fs)) {
        struct mail *m = fs->waiting;

        fs->waiting = m->next;
        mailbox_post(CONTAINER_OF(m, struct sink_waiter, mail)->home, m);
    }
}

static struct fake_record *keep(struct fake_sink *fs, const struct record *record, struct delivery *d)
{
    struct fake_record *r = mem_alloc_zero(MEM_TEST, sizeof *r);
    /* Not by mem_try_realloc(), which fails where a test makes allocations fail. */
    struct fake_record **grown = mem_alloc(MEM_TEST, (fs->n_records + 1) * sizeof *grown);

    if (fs->n_records)
        memcpy(grown, fs->records, fs->n_records * sizeof *grown);
    mem_free(MEM_TEST, fs->records);
    *r = (struct fake_record){.topic = record->topic->name,
                              .key = copy(record->key),
                              .value = copy(record->value),
                              .n_headers = record->n_headers,
                              .delivery = d};
    r->headers = mem_alloc_zero(MEM_TEST, record->n_headers * sizeof *r->headers + 1);
    for (size_t i = 0; i < record->n_headers; i++)
        r->headers[i] = (struct record_header){copy(record->headers[i].name), copy(record->headers[i].value)};
    fs->records = grown;
    fs->records[fs->n_records++] = r;
    return r;
}

static err take(struct fake_sink *fs, const struct record *record, struct delivery *d)
{
    struct fake_step step = {.outcome = OUTCOME_STORED};
    struct fake_record *r;

    if (fs->next_script < fs->n_script)
        step = fs->script[fs->next_script++];
    if (step.is_at_once) {
        d->outcome = step.outcome;
        return E_INVAL;
    }
    r = keep(fs, record, d);
    r->outcome = step.outcome;
    if (!fs->is_holding)
        answer(fs, r, step.outcome);
    return E_OK;
}

/* Every record is charged the same: room is counted in records. */
static uint64_t charge(const struct record *record)
{
    (void)record;
    return 1;
}

static err reserve(struct sink *sink, uint64_t bytes, size_t n_records)
{
    struct fake_sink *fs = from_port(sink);
    err e = E_OK;

    (void)bytes;
    pthread_mutex_lock(&fs->lock);
    if (has_room(fs)) {
        fs->n_reserved += n_records;
    } else {
        fs->n_refused_for_room++;
        e = E_AGAIN;
    }
    pthread_mutex_unlock(&fs->lock);
    return e;
}

static void unreserve(struct sink *sink, uint64_t bytes, size_t n_records)
{
    struct fake_sink *fs = from_port(sink);

    (void)bytes;
    pthread_mutex_lock(&fs->lock);
    fs->n_reserved -= n_records;
    wake_waiters(fs);
    pthread_mutex_unlock(&fs->lock);
}

static err submit_reserved(struct sink *sink, const struct record *record, struct delivery *d)
{
    struct fake_sink *fs = from_port(sink);
    err e;

    pthread_mutex_lock(&fs->lock);
    fs->n_reserved--;
    e = take(fs, record, d);
    pthread_mutex_unlock(&fs->lock);
    return e;
}

static err submit(struct sink *sink, const struct record *record, struct delivery *d)
{
    err e = reserve(sink, 1, 1);

    return e == E_OK ? submit_reserved(sink, record, d) : e;
}

static void answer_creation(struct fake_sink *fs, struct sink_creation *creation)
{
    creation->result = fs->creation_result;
    mailbox_post(creation->home, &creation->mail);
}

static void create(struct sink *sink, struct sink_creation *creation)
{
    struct fake_sink *fs = from_port(sink);

    pthread_mutex_lock(&fs->lock);
    fs->n_creations++;
    if (fs->is_holding_creations) {
        creation->mail.next = fs->creations;
        fs->creations = &creation->mail;
    } else {
        answer_creation(fs, creation);
    }
    pthread_mutex_unlock(&fs->lock);
}

static void wait_for_room(struct sink *sink, struct sink_waiter *waiter)
{
    struct fake_sink *fs = from_port(sink);

    if (!sink_arm_waiter(waiter))
        return;
    pthread_mutex_lock(&fs->lock);
    waiter->mail.next = fs->waiting;
    fs->waiting = &waiter->mail;
    wake_waiters(fs);
    pthread_mutex_unlock(&fs->lock);
}

static const struct sink_ops ops = {
    .topic = find_topic,
    .submit = submit,
    .wait = wait_for_room,
    .charge = charge,
    .reserve = reserve,
    .unreserve = unreserve,
    .submit_reserved = submit_reserved,
    .create = create,
};

void fake_sink_init(struct fake_sink *fs)
{
    *fs = (struct fake_sink){.sink.ops = &ops, .room = SIZE_MAX};
    pthread_mutex_init(&fs->lock, NULL);
}

static void free_record(struct fake_record *r)
{
    for (size_t i = 0; i < r->n_headers; i++) {
        drop(r->headers[i].name);
        drop(r->headers[i].value);
    }
    mem_free(MEM_TEST, r->headers);
    drop(r->key);
    drop(r->value);
    mem_free(MEM_TEST, r);
}

void fake_sink_fini(struct fake_sink *fs)
{
    for (size_t i = 0; i < fs->n_records; i++)
        free_record(fs->records[i]);
    mem_free(MEM_TEST, fs->records);
    while (fs->topics) {
        struct sink_topic *topic = fs->topics;

        fs->topics = topic->next;
        drop(topic->name);
        mem_free(MEM_TEST, topic);
    }
    pthread_mutex_destroy(&fs->lock);
}

void fake_sink_add_step(struct fake_sink *fs, enum outcome outcome, bool is_at_once)
{
    pthread_mutex_lock(&fs->lock);
    ASSERT(fs->n_script < FAKE_SINK_SCRIPT_MAX);
    fs->script[fs->n_script++] = (struct fake_step){outcome, is_at_once};
    pthread_mutex_unlock(&fs->lock);
}

void fake_sink_hold(struct fake_sink *fs)
{
    pthread_mutex_lock(&fs->lock);
    fs->is_holding = true;
    pthread_mutex_unlock(&fs->lock);
}

void fake_sink_release(struct fake_sink *fs, size_t n)
{
    pthread_mutex_lock(&fs->lock);
    if (n == SIZE_MAX)
        fs->is_holding = false;
    for (size_t i = 0; i < fs->n_records && n > 0; i++) {
        struct fake_record *r = fs->records[i];

        if (!r->delivery)
            continue;
        answer(fs, r, r->outcome);
        n--;
    }
    wake_waiters(fs);
    pthread_mutex_unlock(&fs->lock);
}

void fake_sink_answer(struct fake_sink *fs, size_t i, enum outcome outcome)
{
    pthread_mutex_lock(&fs->lock);
    ASSERT(i < fs->n_records);
    answer(fs, fs->records[i], outcome);
    wake_waiters(fs);
    pthread_mutex_unlock(&fs->lock);
}

void fake_sink_set_room(struct fake_sink *fs, size_t n)
{
    pthread_mutex_lock(&fs->lock);
    fs->room = n;
    wake_waiters(fs);
    pthread_mutex_unlock(&fs->lock);
}

void fake_sink_hold_creations(struct fake_sink *fs)
{
    pthread_mutex_lock(&fs->lock);
    fs->is_holding_creations = true;
    pthread_mutex_unlock(&fs->lock);
}

void fake_sink_release_creations(struct fake_sink *fs, err result)
{
    pthread_mutex_lock(&fs->lock);
    fs->creation_result = result;
    fs->is_holding_creations = false;
    while (fs->creations) {
        struct mail *m = fs->creations;

        fs->creations = m->next;
        answer_creation(fs, CONTAINER_OF(m, struct sink_creation, mail));
    }
    pthread_mutex_unlock(&fs->lock);
}

size_t fake_sink_count(struct fake_sink *fs)
{
    size_t n;

    pthread_mutex_lock(&fs->lock);
    n = fs->n_records;
    pthread_mutex_unlock(&fs->lock);
    return n;
}

const struct fake_record *fake_sink_record(struct fake_sink *fs, size_t i)
{
    const struct fake_record *r;

    pthread_mutex_lock(&fs->lock);
    ASSERT(i < fs->n_records);
    r = fs->records[i];
    pthread_mutex_unlock(&fs->lock);
    return r;
}

struct str fake_sink_header(const struct fake_record *record, struct str name)
{
    for (size_t i = 0; i < record->n_headers; i++)
        if (str_equal(record->headers[i].name, name))
            return record->headers[i].value;
    return (struct str){0};
}
