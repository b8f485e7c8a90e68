/* kprod: raw librdkafka with the records, the windows and the settings of sink_bench: the floor under anything that ends in
 * Kafka. One thread produces and polls the reports. */
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "kafka/kafka_conf.h"
#include "kload.h"

struct device {
    unsigned id;
    unsigned free_slots;
    struct device *next; /* among those that may send */
    bool is_ready;
};

static struct kload load;
static struct device *ready, **ready_end = &ready;
static uint64_t sent, stored, failed;

static void make_ready(struct device *d)
{
    if (d->is_ready)
        return;
    d->is_ready = true;
    d->next = NULL;
    *ready_end = d;
    ready_end = &d->next;
}

static void on_report(rd_kafka_t *rk, const rd_kafka_message_t *m, void *opaque)
{
    struct device *d = m->_private;

    (void)rk;
    (void)opaque;
    if (m->err)
        failed++;
    else
        stored++;
    d->free_slots++;
    make_ready(d);
}

static void send_one(rd_kafka_t *rk, rd_kafka_topic_t *rkt, struct device *d)
{
    struct kload_record r;
    rd_kafka_headers_t *headers = rd_kafka_headers_new(KLOAD_HEADERS);
    rd_kafka_resp_err_t code;

    kload_fill(&load, d->id, &r);
    for (size_t i = 0; i < KLOAD_HEADERS; i++)
        rd_kafka_header_add(headers, r.headers[i].name.p, (ssize_t)r.headers[i].name.n, r.headers[i].value.p,
                            (ssize_t)r.headers[i].value.n);
    code = rd_kafka_producev(rk, RD_KAFKA_V_RKT(rkt), RD_KAFKA_V_KEY((void *)(uintptr_t)r.record.key.p, r.record.key.n),
                             RD_KAFKA_V_VALUE(load.value, load.size), RD_KAFKA_V_HEADERS(headers),
                             RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_OPAQUE(d), RD_KAFKA_V_END);
    if (code) {
        fprintf(stderr, "kprod: %s\n", rd_kafka_err2str(code));
        exit(1);
    }
    d->free_slots--;
    sent++;
}

static void send_ready(rd_kafka_t *rk, rd_kafka_topic_t *rkt)
{
    while (ready && sent < load.count) {
        struct device *d = ready;

        ready = d->next;
        if (!ready)
            ready_end = &ready;
        d->is_ready = false;
        while (d->free_slots && sent < load.count)
            send_one(rk, rkt, d);
    }
}

int main(int argc, char **argv)
{
    struct kafka_settings settings = {0};
    struct errinfo ei = {0};
    rd_kafka_conf_t *conf;
    rd_kafka_t *rk;
    rd_kafka_topic_t *rkt;
    const struct rd_kafka_metadata *metadata;
    struct device *devices;

    kload_parse(&load, argc, argv);
    settings.properties = load.properties;
    settings.n_properties = load.n_properties;
    if (kafka_conf_make(&settings, str_from(load.bootstrap), &conf, &ei) != E_OK)
        goto fail;
    rd_kafka_conf_set_events(conf, 0);
    rd_kafka_conf_set_dr_msg_cb(conf, on_report);
    if (kafka_conf_open(conf, &rk, &ei) != E_OK)
        goto fail;
    rkt = kafka_conf_open_topic(rk, load.topic, 0);
    if (rd_kafka_metadata(rk, 0, rkt, &metadata, 10000) == RD_KAFKA_RESP_ERR_NO_ERROR)
        rd_kafka_metadata_destroy(metadata);
    devices = calloc(load.devices, sizeof *devices);
    for (unsigned i = 0; i < load.devices; i++) {
        devices[i] = (struct device){.id = i, .free_slots = load.window};
        make_ready(&devices[i]);
    }
    kload_begin(&load);
    while (stored + failed < load.count) {
        send_ready(rk, rkt);
        rd_kafka_poll(rk, 100);
    }
    kload_report(&load, "kprod", stored, failed);
    rd_kafka_topic_destroy(rkt);
    rd_kafka_destroy(rk);
    rd_kafka_conf_destroy(conf);
    free(devices);
    free(load.value);
    return 0;
fail:
    fprintf(stderr, "kprod: %s\n", ei.text);
    return 1;
}
