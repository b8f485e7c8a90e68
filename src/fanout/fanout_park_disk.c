#include "fanout/fanout_park_disk.h"

#include <pthread.h>

#include "base/check.h"
#include "base/log.h"
#include "fanout/fanout_park_flights.h"
#include "fanout/fanout_park_index.h"
#include "fanout/fanout_park_list.h"
#include "fanout/fanout_park_metrics.h"
#include "fanout/fanout_park_order.h"
#include "loop/loop.h"
#include "loop/thread.h"
#include "obs/metrics.h" /* metrics_attach_thread() */

enum {
    RECORD_KEPT_BYTES = 1 << 20, /* of memory for the next record */
    PARCELS_PER_COMMIT = 1000,   /* the rest waits for the next */
    LOOK_SOON_MS = 5,            /* several landings are followed by one look */
    LOOK_FURTHER_MS = 1000,      /* when the carrier did not try */
    PAUSE_AFTER_FAULT_MS = 5 * 1000,
};

struct fanout_park_disk {
    struct fanout_park port;
    struct fanout_park_index index;
    struct fanout_park_flights flights;
    struct loop loop;
    pthread_t thread;
    struct list parcels, orders;
    struct buf record;                 /* under construction */
    uint64_t counted_n, counted_bytes; /* in the gauges */
    struct task commit_task;
    struct timer look_timer;
    struct mail start, rest, stop;
    struct fanout_park_carrier *next_carrier;
    bool is_stopped; /* the thread is no more */
    bool is_refused; /* the carrier did not try: not now */
    bool is_failing; /* the last commit failed */
};

/* ---- the disk ---- */

static void note_commit(struct fanout_park_disk *disk, err e, const struct errinfo *ei)
{
    bool was_failing = disk->is_failing;

    disk->is_failing = e != E_OK;
    if (e != E_OK && !was_failing)
        LOG_ERROR(LOG_FANOUT, "fanout.park.failed", F_TEXT("error", ei->text));
    if (e == E_OK && was_failing)
        LOG_INFO(LOG_FANOUT, "fanout.park.back");
}

static uint64_t due_after(const struct fanout_park_disk *disk, uint32_t failures, uint64_t number)
{
    return loop_wall_ms() + fanout_park_flights_delay(&disk->flights, failures, number);
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
    return fanout_park_index_add(change, buf_str(&disk->record), fanout_park_record_lane(parcel->channel, parcel->uid),
                                 due_after(disk, 0, change->next_number));
}

static err settle(struct fanout_park_disk *disk, struct fanout_park_change *change, const struct fanout_park_flight *flight)
{
    if (flight->attempt.result == E_OK)
        return fanout_park_index_remove(change, flight->number);
    if (flight->attempt.result == E_AGAIN) {
        disk->is_refused = true;
        return E_OK;
    }
    return fanout_park_index_postpone(change, flight->number, due_after(disk, flight->attempts + 1, flight->number));
}

/* The gauges show what is committed. */
static void count_parked(struct fanout_park_disk *disk)
{
    fanout_park_metrics_add(FANOUT_PARK_EVENTS, disk->index.n - disk->counted_n);
    fanout_park_metrics_add(FANOUT_PARK_BYTES, disk->index.bytes - disk->counted_bytes);
    disk->counted_n = disk->index.n;
    disk->counted_bytes = disk->index.bytes;
}

/* What goes to the disk together. */
struct work {
    struct list parcels, landed;
    struct fanout_park_order *order; /* NULL: none */
    struct fanout_park_chosen chosen;
};

/* The next order, if there is one, with what it is about. */
static void choose(struct fanout_park_disk *disk, struct work *work)
{
    struct list *node = list_pop(&disk->orders);

    if (!node)
        return;
    work->order = CONTAINER_OF(node, struct fanout_park_order, link);
    work->order->result = fanout_park_order_choose(work->order, &disk->flights, &work->chosen);
}

/* Takes what waits out of the lists into `work`, and to the disk. The result of each parcel is set. */
static err commit(struct fanout_park_disk *disk, struct work *work, struct errinfo *ei)
{
    struct fanout_park_change change;
    struct list *node;
    err e = fanout_park_index_begin(&disk->index, &change);

    if (e != E_OK)
        return errinfo_set(ei, e, "the disk does not begin to write");
    for (size_t i = 0; i < PARCELS_PER_COMMIT && (node = list_pop(&disk->parcels)) != NULL; i++) {
        struct fanout_parcel *parcel = CONTAINER_OF(node, struct fanout_parcel, link);

        list_push(&work->parcels, node);
        parcel->result = add(disk, &change, parcel);
    }
    while ((node = list_pop(&disk->flights.landed)) != NULL) {
        list_push(&work->landed, node);
        ERR_IGNORE(settle(disk, &change, CONTAINER_OF(node, struct fanout_park_flight, link))); /* a failure fails the commit */
    }
    if (work->order)
        ERR_IGNORE(fanout_park_order_obey(work->order, &work->chosen, &change)); /* here as well */
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
        fanout_park_metrics_add(parcel->result == E_OK      ? FANOUT_PARK_TAKEN
                                : parcel->result == E_LIMIT ? FANOUT_PARK_REFUSED_FULL
                                                            : FANOUT_PARK_REFUSED_DISK,
                                1);
        mailbox_post(parcel->home, &parcel->mail);
    }
}

/* What could not be noted stays as it is, to be delivered once more. */
static void forget(struct list *landed, err e)
{
    struct list *node;

    while ((node = list_pop(landed)) != NULL) {
        struct fanout_park_flight *flight = CONTAINER_OF(node, struct fanout_park_flight, link);

        fanout_park_metrics_add(FANOUT_PARK_DELIVERED, flight->attempt.result == E_OK && e == E_OK);
        fanout_park_flights_drop(flight);
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
    wheel_start(&disk->loop.wheel, &disk->look_timer,
                e != E_OK          ? PAUSE_AFTER_FAULT_MS
                : disk->is_refused ? LOOK_FURTHER_MS
                                   : LOOK_SOON_MS);
    disk->is_refused = false;
}

static bool has_work(const struct fanout_park_disk *disk)
{
    return !list_is_empty(&disk->parcels) || !list_is_empty(&disk->flights.landed) || !list_is_empty(&disk->orders);
}

/* One that is about more than was chosen goes on with the next commit. */
static void report(struct fanout_park_disk *disk, struct work *work, err e)
{
    struct fanout_park_order *order = work->order;

    if (!order)
        return;
    if (e != E_OK && order->result == E_OK)
        order->result = E_IO;
    if (order->result == E_OK) {
        order->n += work->chosen.n;
        if (order->action == FANOUT_PARK_DISCARD)
            fanout_park_metrics_add(FANOUT_PARK_DISCARDED, work->chosen.n);
    }
    if (order->result == E_OK && work->chosen.has_more)
        list_push(disk->orders.next, &order->link);
    else
        mailbox_post(order->home, &order->mail);
    fanout_park_order_drop(&work->chosen);
}

static void on_commit(struct task *t)
{
    struct fanout_park_disk *disk = CONTAINER_OF(t, struct fanout_park_disk, commit_task);
    struct work work = {0};
    struct errinfo ei = {0};
    err e;

    if (!has_work(disk))
        return;
    list_init(&work.parcels);
    list_init(&work.landed);
    choose(disk, &work);
    e = commit(disk, &work, &ei);
    if (e != E_OK) {
        take_all(&work.parcels, &disk->parcels);
        take_all(&work.landed, &disk->flights.landed);
    }
    note_commit(disk, e, &ei);
    answer(&work.parcels, e);
    forget(&work.landed, e);
    report(disk, &work, e);
    if (disk->record.cap > RECORD_KEPT_BYTES)
        buf_free(&disk->record, MEM_FANOUT);
    if (!list_is_empty(&disk->parcels) || !list_is_empty(&disk->orders))
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

static void on_order(struct mail *m)
{
    struct fanout_park_order *order = CONTAINER_OF(m, struct fanout_park_order, travel);
    struct fanout_park_disk *disk = order->disk;

    list_push(&disk->orders, &order->link);
    loop_defer(&disk->loop, &disk->commit_task);
}

void fanout_park_disk_order(struct fanout_park_disk *disk, struct fanout_park_order *order)
{
    order->disk = disk;
    order->travel.on_mail = on_order;
    order->link = (struct list){0};
    order->wall_ms = loop_wall_ms();
    order->n = order->n_under_way = 0;
    mailbox_post(&disk->loop.mailbox, &order->travel);
}

static void on_landed(struct fanout_park_flights *flights)
{
    struct fanout_park_disk *disk = CONTAINER_OF(flights, struct fanout_park_disk, flights);

    loop_defer(&disk->loop, &disk->commit_task);
}

static void on_look(struct timer *t)
{
    struct fanout_park_disk *disk = CONTAINER_OF(t, struct fanout_park_disk, look_timer);

    wheel_start(&disk->loop.wheel, &disk->look_timer,
                fanout_park_flights_launch(&disk->flights, disk->loop.now_ms, loop_wall_ms()));
}

static void on_start(struct mail *m)
{
    struct fanout_park_disk *disk = CONTAINER_OF(m, struct fanout_park_disk, start);

    disk->flights.carrier = disk->next_carrier;
    look_later(disk, E_OK);
}

static void on_rest(struct mail *m)
{
    CONTAINER_OF(m, struct fanout_park_disk, rest)->flights.carrier = NULL;
}

static void on_stop(struct mail *m)
{
    loop_stop(&CONTAINER_OF(m, struct fanout_park_disk, stop)->loop);
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
    fanout_park_metrics_add(FANOUT_PARK_EVENTS, -disk->counted_n);
    fanout_park_metrics_add(FANOUT_PARK_BYTES, -disk->counted_bytes);
    fanout_park_flights_fini(&disk->flights);
    fanout_park_index_close(&disk->index);
    buf_free(&disk->record, MEM_FANOUT);
    mem_free(MEM_FANOUT, disk);
}

static struct fanout_park_disk *disk_new(const struct fanout_park_settings *settings)
{
    struct fanout_park_disk *disk = mem_alloc_zero(MEM_FANOUT, sizeof *disk);

    disk->port.put = put;
    disk->flights = (struct fanout_park_flights){
        .index = &disk->index,
        .home = &disk->loop.mailbox,
        .on_landed = on_landed,
        .delay_ms = settings->delay_ms,
        .delay_max_ms = settings->delay_max_ms,
    };
    list_init(&disk->flights.flying);
    list_init(&disk->parcels);
    list_init(&disk->orders);
    disk->commit_task.run = on_commit;
    disk->look_timer.on_timer = on_look;
    disk->start.on_mail = on_start;
    disk->rest.on_mail = on_rest;
    disk->stop.on_mail = on_stop;
    return disk;
}

err fanout_park_disk_open(const struct fanout_park_settings *settings, struct fanout_park_disk **out_disk, struct errinfo *ei)
{
    struct fanout_park_disk *disk = disk_new(settings);
    err e = fanout_park_index_open(&disk->index, settings->path, settings->max_bytes, ei);

    if (e == E_OK && (e = fanout_park_flights_init(&disk->flights)) != E_OK)
        (void)errinfo_set(ei, e, "the parked events cannot be read");
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
    disk->flights.carrier = NULL;
    loop_turn(&disk->loop, 0);
    while (has_work(disk))
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
    loop_fini(&disk->loop);
    disk_free(disk);
}

err fanout_park_disk_list(struct fanout_park_disk *disk, size_t max, struct buf *out)
{
    return fanout_park_list_write(&disk->index, max, out);
}
