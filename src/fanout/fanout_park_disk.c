#include "fanout/fanout_park_disk.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/check.h"
#include "base/log.h"
#include "base/siphash.h"
#include "fanout/fanout_park_index.h"
#include "fanout/fanout_park_list.h"
#include "loop/loop.h"
#include "loop/thread.h"
#include "obs/metrics.h"

enum {
    FLYING_MAX = 32,             /* attempts at once */
    LANE_FLYING_MAX = 4,         /* of one subscription, so that a slow one does not keep the others waiting */
    FLYING_BYTES_MAX = 32 << 20, /* of all; one goes whatever its size */
    LOOKED_AT_MAX = 10 * 1000,   /* at a time, past those of subscriptions that have their share */
    RECORD_KEPT_BYTES = 1 << 20, /* of memory for the next record */
    PARCELS_PER_COMMIT = 1000,   /* the rest waits for the next */
    LOOK_AGAIN_MS = 60 * 1000,   /* at the latest: the wall clock may be set */
    LOOK_FURTHER_MS = 1000,      /* past LOOKED_AT_MAX, or when the carrier did not try */
    PAUSE_AFTER_FAULT_MS = 5 * 1000,
};

/* An attempt that is under way, with the record in memory of its own. */
struct flight {
    struct fanout_park_attempt attempt;
    struct mail back;
    struct fanout_park_disk *disk;
    struct list link; /* in flying, then in landed */
    uint64_t number, lane;
    uint32_t attempts; /* before this one */
    struct fanout_park_record record;
    struct arena arena;
    size_t n_value;
    char value[];
};

struct fanout_park_disk {
    struct fanout_park port;
    struct fanout_park_index index;
    uint32_t delay_ms, delay_max_ms;
    struct fanout_park_carrier *carrier; /* NULL: nothing is tried again */
    struct loop loop;
    pthread_t thread;
    struct store_txn reader;
    struct list parcels, flying, landed;
    size_t n_flying, flying_bytes;
    struct buf record;                 /* under construction */
    uint64_t counted_n, counted_bytes; /* in the gauges */
    struct task commit_task, look_task;
    struct timer look_timer;
    struct mail start, rest, stop;
    struct fanout_park_carrier *next_carrier;
    bool is_stopped;        /* the thread is no more */
    bool is_refused;        /* the carrier did not try: not now */
    atomic_bool is_failing; /* the last commit failed */
};

/* ---- metrics ---- */

enum counter { PARKED, UNPARKED, TRIED, REFUSED_FULL, REFUSED_DISK, EVENTS, BYTES, COUNTERS };

static struct metric counters[COUNTERS] = {
    [PARKED] = {.name = "millrace_fanout_park_taken_total", .help = "Events that were parked.", .kind = METRIC_COUNTER},
    [UNPARKED] = {.name = "millrace_fanout_park_delivered_total",
                  .help = "Parked events that a later attempt delivered.",
                  .kind = METRIC_COUNTER},
    [TRIED] = {.name = "millrace_fanout_park_attempts_total",
               .help = "Attempts to deliver parked events.",
               .kind = METRIC_COUNTER},
    [REFUSED_FULL] = {.name = "millrace_fanout_park_refused_total",
                      .labels = "reason=\"full\"",
                      .help = "Events that were not parked.",
                      .kind = METRIC_COUNTER},
    [REFUSED_DISK] = {.name = "millrace_fanout_park_refused_total", .labels = "reason=\"disk\"", .kind = METRIC_COUNTER},
    [EVENTS] = {.name = "millrace_fanout_parked_events", .help = "Events that are parked.", .kind = METRIC_GAUGE},
    [BYTES] = {.name = "millrace_fanout_parked_bytes", .help = "Their size.", .kind = METRIC_GAUGE},
};

void fanout_park_disk_register_metrics(void)
{
    metrics_register(counters, COUNTERS);
}

/* ---- the disk ---- */

static void note_commit(struct fanout_park_disk *disk, err e, const struct errinfo *ei)
{
    bool was_failing = atomic_exchange(&disk->is_failing, e != E_OK);

    if (e != E_OK && !was_failing)
        LOG_ERROR(LOG_HTTP, "fanout.park.failed", F_TEXT("error", ei->text));
    if (e == E_OK && was_failing)
        LOG_INFO(LOG_HTTP, "fanout.park.back");
}

/* 0.5 to 1 of the delay after so many attempts in vain, so that what failed together is not tried together. */
static uint64_t next_due(const struct fanout_park_disk *disk, uint32_t attempts, uint64_t number)
{
    uint64_t delay = disk->delay_ms, spread = (number * 0x9e3779b97f4a7c15u) >> 44; /* 20 bits */

    for (uint32_t i = 0; i < attempts && delay < disk->delay_max_ms; i++)
        delay *= 2;
    if (delay > disk->delay_max_ms)
        delay = disk->delay_max_ms;
    return loop_wall_ms() + delay / 2 + (delay / 2 * spread >> 20);
}

static uint64_t lane_of(const struct fanout_parcel *parcel)
{
    static const struct siphash_key key = {0x7061726b, 0x6c616e65}; /* the same in every process: it lies on the disk */

    return siphash_with(key, parcel->channel) ^ (siphash_with(key, parcel->uid) << 1);
}

/* Puts a parcel into the change. */
static err add(struct fanout_park_disk *disk, struct fanout_park_change *change, struct fanout_parcel *parcel)
{
    const struct fanout_park_record record = {
        .channel = parcel->channel,
        .uid = parcel->uid,
        .lines = parcel->lines,
        .event = *parcel->event,
        .extras = parcel->extras,
        .parked_at_ms = loop_wall_ms(),
    };
    err e;

    buf_consume(&disk->record, buf_size(&disk->record));
    e = fanout_park_record_write(&disk->record, &record);
    if (e != E_OK)
        return E_LIMIT; /* the store needs the record in one piece, and there is no memory for it */
    return fanout_park_index_add(change, buf_str(&disk->record), lane_of(parcel), next_due(disk, 0, change->next_number));
}

static err settle(struct fanout_park_disk *disk, struct fanout_park_change *change, const struct flight *flight)
{
    if (flight->attempt.result == E_OK)
        return fanout_park_index_remove(change, flight->number);
    if (flight->attempt.result == E_AGAIN) {
        disk->is_refused = true;
        return E_OK;
    }
    return fanout_park_index_postpone(change, flight->number, next_due(disk, flight->attempts + 1, flight->number));
}

/* The gauges show what is committed. */
static void count_parked(struct fanout_park_disk *disk)
{
    metric_add(&counters[EVENTS], disk->index.n - disk->counted_n);
    metric_add(&counters[BYTES], disk->index.bytes - disk->counted_bytes);
    disk->counted_n = disk->index.n;
    disk->counted_bytes = disk->index.bytes;
}

/* Takes what waits out of the lists into `parcels` and `landed`, and to the disk. The result of each parcel is set. */
static err commit(struct fanout_park_disk *disk, struct list *parcels, struct list *landed, struct errinfo *ei)
{
    struct fanout_park_change change;
    struct list *node;
    err e = fanout_park_index_begin(&disk->index, &change);

    if (e != E_OK)
        return errinfo_set(ei, e, "the disk does not begin to write");
    for (size_t i = 0; i < PARCELS_PER_COMMIT && (node = list_pop(&disk->parcels)) != NULL; i++) {
        struct fanout_parcel *parcel = CONTAINER_OF(node, struct fanout_parcel, link);

        list_push(parcels, node);
        parcel->result = add(disk, &change, parcel);
    }
    while ((node = list_pop(&disk->landed)) != NULL) {
        list_push(landed, node);
        ERR_IGNORE(settle(disk, &change, CONTAINER_OF(node, struct flight, link))); /* a failure fails the commit */
    }
    e = fanout_park_index_commit(&change, ei);
    if (e == E_OK)
        count_parked(disk);
    return e;
}

static void answer(struct list *parcels, err e)
{
    struct list *node;

    while ((node = list_pop(parcels)) != NULL) {
        struct fanout_parcel *parcel = CONTAINER_OF(node, struct fanout_parcel, link);

        if (e != E_OK)
            parcel->result = e;
        metric_add(&counters[parcel->result == E_OK ? PARKED : parcel->result == E_LIMIT ? REFUSED_FULL : REFUSED_DISK], 1);
        mailbox_post(parcel->home, &parcel->mail);
    }
}

static void flight_free(struct flight *flight)
{
    struct fanout_park_disk *disk = flight->disk;

    list_remove(&flight->link);
    disk->n_flying--;
    disk->flying_bytes -= flight->n_value;
    arena_free(&flight->arena, MEM_FANOUT);
    mem_free(MEM_FANOUT, flight);
}

/* What could not be noted stays as it is, to be delivered once more. */
static void forget(struct list *landed, err e)
{
    struct list *node;

    while ((node = list_pop(landed)) != NULL) {
        struct flight *flight = CONTAINER_OF(node, struct flight, link);

        metric_add(&counters[UNPARKED], flight->attempt.result == E_OK && e == E_OK);
        flight_free(flight);
    }
}

/* The disk does not even begin: nobody waits in vain. */
static void take_all(struct list *to, struct list *from)
{
    struct list *node;

    while ((node = list_pop(from)) != NULL)
        list_push(to, node);
}

static void look_later(struct fanout_park_disk *disk, err e)
{
    if (e != E_OK)
        wheel_start(&disk->loop.wheel, &disk->look_timer, PAUSE_AFTER_FAULT_MS);
    else if (disk->is_refused)
        wheel_start(&disk->loop.wheel, &disk->look_timer, LOOK_FURTHER_MS);
    else
        loop_defer(&disk->loop, &disk->look_task);
    disk->is_refused = false;
}

static void on_commit(struct task *t)
{
    struct fanout_park_disk *disk = CONTAINER_OF(t, struct fanout_park_disk, commit_task);
    struct list parcels, landed;
    struct errinfo ei = {0};
    err e;

    if (list_is_empty(&disk->parcels) && list_is_empty(&disk->landed))
        return;
    list_init(&parcels);
    list_init(&landed);
    e = commit(disk, &parcels, &landed, &ei);
    if (e != E_OK) {
        take_all(&parcels, &disk->parcels);
        take_all(&landed, &disk->landed);
    }
    note_commit(disk, e, &ei);
    answer(&parcels, e);
    forget(&landed, e);
    if (disk->record.cap > RECORD_KEPT_BYTES)
        buf_free(&disk->record, MEM_FANOUT);
    if (!list_is_empty(&disk->parcels))
        loop_defer(&disk->loop, &disk->commit_task);
    look_later(disk, e);
}

/* ---- what comes by mail ---- */

static void on_parcel(struct mail *m)
{
    struct fanout_parcel *parcel = CONTAINER_OF(m, struct fanout_parcel, travel);
    struct fanout_park_disk *disk = CONTAINER_OF(parcel->park, struct fanout_park_disk, port);

    list_push(&disk->parcels, &parcel->link);
    loop_defer(&disk->loop, &disk->commit_task);
}

static void put(struct fanout_park *park, struct fanout_parcel *parcel)
{
    struct fanout_park_disk *disk = CONTAINER_OF(park, struct fanout_park_disk, port);

    parcel->park = park;
    parcel->travel.on_mail = on_parcel;
    parcel->link = (struct list){0};
    mailbox_post(&disk->loop.mailbox, &parcel->travel);
}

static void on_answer(struct mail *m)
{
    struct flight *flight = CONTAINER_OF(m, struct flight, back);
    struct fanout_park_disk *disk = flight->disk;

    list_remove(&flight->link);
    list_push(&disk->landed, &flight->link);
    loop_defer(&disk->loop, &disk->commit_task);
}

void fanout_park_disk_answer(struct fanout_park_attempt *attempt)
{
    struct flight *flight = CONTAINER_OF(attempt, struct flight, attempt);

    mailbox_post(&flight->disk->loop.mailbox, &flight->back);
}

static void on_start(struct mail *m)
{
    struct fanout_park_disk *disk = CONTAINER_OF(m, struct fanout_park_disk, start);

    disk->carrier = disk->next_carrier;
    loop_defer(&disk->loop, &disk->look_task);
}

static void on_rest(struct mail *m)
{
    CONTAINER_OF(m, struct fanout_park_disk, rest)->carrier = NULL;
}

static void on_stop(struct mail *m)
{
    loop_stop(&CONTAINER_OF(m, struct fanout_park_disk, stop)->loop);
}

/* ---- trying again ---- */

/* How many of the list are of this lane; UINT_MAX: one is the event itself. */
static unsigned count_lane(const struct list *list, const struct fanout_park_walk *walk)
{
    unsigned n = 0;

    for (struct list *node = list->next; node != list; node = node->next) {
        const struct flight *flight = CONTAINER_OF(node, struct flight, link);

        if (flight->number == walk->number)
            return UINT_MAX;
        n += flight->lane == walk->state.lane;
    }
    return n;
}

static bool may_fly(const struct fanout_park_disk *disk, const struct fanout_park_walk *walk)
{
    return count_lane(&disk->landed, walk) != UINT_MAX && count_lane(&disk->flying, walk) < LANE_FLYING_MAX;
}

/* False: there is no room for more. */
static bool launch(struct fanout_park_disk *disk, struct fanout_park_walk *walk)
{
    struct flight *flight;
    struct str value;

    if (disk->n_flying == FLYING_MAX || fanout_park_index_read(walk, &value) != E_OK ||
        (disk->n_flying > 0 && disk->flying_bytes + value.n > FLYING_BYTES_MAX))
        return false;
    flight = mem_try_alloc(MEM_FANOUT, sizeof *flight + value.n);
    if (!flight)
        return false;
    *flight = (struct flight){.disk = disk,
                              .back = {.on_mail = on_answer},
                              .attempt = {.record = &flight->record},
                              .number = walk->number,
                              .lane = walk->state.lane,
                              .attempts = walk->state.attempts,
                              .n_value = value.n};
    memcpy(flight->value, value.p, value.n);
    list_push(&disk->flying, &flight->link);
    disk->n_flying++;
    disk->flying_bytes += value.n;
    metric_add(&counters[TRIED], 1);
    if (fanout_park_record_read(&flight->arena, (struct str){flight->value, value.n}, &flight->record) == E_OK) {
        disk->carrier->carry(disk->carrier, &flight->attempt);
        return true;
    }
    LOG_ERROR(LOG_HTTP, "fanout.park.unreadable", F_INT("number", flight->number));
    flight->attempt.result = E_PROTO;
    fanout_park_disk_answer(&flight->attempt);
    return true;
}

/* Launches what is due. Returns when to look again, in milliseconds. */
static uint64_t launch_due(struct fanout_park_disk *disk)
{
    uint64_t now_ms = loop_wall_ms(), latest_ms = now_ms + disk->delay_max_ms;
    struct fanout_park_walk walk;
    uint64_t wait_ms = LOOK_FURTHER_MS;
    err e = E_OK;

    if (store_reader_renew(&disk->reader) != E_OK)
        return PAUSE_AFTER_FAULT_MS;
    if (fanout_park_index_walk(&disk->index, &disk->reader, true, &walk) != E_OK) {
        store_reader_rest(&disk->reader);
        return PAUSE_AFTER_FAULT_MS;
    }
    for (unsigned i = 0; i < LOOKED_AT_MAX && (e = fanout_park_index_next(&walk)) == E_OK; i++) {
        /* Further away than any delay: the wall clock was set back. */
        if (walk.state.due_ms > now_ms && walk.state.due_ms <= latest_ms) {
            wait_ms = walk.state.due_ms - now_ms;
            break;
        }
        if (may_fly(disk, &walk) && !launch(disk, &walk))
            break; /* the next answer looks again, as does the timer */
    }
    if (e != E_OK || wait_ms > LOOK_AGAIN_MS)
        wait_ms = LOOK_AGAIN_MS;
    fanout_park_index_end(&walk);
    store_reader_rest(&disk->reader);
    return wait_ms;
}

static void on_look(struct task *t)
{
    struct fanout_park_disk *disk = CONTAINER_OF(t, struct fanout_park_disk, look_task);

    if (disk->carrier)
        wheel_start(&disk->loop.wheel, &disk->look_timer, launch_due(disk));
}

static void on_look_timer(struct timer *t)
{
    struct fanout_park_disk *disk = CONTAINER_OF(t, struct fanout_park_disk, look_timer);

    loop_defer(&disk->loop, &disk->look_task);
}

/* ---- life ---- */

static void *run(void *context)
{
    struct fanout_park_disk *disk = context;

    metrics_attach_thread();
    count_parked(disk);
    loop_run(&disk->loop);
    return NULL;
}

static void disk_free(struct fanout_park_disk *disk)
{
    metric_add(&counters[EVENTS], -disk->counted_n);
    metric_add(&counters[BYTES], -disk->counted_bytes);
    store_reader_close(&disk->reader);
    fanout_park_index_close(&disk->index);
    buf_free(&disk->record, MEM_FANOUT);
    mem_free(MEM_FANOUT, disk);
}

static struct fanout_park_disk *disk_new(const struct fanout_park_settings *settings)
{
    struct fanout_park_disk *disk = mem_alloc_zero(MEM_FANOUT, sizeof *disk);

    disk->port.put = put;
    disk->delay_ms = settings->delay_ms;
    disk->delay_max_ms = settings->delay_max_ms;
    list_init(&disk->parcels);
    list_init(&disk->flying);
    list_init(&disk->landed);
    disk->commit_task.run = on_commit;
    disk->look_task.run = on_look;
    disk->look_timer.on_timer = on_look_timer;
    disk->start.on_mail = on_start;
    disk->rest.on_mail = on_rest;
    disk->stop.on_mail = on_stop;
    return disk;
}

err fanout_park_disk_open(const struct fanout_park_settings *settings, struct fanout_park_disk **out_disk, struct errinfo *ei)
{
    struct fanout_park_disk *disk = disk_new(settings);
    err e = fanout_park_index_open(&disk->index, settings->path, settings->max_bytes, ei);

    if (e == E_OK) {
        e = store_reader_open(disk->index.store, &disk->reader);
        if (e == E_OK)
            store_reader_rest(&disk->reader);
        else
            (void)errinfo_set(ei, e, "the parked events cannot be read");
    }
    if (e == E_OK && (e = loop_init(&disk->loop, 0, ei)) == E_OK) {
        e = thread_start(&disk->thread, "park", run, disk, ei);
        if (e == E_OK) {
            *out_disk = disk;
            return E_OK;
        }
        loop_fini(&disk->loop);
    }
    disk_free(disk);
    return e;
}

struct fanout_park *fanout_park_disk_port(struct fanout_park_disk *disk)
{
    return &disk->port;
}

void fanout_park_disk_start(struct fanout_park_disk *disk, struct fanout_park_carrier *carrier)
{
    disk->next_carrier = carrier;
    mailbox_post(&disk->loop.mailbox, &disk->start);
}

void fanout_park_disk_rest(struct fanout_park_disk *disk)
{
    mailbox_post(&disk->loop.mailbox, &disk->rest);
}

/* What came with the call to stop, or after it. */
static void commit_rest(struct fanout_park_disk *disk)
{
    disk->carrier = NULL;
    loop_turn(&disk->loop, 0);
    while (!list_is_empty(&disk->parcels) || !list_is_empty(&disk->landed))
        on_commit(&disk->commit_task);
}

void fanout_park_disk_stop(struct fanout_park_disk *disk)
{
    if (!disk || disk->is_stopped)
        return;
    mailbox_post(&disk->loop.mailbox, &disk->stop);
    pthread_join(disk->thread, NULL);
    disk->is_stopped = true;
    commit_rest(disk);
}

void fanout_park_disk_close(struct fanout_park_disk *disk)
{
    if (!disk)
        return;
    fanout_park_disk_stop(disk);
    commit_rest(disk);
    while (!list_is_empty(&disk->flying))
        flight_free(CONTAINER_OF(disk->flying.next, struct flight, link));
    loop_fini(&disk->loop);
    disk_free(disk);
}

err fanout_park_disk_list(struct fanout_park_disk *disk, size_t max, struct buf *out)
{
    return fanout_park_list_write(&disk->index, max, out);
}
