#include "kafka/kafka_client.h"

#include <librdkafka/rdkafka.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "kafka/kafka_conf.h"
#include "loop/loop.h"

enum { NAME_BYTES = 512, POLL_MS = 100 };

struct kafka_client {
    struct str prefix;
    rd_kafka_t *producer, *consumer;
    rd_kafka_message_t *message; /* the one that was handed out */
    struct record_header *headers;
    size_t headers_capacity;
};

static err from_kafka(rd_kafka_resp_err_t code)
{
    switch (code) {
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
        return E_NOTFOUND;
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
        return E_DENIED;
    case RD_KAFKA_RESP_ERR__TIMED_OUT:
    case RD_KAFKA_RESP_ERR__MSG_TIMED_OUT:
    case RD_KAFKA_RESP_ERR__TRANSPORT:
    case RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN:
        return E_TIMEOUT;
    default:
        return E_IO;
    }
}

static err fail(struct errinfo *ei, const char *what, struct str topic, rd_kafka_resp_err_t code)
{
    return errinfo_set(ei, from_kafka(code), "cannot %s %.*s: %s", what, STR_ARG(topic), rd_kafka_err2str(code));
}

/* The name with the prefix. False: too long. */
static bool full_name(const struct kafka_client *client, struct str topic, char to[NAME_BYTES])
{
    if (client->prefix.n + topic.n >= NAME_BYTES)
        return false;
    memcpy(to, client->prefix.p, client->prefix.n);
    memcpy(to + client->prefix.n, topic.p, topic.n);
    to[client->prefix.n + topic.n] = '\0';
    return true;
}

/* What a person who waits is told, librdkafka need not print as well. */
static void ignore_log(const rd_kafka_t *rk, int level, const char *facility, const char *text)
{
    (void)rk;
    (void)level;
    (void)facility;
    (void)text;
}

static err open_consumer(const struct kafka_settings *settings, rd_kafka_t **out_rk, struct errinfo *ei)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char text[256] = "", bootstrap[NAME_BYTES];

    snprintf(bootstrap, sizeof bootstrap, "%.*s", STR_ARG(settings->bootstrap));
    rd_kafka_conf_set_log_cb(conf, ignore_log);
    for (size_t i = 0; i < settings->n_properties; i++) { /* those of producers are not for it */
        char name[NAME_BYTES], value[NAME_BYTES];

        snprintf(name, sizeof name, "%.*s", STR_ARG(settings->properties[i].name));
        snprintf(value, sizeof value, "%.*s", STR_ARG(settings->properties[i].value));
        (void)rd_kafka_conf_set(conf, name, value, NULL, 0); /* kafka_conf_make() has found them good */
    }
    (void)rd_kafka_conf_set(conf, "bootstrap.servers", bootstrap, NULL, 0);
    (void)rd_kafka_conf_set(conf, "group.id", "millrace-command-line", NULL, 0); /* which commits nothing and joins nobody */
    (void)rd_kafka_conf_set(conf, "enable.auto.commit", "false", NULL, 0);
    (void)rd_kafka_conf_set(conf, "fetch.wait.max.ms", "100", NULL, 0);
    *out_rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, text, sizeof text);
    if (*out_rk) {
        rd_kafka_poll_set_consumer(*out_rk);
        return E_OK;
    }
    rd_kafka_conf_destroy(conf);
    return errinfo_set(ei, E_INVAL, "kafka: %s", text);
}

err kafka_client_open(const struct kafka_settings *settings, struct kafka_client **out_client, struct errinfo *ei)
{
    struct kafka_client *client = mem_alloc_zero(MEM_KAFKA, sizeof *client);
    rd_kafka_conf_t *conf;
    err e = kafka_conf_make(settings, settings->bootstrap, &conf, ei);

    client->prefix =
        (struct str){mem_copy_text(MEM_KAFKA, settings->topic_prefix.p, settings->topic_prefix.n), settings->topic_prefix.n};
    if (e == E_OK) {
        rd_kafka_conf_set_log_cb(conf, ignore_log);
        e = kafka_conf_open(conf, &client->producer, ei);
        rd_kafka_conf_destroy(conf);
    }
    if (e == E_OK)
        e = open_consumer(settings, &client->consumer, ei);
    if (e != E_OK) {
        kafka_client_close(client);
        return e;
    }
    *out_client = client;
    return E_OK;
}

void kafka_client_close(struct kafka_client *client)
{
    if (!client)
        return;
    if (client->message)
        rd_kafka_message_destroy(client->message);
    if (client->consumer)
        rd_kafka_destroy_flags(client->consumer, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    if (client->producer) {
        (void)rd_kafka_purge(client->producer, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
        rd_kafka_destroy(client->producer);
    }
    mem_free(MEM_KAFKA, client->headers);
    mem_free(MEM_KAFKA, (char *)(uintptr_t)client->prefix.p);
    mem_free(MEM_KAFKA, client);
}

/* --- reading --- */

/* All partitions of a topic, each at its end. */
static err add_topic(struct kafka_client *client, rd_kafka_topic_partition_list_t *list, struct str topic, uint64_t until_ms,
                     struct errinfo *ei)
{
    uint64_t now = loop_clock_ms();
    const struct rd_kafka_metadata *metadata;
    rd_kafka_topic_t *rkt;
    rd_kafka_resp_err_t code;
    char name[NAME_BYTES];

    if (!full_name(client, topic, name))
        return errinfo_set(ei, E_INVAL, "the name of the topic is too long");
    rkt = rd_kafka_topic_new(client->consumer, name, NULL);
    code = rkt ? rd_kafka_metadata(client->consumer, 0, rkt, &metadata, until_ms > now ? (int)(until_ms - now) : 1)
               : rd_kafka_last_error();
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
        code = metadata->topics[0].err;
        for (int i = 0; i < metadata->topics[0].partition_cnt && code == RD_KAFKA_RESP_ERR_NO_ERROR; i++) {
            int32_t partition = metadata->topics[0].partitions[i].id;
            int64_t low, high;

            now = loop_clock_ms();
            code = rd_kafka_query_watermark_offsets(client->consumer, name, partition, &low, &high,
                                                    until_ms > now ? (int)(until_ms - now) : 1);
            if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
                rd_kafka_topic_partition_list_add(list, name, partition)->offset = high;
        }
        rd_kafka_metadata_destroy(metadata);
    }
    if (rkt)
        rd_kafka_topic_destroy(rkt);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR ? E_OK : fail(ei, "read", topic, code);
}

err kafka_client_follow(struct kafka_client *client, const struct str *topics, size_t n, uint32_t limit_ms, struct errinfo *ei)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)n);
    uint64_t until_ms = loop_clock_ms() + limit_ms;
    rd_kafka_resp_err_t code;
    err e = E_OK;

    for (size_t i = 0; i < n && e == E_OK; i++)
        e = add_topic(client, list, topics[i], until_ms, ei);
    if (e == E_OK) {
        code = rd_kafka_assign(client->consumer, list);
        if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
            e = fail(ei, "read", topics[0], code);
    }
    rd_kafka_topic_partition_list_destroy(list);
    return e;
}

static void read_headers(struct kafka_client *client, struct kafka_client_record *out)
{
    rd_kafka_headers_t *headers;
    const void *value;
    const char *name;
    size_t size;

    if (rd_kafka_message_headers(client->message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return;
    if (rd_kafka_header_cnt(headers) > client->headers_capacity) {
        mem_free(MEM_KAFKA, client->headers);
        client->headers_capacity = rd_kafka_header_cnt(headers);
        client->headers = mem_alloc(MEM_KAFKA, client->headers_capacity * sizeof *client->headers);
    }
    while (rd_kafka_header_get_all(headers, out->n_headers, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR)
        client->headers[out->n_headers++] = (struct record_header){str_from(name), {value, size}};
    out->headers = client->headers;
}

err kafka_client_next(struct kafka_client *client, uint32_t limit_ms, struct kafka_client_record *out_record,
                      struct errinfo *ei)
{
    rd_kafka_message_t *m;

    if (client->message)
        rd_kafka_message_destroy(client->message);
    client->message = m = rd_kafka_consumer_poll(client->consumer, (int)limit_ms);
    if (!m || m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
        return E_TIMEOUT;
    if (m->err != RD_KAFKA_RESP_ERR_NO_ERROR)
        return errinfo_set(ei, E_IO, "reading failed: %s", rd_kafka_message_errstr(m));
    *out_record = (struct kafka_client_record){
        .topic = str_from_offset(str_from(rd_kafka_topic_name(m->rkt)), client->prefix.n),
        .key = {m->key, m->key_len},
        .value = {m->payload, m->len},
        .partition = m->partition,
        .offset = m->offset,
        .timestamp_ms = rd_kafka_message_timestamp(m, NULL),
    };
    read_headers(client, out_record);
    return E_OK;
}

/* --- writing --- */

struct report {
    bool is_here;
    rd_kafka_resp_err_t code;
};

static void take_report(rd_kafka_event_t *event)
{
    const rd_kafka_message_t *m;

    while (rd_kafka_event_type(event) == RD_KAFKA_EVENT_DR && (m = rd_kafka_event_message_next(event)))
        *(struct report *)m->_private = (struct report){true, m->err};
}

static rd_kafka_resp_err_t wait_for_report(struct kafka_client *client, const struct report *report, uint64_t until_ms)
{
    rd_kafka_queue_t *queue = rd_kafka_queue_get_main(client->producer);

    while (!report->is_here && loop_clock_ms() < until_ms) {
        rd_kafka_event_t *event = rd_kafka_queue_poll(queue, POLL_MS);

        if (event)
            take_report(event);
        rd_kafka_event_destroy(event);
    }
    rd_kafka_queue_destroy(queue);
    return report->is_here ? report->code : RD_KAFKA_RESP_ERR__TIMED_OUT;
}

err kafka_client_send(struct kafka_client *client, struct str topic, const struct record *record, uint32_t limit_ms,
                      struct errinfo *ei)
{
    static struct report report; /* a late report must find it */
    rd_kafka_headers_t *headers = rd_kafka_headers_new(record->n_headers);
    rd_kafka_topic_t *rkt;
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;
    char name[NAME_BYTES];

    report = (struct report){0};
    for (size_t i = 0; i < record->n_headers; i++)
        (void)rd_kafka_header_add(headers, record->headers[i].name.p, (ssize_t)record->headers[i].name.n,
                                  record->headers[i].value.p, (ssize_t)record->headers[i].value.n);
    rkt = full_name(client, topic, name) ? kafka_conf_open_topic(client->producer, name, limit_ms) : NULL;
    if (rkt)
        code = rd_kafka_producev(client->producer, RD_KAFKA_V_RKT(rkt), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                                 RD_KAFKA_V_KEY((void *)(uintptr_t)record->key.p, record->key.n),
                                 RD_KAFKA_V_VALUE((void *)(uintptr_t)record->value.p, record->value.n),
                                 RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_OPAQUE(&report), RD_KAFKA_V_END);
    if (!rkt || code != RD_KAFKA_RESP_ERR_NO_ERROR)
        rd_kafka_headers_destroy(headers);
    else
        code = wait_for_report(client, &report, loop_clock_ms() + limit_ms);
    if (rkt)
        rd_kafka_topic_destroy(rkt);
    else
        code = RD_KAFKA_RESP_ERR__INVALID_ARG;
    return code == RD_KAFKA_RESP_ERR_NO_ERROR ? E_OK : fail(ei, "write to", topic, code);
}
