#include "kafka/kafka_consumer_conf.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/check.h"
#include "base/log.h"
#include "kafka/kafka_conf.h"
#include "kafka/kafka_consumer_private.h"
#include "kafka/kafka_log.h"
#include "loop/thread.h"

enum { DESTROY_S = 5 };

struct preset {
    const char *name;
    const char *value;
};

/* What may be overridden by kafka.properties. */
static const struct preset presets[] = {
    {"client.id", "millrace"},
    {"socket.timeout.ms", "10000"},
    {"reconnect.backoff.max.ms", "1000"},
    {"socket.nagle.disable", "true"},
    /* What waits in librdkafka, beyond what is unsettled, of all partitions together. Where there is more, librdkafka 2.0.2
     * asks again only up to a second later: this bounds the rate, not only the memory. */
    {"queued.min.messages", "50000"},
    {"queued.max.messages.kbytes", "16384"},
    {"fetch.error.backoff.ms", "100"},
    /* A partition that goes on after a pause waits for the fetch under way. */
    {"fetch.wait.max.ms", "100"},
    /* A commit that finds no coordinator is given back after this time as well. A member learns of changes in its group with a
     * heartbeat. */
    {"session.timeout.ms", "6000"},
    {"heartbeat.interval.ms", "500"},
};

/* What the promises of core/source.h rest on. */
static const struct preset fixed[] = {
    {"enable.auto.commit", "false"},   {"enable.auto.offset.store", "false"}, {"auto.offset.reset", "error"},
    {"enable.partition.eof", "false"}, {"isolation.level", "read_committed"}, {"allow.auto.create.topics", "false"},
};

/* Properties of the producer, with which a consumer has nothing to do: a warning each, otherwise. */
static const char *const producers_own[] = {
    "acks",
    "batch.",
    "compression.",
    "delivery.",
    "enable.idempotence",
    "linger.ms",
    "message.send.",
    "partitioner",
    "queue.buffering.",
    "queuing.strategy",
    "request.",
    "retries",
    "retry.backoff.ms",
    "sticky.",
    "message.timeout.ms",
    "transaction",
    "enable.gapless.guarantee",
    "message.copy.max.bytes",
    "topic.metadata.propagation.max.ms",
};

static bool is_producers_own(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(producers_own); i++)
        if (str_starts_with(name, str_from(producers_own[i])))
            return true;
    return false;
}

static bool is_fixed(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
        if (str_equal(name, str_from(fixed[i].name)))
            return true;
    return str_equal(name, STR("group.id"));
}

static void set(rd_kafka_conf_t *conf, struct str name, struct str value)
{
    char text[8]; /* why not; kafka_check_settings() has told it */
    char *n = mem_copy_text(MEM_KAFKA, name.p, name.n), *v = mem_copy_text(MEM_KAFKA, value.p, value.n);

    (void)rd_kafka_conf_set(conf, n, v, text, sizeof text);
    explicit_bzero(v, value.n);
    mem_free(MEM_KAFKA, v);
    mem_free(MEM_KAFKA, n);
}

static void set_all(rd_kafka_conf_t *conf, const struct preset *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        set(conf, str_from(list[i].name), str_from(list[i].value));
}

/* Fetching and renewing OAuth tokens is left to librdkafka's background thread. */
static void serve_oauth(rd_kafka_t *rk)
{
    char mechanism[32];
    size_t size = sizeof mechanism;
    rd_kafka_error_t *error = NULL;

    if (rd_kafka_conf_get(rd_kafka_conf(rk), "sasl.mechanisms", mechanism, &size) == RD_KAFKA_CONF_OK &&
        strcmp(mechanism, "OAUTHBEARER") == 0)
        error = rd_kafka_sasl_background_callbacks_enable(rk);
    if (error)
        rd_kafka_error_destroy(error);
}

rd_kafka_conf_t *kafka_consumer_conf_make(const struct kafka_settings *settings, struct str bootstrap, struct str group,
                                          void *opaque)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();

    set_all(conf, presets, ARRAY_LEN(presets));
    /* The embedded Kafka does not wake a fetch that waits. */
    if (settings->is_embedded)
        set(conf, STR("fetch.wait.max.ms"), STR("10"));
    for (size_t i = 0; i < settings->n_properties; i++)
        if (!is_producers_own(settings->properties[i].name) && !is_fixed(settings->properties[i].name))
            set(conf, settings->properties[i].name, settings->properties[i].value);
    set_all(conf, fixed, ARRAY_LEN(fixed));
    /* It cannot be told not to make topics, which librdkafka warns of; we ask for none that are missing. */
    if (settings->is_embedded)
        set(conf, STR("allow.auto.create.topics"), STR("true"));
    set(conf, STR("bootstrap.servers"), bootstrap);
    set(conf, STR("group.id"), group);
    rd_kafka_conf_set_log_cb(conf, kafka_log_line);
    rd_kafka_conf_set_error_cb(conf, kafka_consumer_on_error);
    rd_kafka_conf_set_opaque(conf, opaque);
    rd_kafka_conf_enable_sasl_queue(conf, 1);
    return conf;
}

err kafka_consumer_conf_open_made(rd_kafka_conf_t *conf, rd_kafka_t **out_rk, struct errinfo *ei)
{
    char text[200];
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, text, sizeof text);

    if (!rk) {
        rd_kafka_conf_destroy(conf);
        return errinfo_set(ei, E_INVAL, "kafka, consumer: %s", text);
    }
    rd_kafka_poll_set_consumer(rk);
    serve_oauth(rk);
    *out_rk = rk;
    return E_OK;
}

err kafka_consumer_conf_open(const struct kafka_settings *settings, struct str bootstrap, struct str group, void *opaque,
                             rd_kafka_t **out_rk, struct errinfo *ei)
{
    return kafka_consumer_conf_open_made(kafka_consumer_conf_make(settings, bootstrap, group, opaque), out_rk, ei);
}

static void *destroy(void *context)
{
    rd_kafka_t *rk = context;

    rd_kafka_set_log_level(rk, 0); /* that Kafka goes before the handle does is nobody's concern */
    rd_kafka_destroy_flags(rk, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    return NULL;
}

/* librdkafka 2.0.2 may wait for ever for a partition of a topic that was deleted while it was read: the process that ends
 * must not. */
void kafka_consumer_conf_close(rd_kafka_t *rk)
{
    struct timespec until;
    pthread_t thread;

    if (!rk)
        return;
    if (thread_start(&thread, "kafka-end", destroy, rk, NULL) != E_OK) {
        destroy(rk);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += DESTROY_S;
    if (pthread_timedjoin_np(thread, NULL, &until) == 0)
        return;
    LOG_WARN(LOG_KAFKA, "consumer.handle_left");
    pthread_detach(thread);
}
