/* The kafka thread: a loop of its own that takes librdkafka's events (delivery reports, errors) as they come, watches whether
 * Kafka answers, replaces a producer that failed for good, and brings a drain and the stop to their end. It never waits for
 * the cluster: what must, is in kafka_admin.c. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "kafka/kafka_metrics.h"
#include "kafka/kafka_private.h"
#include "kafka/kafka_report.h"
#include "loop/thread.h"

enum {
    EVENTS_PER_TURN = 64, /* then mail and timers have their turn */
    WATCH_MS = 1000,
    SILENCE_S = 10, /* with records waiting and none stored for so long, Kafka counts as away: socket.timeout.ms */
    TIDY_MS = 10,   /* while somebody waits for counts that other threads lower */
    REPLACE_FIRST_MS = 250,
    REPLACE_LAST_MS = 10000,
};

void kafka_note_up(struct kafka *k)
{
    if (!atomic_load(&k->has_metadata) && !atomic_exchange(&k->has_metadata, true))
        LOG_INFO(LOG_KAFKA, "kafka.connected", F_STR("bootstrap", k->bootstrap));
    if (atomic_load(&k->is_away) && atomic_exchange(&k->is_away, false))
        LOG_INFO(LOG_KAFKA, "kafka.back", F_INT("waiting", kafka_inflight_records(k)));
}

static void note_away(struct kafka *k)
{
    if (atomic_exchange(&k->is_away, true))
        return;
    LOG_WARN(LOG_KAFKA, "kafka.away", F_STR("bootstrap", k->bootstrap), F_INT("waiting", kafka_inflight_records(k)));
    kafka_admin_probe(&k->admin);
}

static uint64_t total_records(const struct kafka *k)
{
    uint64_t n = 0;

    for (struct kafka_producer *p = k->producers; p; p = p->next)
        n += atomic_load(&p->records);
    return n;
}

/* The next producer takes all new records. Out of threads or memory there is none yet: what is submitted fails as unavailable,
 * as the failed one makes it, until a later attempt succeeds. */
static void replace(struct kafka *k)
{
    struct kafka_producer *failed = k->producers, *fresh;
    struct errinfo ei = {0};

    if (kafka_producer_new(k->conf, k->reports.fd, &fresh, &ei) != E_OK) {
        LOG_ERROR(LOG_KAFKA, "kafka.producer_not_replaced", F_TEXT("error", ei.text));
        wheel_start(&k->loop.wheel, &k->replace_timer, REPLACE_LAST_MS);
        return;
    }
    kafka_metrics_add(KAFKA_COUNTER_REPLACEMENTS, 1);
    failed->is_retired = true;
    fresh->next = failed;
    k->producers = fresh;
    kafka_sink_use(&k->sink, fresh);
    loop_defer(&k->loop, &k->serve_task);
    wheel_start(&k->loop.wheel, &k->tidy_timer, TIDY_MS);
}

static void on_replace(struct timer *t)
{
    struct kafka *k = CONTAINER_OF(t, struct kafka, replace_timer);

    if (!atomic_load(&k->sink.is_closed))
        replace(k);
}

/* A producer that had worked is replaced at once. One that never stored anything may owe it to the cluster (a principal that
 * may not write fails for good, too): then the pauses grow. */
static void on_fatal(struct kafka *k, struct kafka_producer *p)
{
    char why[200] = "";

    if (p->is_purged)
        return;
    p->fatal_code = rd_kafka_fatal_error(p->rk, why, sizeof why);
    LOG_ERROR(LOG_KAFKA, "kafka.producer_failed", F_TEXT("error", why), F_INT("waiting", atomic_load(&p->records)));
    kafka_producer_purge(p); /* what waits fails now, not after its time limit or never */
    if (p->has_stored)
        k->replace_pause_ms = 0;
    if (k->replace_pause_ms == 0) {
        replace(k);
        k->replace_pause_ms = REPLACE_FIRST_MS;
        return;
    }
    wheel_start(&k->loop.wheel, &k->replace_timer, k->replace_pause_ms);
    k->replace_pause_ms *= 2;
    if (k->replace_pause_ms > REPLACE_LAST_MS)
        k->replace_pause_ms = REPLACE_LAST_MS;
}

static void on_error(struct kafka *k, struct kafka_producer *p, rd_kafka_event_t *event)
{
    rd_kafka_resp_err_t code = rd_kafka_event_error(event);
    const char *text = rd_kafka_event_error_string(event);

    kafka_metrics_add(KAFKA_COUNTER_CLIENT_ERRORS, 1);
    if (code == RD_KAFKA_RESP_ERR__FATAL || rd_kafka_event_error_is_fatal(event))
        on_fatal(k, p);
    else if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN)
        note_away(k);
    else if (code == RD_KAFKA_RESP_ERR__AUTHENTICATION)
        LOG_ERROR(LOG_KAFKA, "kafka.authentication", F_TEXT("error", text));
    else
        LOG_DEBUG(LOG_KAFKA, "kafka.error", F_TEXT("error", rd_kafka_err2name(code)), F_TEXT("text", text));
}

static void on_event(struct kafka *k, struct kafka_producer *p, rd_kafka_event_t *event)
{
    switch (rd_kafka_event_type(event)) {
    case RD_KAFKA_EVENT_DR: {
        size_t stored = kafka_report_answer(&k->sink, p, event);

        k->stored += stored;
        if (stored) {
            p->has_stored = true;
            kafka_note_up(k);
        }
        break;
    }
    case RD_KAFKA_EVENT_ERROR:
        on_error(k, p, event);
        break;
    default:
        break; /* not asked for */
    }
}

/* librdkafka wakes us only when its queue was empty: a queue is left either empty or with a task to come back to it, and a new
 * one is looked at once, since something may have come before the wake-up was switched on. */
static bool serve_producer(struct kafka *k, struct kafka_producer *p)
{
    for (int i = 0; i < EVENTS_PER_TURN; i++) {
        rd_kafka_event_t *event = rd_kafka_queue_poll(p->queue, 0);

        if (!event)
            return false;
        on_event(k, p, event);
        rd_kafka_event_destroy(event);
    }
    return true;
}

/* Only what is not the current one and has nobody left who counts on it. */
static void bury_retired(struct kafka *k)
{
    struct kafka_producer **link = &k->producers;

    while (*link) {
        struct kafka_producer *p = *link;

        if (!p->is_retired || !kafka_producer_is_idle(p)) {
            link = &p->next;
            continue;
        }
        *link = p->next;
        p->next = k->buried;
        k->buried = p;
        kafka_admin_bury(&k->admin, p);
    }
}

static void check_end(struct kafka *k)
{
    if (!k->drain && !k->is_stop_asked)
        return;
    if (total_records(k) > 0)
        return;
    wheel_stop(&k->drain_timer);
    if (k->drain) {
        struct kafka_drain *drain = k->drain;

        k->drain = NULL;
        LOG_INFO(LOG_KAFKA, "kafka.drained", F_INT("given_up", drain->given_up));
        mailbox_post(drain->home, &drain->mail);
    }
    if (k->is_stop_asked)
        loop_stop(&k->loop);
}

static void serve(struct kafka *k)
{
    for (struct kafka_producer *p = k->producers; p; p = p->next)
        if (serve_producer(k, p))
            loop_defer(&k->loop, &k->serve_task);
    check_end(k);
}

static void on_reports(struct io *io, uint32_t events)
{
    uint64_t count;

    (void)events;
    while (read(io->fd, &count, sizeof count) < 0 && errno == EINTR)
        ;
    serve(CONTAINER_OF(io, struct kafka, reports));
}

static void on_serve_task(struct task *t)
{
    serve(CONTAINER_OF(t, struct kafka, serve_task));
}

static bool has_retired(const struct kafka *k)
{
    return k->producers->next != NULL;
}

static void on_tidy(struct timer *t)
{
    struct kafka *k = CONTAINER_OF(t, struct kafka, tidy_timer);

    bury_retired(k);
    check_end(k);
    if (has_retired(k) || k->drain || k->is_stop_asked)
        wheel_start(&k->loop.wheel, &k->tidy_timer, TIDY_MS);
}

/* A broker that hangs keeps its connections, and one without its replicas answers all but this: only the missing reports tell.
 * Ended by a stored record, or when nothing waits. */
static void watch_silence(struct kafka *k)
{
    bool is_silent = k->stored == k->stored_before && total_records(k) > 0;

    k->stored_before = k->stored;
    k->silent_seconds = is_silent ? k->silent_seconds + 1 : 0;
    if (k->silent_seconds == SILENCE_S && !atomic_exchange(&k->is_silent, true))
        LOG_WARN(LOG_KAFKA, "kafka.silent", F_INT("seconds", SILENCE_S), F_INT("waiting", total_records(k)));
    else if (!is_silent && atomic_load(&k->is_silent) && atomic_exchange(&k->is_silent, false))
        LOG_INFO(LOG_KAFKA, "kafka.stores_again", F_INT("waiting", total_records(k)));
}

static void on_watch(struct timer *t)
{
    struct kafka *k = CONTAINER_OF(t, struct kafka, watch_timer);

    watch_silence(k);
    wheel_start(&k->loop.wheel, &k->watch_timer, WATCH_MS);
}

static void give_up(struct kafka *k)
{
    uint64_t n = total_records(k);

    if (k->drain)
        k->drain->given_up = n;
    if (n)
        LOG_WARN(LOG_KAFKA, "kafka.given_up", F_INT("records", n));
    for (struct kafka_producer *p = k->producers; p; p = p->next)
        kafka_producer_purge(p);
}

static void on_drain_limit(struct timer *t)
{
    give_up(CONTAINER_OF(t, struct kafka, drain_timer));
}

static void on_drain_mail(struct mail *m)
{
    struct kafka *k = CONTAINER_OF(m, struct kafka, drain_mail);

    k->drain = k->asked_drain;
    wheel_start(&k->loop.wheel, &k->drain_timer, k->drain_limit_ms);
    wheel_start(&k->loop.wheel, &k->tidy_timer, TIDY_MS);
    check_end(k);
}

static void on_stop_mail(struct mail *m)
{
    struct kafka *k = CONTAINER_OF(m, struct kafka, stop_mail);

    k->is_stop_asked = true;
    if (total_records(k) > 0)
        give_up(k);
    wheel_start(&k->loop.wheel, &k->tidy_timer, TIDY_MS);
    check_end(k);
}

static void *run(void *context)
{
    struct kafka *k = context;

    metrics_attach_thread();
    loop_run(&k->loop);
    return NULL;
}

static err open_loop(struct kafka *k, struct errinfo *ei)
{
    err e = loop_init(&k->loop, 0, ei);

    if (e != E_OK)
        return e;
    k->reports = (struct io){.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), .on_io = on_reports};
    if (k->reports.fd < 0 || loop_watch(&k->loop, &k->reports, EPOLLIN) != E_OK)
        return errinfo_set(ei, E_IO, "kafka: no event descriptor: %s", strerror(errno));
    k->serve_task.run = on_serve_task;
    k->watch_timer.on_timer = on_watch;
    k->tidy_timer.on_timer = on_tidy;
    k->drain_timer.on_timer = on_drain_limit;
    k->replace_timer.on_timer = on_replace;
    k->drain_mail.on_mail = on_drain_mail;
    k->stop_mail.on_mail = on_stop_mail;
    wheel_start(&k->loop.wheel, &k->watch_timer, WATCH_MS);
    loop_defer(&k->loop, &k->serve_task);
    return E_OK;
}

err kafka_thread_start(struct kafka *k, struct errinfo *ei)
{
    err e = open_loop(k, ei);

    if (e == E_OK)
        e = kafka_producer_new(k->conf, k->reports.fd, &k->producers, ei);
    if (e != E_OK)
        return e;
    kafka_sink_use(&k->sink, k->producers);
    e = thread_start(&k->thread, "kafka", run, k, ei);
    k->is_running = e == E_OK;
    return e;
}

void kafka_thread_stop(struct kafka *k)
{
    if (!k->is_running)
        return;
    mailbox_post(&k->loop.mailbox, &k->stop_mail);
    pthread_join(k->thread, NULL);
    k->is_running = false;
}
