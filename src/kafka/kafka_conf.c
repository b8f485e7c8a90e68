#include "kafka/kafka_conf.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "kafka/kafka_log.h"

struct preset {
    const char *name;
    const char *value;
};

/* What experience chose; docs/adr has the measurements. `kafka.properties` may override what `guards` does not mention. */
static const struct preset presets[] = {
    {"client.id", "millrace"},
    /* No loss, no duplicate and no reordering by librdkafka's own attempts. */
    {"enable.idempotence", "true"},
    {"acks", "all"},
    /* Java's default partitioner, so that other producers of the same keys meet ours. */
    {"partitioner", "murmur2_random"},
    /* Records wait for Kafka; topics may have a limit of their own. */
    {"message.timeout.ms", "0"},
    /* A broker that hangs is noticed after 10 s, not 60. */
    {"socket.timeout.ms", "10000"},
    /* An unknown topic is reported after 2 s, not 30. */
    {"topic.metadata.propagation.max.ms", "2000"},
    {"allow.auto.create.topics", "false"},
    /* A topic that was made, or permitted, after it had been refused works again after a minute, not five. */
    {"topic.metadata.refresh.interval.ms", "60000"},
    /* The sink's budget is the only bound: librdkafka tells nobody when room returns. */
    {"queue.buffering.max.messages", "0"},
    {"queue.buffering.max.kbytes", "2147483647"},
    /* A restarted broker is found after a second at the latest; the default grows to 10. */
    {"reconnect.backoff.max.ms", "1000"},
    /* A partition whose batch is under way makes librdkafka's thread poll without a pause while more records of it are due. With
     * fewer requests under way than busy partitions it waits instead; a broker works on one request of a connection at a time
     * anyway (docs/adr/0011). */
    {"max.in.flight.requests.per.connection", "2"},
    /* An acknowledgement must not wait for a full segment (Nagle), and some time to collect a batch costs less than small
     * batches do. */
    {"socket.nagle.disable", "true"},
    {"linger.ms", "1"},
};

struct guard {
    const char *name;
    const char *accepted; /* the values that may be given, separated by spaces */
    const char *advice;
};

static const struct guard guards[] = {
    {"bootstrap.servers", "", "use kafka.bootstrap"},
    {"metadata.broker.list", "", "use kafka.bootstrap"},
    {"enable.idempotence", "true", "without it records can be stored twice or out of order"},
    {"acks", "all -1", "an acknowledgement means that Kafka has the record safely"},
    {"request.required.acks", "all -1", "an acknowledgement means that Kafka has the record safely"},
    {"partitioner", "murmur2_random", "records of a device must stay in one partition, the one other clients choose as well"},
    {"queue.buffering.max.messages", "0", "use kafka.max_inflight_bytes"},
    {"queue.buffering.max.kbytes", "", "use kafka.max_inflight_bytes"},
    {"message.timeout.ms", "0", "use hono.delivery_timeout"},
    {"delivery.timeout.ms", "0", "use hono.delivery_timeout"},
    {"queuing.strategy", "fifo", "the order of records is promised"},
    {"delivery.report.only.error", "false", "every record needs its report"},
    {"transactional.id", "", "it is chosen by the program where transactions are used"},
    {"group.id", "", "use kafka.group and instance"},
    {"enable.auto.commit", "false", "the program commits what devices have acknowledged"},
    {"enable.auto.offset.store", "false", "the program commits what devices have acknowledged"},
    {"auto.offset.reset", "", "use the option `from` of the rules of to_mqtt"},
    {"isolation.level", "read_committed", "records of transactions that were aborted are for nobody"},
    {"log.queue", "false", "the program takes the log lines itself"},
    {"statistics.interval.ms", "0", "the program's metrics take the place of librdkafka's statistics"},
    {"internal.termination.signal", "0", "signals belong to the program"},
    {"test.mock.num.brokers", "0", "use kafka.embedded"},
};

enum { ERROR_TEXT_BYTES = 256 };

static bool is_accepted(const struct guard *guard, struct str value)
{
    struct str rest = str_from(guard->accepted);
    bool more = rest.n > 0;

    while (more)
        if (str_equal(str_take(&rest, ' ', &more), value))
            return true;
    return false;
}

static err check_guards(const struct kafka_property *p, struct errinfo *ei)
{
    for (size_t i = 0; i < ARRAY_LEN(guards); i++)
        if (str_equal(p->name, str_from(guards[i].name)) && !is_accepted(&guards[i], p->value))
            return errinfo_set(ei, E_INVAL, "kafka.properties: %s cannot be set to '%.*s': %s", guards[i].name,
                               STR_ARG(p->value), guards[i].advice);
    return E_OK;
}

/* The value may be a secret and is not repeated; librdkafka's own text names the property and what it expects. */
static err set_property(rd_kafka_conf_t *conf, const struct kafka_property *p, struct errinfo *ei)
{
    char text[ERROR_TEXT_BYTES];
    char *name, *value;
    rd_kafka_conf_res_t result;
    err e = check_guards(p, ei);

    if (e != E_OK)
        return e;
    name = mem_copy_text(MEM_KAFKA, p->name.p, p->name.n);
    value = mem_copy_text(MEM_KAFKA, p->value.p, p->value.n);
    result = rd_kafka_conf_set(conf, name, value, text, sizeof text);
    if (result == RD_KAFKA_CONF_UNKNOWN)
        e = errinfo_set(ei, E_INVAL, "kafka.properties: librdkafka has no property '%s' that can be set", name);
    else if (result != RD_KAFKA_CONF_OK)
        e = errinfo_set(ei, E_INVAL, "kafka.properties: %s: %s", name, strstr(text, value) && *value ? "bad value" : text);
    explicit_bzero(value, p->value.n);
    mem_free(MEM_KAFKA, value);
    mem_free(MEM_KAFKA, name);
    return e;
}

static void preset(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char text[ERROR_TEXT_BYTES];

    ASSERT(rd_kafka_conf_set(conf, name, value, text, sizeof text) == RD_KAFKA_CONF_OK);
}

err kafka_conf_make(const struct kafka_settings *settings, struct str bootstrap, rd_kafka_conf_t **out_conf, struct errinfo *ei)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    err e = E_OK;

    for (size_t i = 0; i < ARRAY_LEN(presets); i++)
        preset(conf, presets[i].name, presets[i].value);
    if (bootstrap.n) {
        char *text = mem_copy_text(MEM_KAFKA, bootstrap.p, bootstrap.n);

        preset(conf, "bootstrap.servers", text);
        mem_free(MEM_KAFKA, text);
    }
    for (size_t i = 0; i < settings->n_properties && e == E_OK; i++)
        e = set_property(conf, &settings->properties[i], ei);
    if (e != E_OK) {
        rd_kafka_conf_destroy(conf);
        return e;
    }
    rd_kafka_conf_set_log_cb(conf, kafka_log_line);
    rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR);
    rd_kafka_conf_enable_sasl_queue(conf, 1);
    *out_conf = conf;
    return E_OK;
}

/* Fetching and renewing OAuth tokens is left to librdkafka's background thread. */
static void serve_oauth(rd_kafka_t *rk, const rd_kafka_conf_t *conf)
{
    char mechanism[32];
    size_t size = sizeof mechanism;

    if (rd_kafka_conf_get(conf, "sasl.mechanisms", mechanism, &size) == RD_KAFKA_CONF_OK &&
        strcmp(mechanism, "OAUTHBEARER") == 0) {
        rd_kafka_error_t *error = rd_kafka_sasl_background_callbacks_enable(rk);

        if (error)
            rd_kafka_error_destroy(error);
    }
}

err kafka_conf_open(const rd_kafka_conf_t *conf, rd_kafka_t **out_rk, struct errinfo *ei)
{
    char text[ERROR_TEXT_BYTES];
    rd_kafka_conf_t *copy = rd_kafka_conf_dup(conf);
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, copy, text, sizeof text);

    if (!rk) {
        rd_kafka_conf_destroy(copy); /* only a successful call takes it */
        return errinfo_set(ei, E_INVAL, "kafka: %.200s", text);
    }
    serve_oauth(rk, conf);
    *out_rk = rk;
    return E_OK;
}

rd_kafka_topic_t *kafka_conf_open_topic(rd_kafka_t *rk, const char *name, uint32_t limit_ms)
{
    rd_kafka_topic_conf_t *conf = rd_kafka_default_topic_conf_dup(rk);
    char text[ERROR_TEXT_BYTES], number[16];

    if (limit_ms) {
        snprintf(number, sizeof number, "%u", (unsigned)limit_ms);
        if (rd_kafka_topic_conf_set(conf, "message.timeout.ms", number, text, sizeof text) != RD_KAFKA_CONF_OK) {
            rd_kafka_topic_conf_destroy(conf);
            return NULL;
        }
    }
    return rd_kafka_topic_new(rk, name, conf); /* takes conf, also when it fails */
}
