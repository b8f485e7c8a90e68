#include "kafka/kafka.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "kafka/kafka_conf.h"
#include "kafka/kafka_metrics.h"
#include "kafka/kafka_name.h"
#include "kafka/kafka_private.h"

static const char *const state_names[] = {
    [KAFKA_STARTING] = "starting",
    [KAFKA_UP] = "up",
    [KAFKA_AWAY] = "away",
    [KAFKA_DRAINING] = "draining",
};

static err check_prefix(struct str prefix, struct errinfo *ei)
{
    if (prefix.n == 0 || (kafka_name_is_legal(prefix) || str_equal(prefix, STR(".")) || str_equal(prefix, STR(".."))))
        return E_OK;
    return errinfo_set(ei, E_INVAL, "kafka.topic_prefix '%.*s' cannot begin the name of a topic", STR_ARG(prefix));
}

/* A limit must be longer than linger.ms, which only librdkafka can tell. */
static err check_limits(const struct kafka_settings *settings, rd_kafka_t *rk, struct errinfo *ei)
{
    for (size_t i = 0; i < settings->n_time_limits; i++) {
        rd_kafka_topic_t *rkt = kafka_conf_open_topic(rk, "millrace-check", settings->time_limits[i].limit_ms);

        if (!rkt)
            return errinfo_set(ei, E_INVAL, "a delivery timeout of %u ms is not longer than linger.ms",
                               (unsigned)settings->time_limits[i].limit_ms);
        rd_kafka_topic_destroy(rkt);
    }
    return E_OK;
}

err kafka_check_settings(const struct kafka_settings *settings, struct errinfo *ei)
{
    rd_kafka_conf_t *conf;
    rd_kafka_t *rk;
    err e = check_prefix(settings->topic_prefix, ei);

    if (e == E_OK && !settings->is_embedded && settings->bootstrap.n == 0)
        e = errinfo_set(ei, E_INVAL, "kafka.bootstrap is empty");
    if (e == E_OK)
        e = kafka_conf_make(settings, (struct str){0}, &conf, ei);
    if (e != E_OK)
        return e;
    /* A client without brokers: looks at certificates and at how the properties fit together, connects nowhere. */
    rd_kafka_conf_set_log_cb(conf, NULL);
    e = kafka_conf_open(conf, &rk, ei);
    rd_kafka_conf_destroy(conf);
    if (e != E_OK)
        return e;
    e = check_limits(settings, rk, ei);
    rd_kafka_destroy(rk);
    return e;
}

static err open_parts(struct kafka *k, const struct kafka_settings *settings, struct errinfo *ei)
{
    struct str bootstrap = settings->bootstrap;
    err e = kafka_check_settings(settings, ei);

    if (e == E_OK && settings->is_embedded) {
        e = kafka_mock_start(&k->mock, ei);
        if (e == E_OK)
            bootstrap = kafka_mock_bootstrap(&k->mock);
    }
    if (e == E_OK)
        e = kafka_conf_make(settings, bootstrap, &k->conf, ei);
    if (e != E_OK)
        return e;
    k->bootstrap = (struct str){mem_copy_text(MEM_KAFKA, bootstrap.p, bootstrap.n), bootstrap.n};
    kafka_metrics_open(k);
    e = kafka_thread_start(k, ei);
    return e == E_OK ? kafka_admin_start(&k->admin, ei) : e;
}

err kafka_open(const struct kafka_settings *settings, struct kafka **out_kafka, struct errinfo *ei)
{
    struct kafka *k = aligned_alloc(_Alignof(struct kafka), sizeof *k);
    err e;

    ASSERT(k);
    memset(k, 0, sizeof *k);
    k->loop.epoll_fd = k->loop.mailbox.wake_fd = k->reports.fd = -1;
    kafka_sink_init(&k->sink, settings);
    kafka_admin_init(&k->admin, k);
    e = open_parts(k, settings, ei);
    if (e != E_OK) {
        kafka_free(k);
        return e;
    }
    *out_kafka = k;
    return E_OK;
}

struct sink *kafka_sink(struct kafka *k)
{
    return &k->sink.sink;
}

bool kafka_is_up(const struct kafka *k)
{
    return atomic_load(&k->has_metadata) && !atomic_load(&k->is_away) && !atomic_load(&k->is_silent);
}

enum kafka_state kafka_state(const struct kafka *k)
{
    if (atomic_load(&k->sink.is_closed))
        return KAFKA_DRAINING;
    if (!atomic_load(&k->has_metadata))
        return KAFKA_STARTING;
    return kafka_is_up(k) ? KAFKA_UP : KAFKA_AWAY;
}

const char *kafka_state_name(enum kafka_state state)
{
    return state_names[state];
}

bool kafka_is_ready(const struct kafka *k)
{
    enum kafka_state state = kafka_state(k);

    return state == KAFKA_UP || state == KAFKA_AWAY;
}

struct str kafka_bootstrap(const struct kafka *k)
{
    return k->bootstrap;
}

uint64_t kafka_inflight_records(const struct kafka *k)
{
    return atomic_load_explicit(&k->sink.budget.records, memory_order_relaxed);
}

uint64_t kafka_inflight_bytes(const struct kafka *k)
{
    return atomic_load_explicit(&k->sink.budget.bytes, memory_order_relaxed);
}

void kafka_ensure_topics(struct kafka *k, struct kafka_topics *topics)
{
    topics->is_removal = false;
    kafka_admin_ensure(&k->admin, topics);
}

void kafka_remove_topics(struct kafka *k, struct kafka_topics *topics)
{
    topics->is_removal = true;
    kafka_admin_ensure(&k->admin, topics);
}

void kafka_drain(struct kafka *k, struct kafka_drain *drain, uint32_t limit_ms)
{
    kafka_sink_close(&k->sink);
    drain->given_up = 0;
    k->asked_drain = drain;
    k->drain_limit_ms = limit_ms;
    mailbox_post(&k->loop.mailbox, &k->drain_mail);
}

void kafka_stop(struct kafka *k)
{
    if (k->is_stopped)
        return;
    k->is_stopped = true;
    kafka_sink_close(&k->sink);
    kafka_thread_stop(k);
    kafka_admin_stop(&k->admin);
    for (struct kafka_producer *p = k->producers; p; p = p->next)
        kafka_producer_close(p);
    for (struct kafka_producer *p = k->buried; p; p = p->next)
        kafka_producer_close(p);
    kafka_mock_stop(&k->mock);
}

static void free_producers(struct kafka_producer *list)
{
    while (list) {
        struct kafka_producer *p = list;

        list = p->next;
        kafka_producer_free(p);
    }
}

void kafka_free(struct kafka *k)
{
    if (!k)
        return;
    kafka_stop(k);
    kafka_metrics_close(k);
    free_producers(k->producers);
    free_producers(k->buried);
    kafka_admin_fini(&k->admin);
    kafka_sink_fini(&k->sink);
    if (k->reports.fd >= 0)
        close(k->reports.fd);
    loop_fini(&k->loop);
    if (k->conf)
        rd_kafka_conf_destroy(k->conf);
    mem_free(MEM_KAFKA, (char *)(uintptr_t)k->bootstrap.p);
    free(k);
}
