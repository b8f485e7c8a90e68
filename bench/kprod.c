/* kprod: raw librdkafka with the records, the windows and the settings of sink_bench: the floor under anything that ends in
 * Kafka. One thread produces and polls the reports; with rate=N it keeps that pace, and the latency counts from when a record
 * was due. */
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "kafka/kafka_conf.h"
#include "kload.h"

/* A record under way. */
struct slot {
    struct slot *next;
    struct device *device;
    uint64_t sent_ns; /* or when it was due */
};

struct device {
    unsigned id;
    struct slot *free_slots;
    struct device *next; /* among those that may send */
    bool is_ready;
};

#define NS_PER_S 1000000000ull

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

static struct device *take_ready(void)
{
    struct device *d = ready;

    ready = d->next;
    if (!ready)
        ready_end = &ready;
    d->is_ready = false;
    return d;
}

static void give_slot(struct slot *s)
{
    s->next = s->device->free_slots;
    s->device->free_slots = s;
    make_ready(s->device);
}

static void on_report(rd_kafka_t *rk, const rd_kafka_message_t *m, void *opaque)
{
    struct slot *s = m->_private;

    (void)rk;
    (void)opaque;
    if (m->err)
        failed++;
    else
        stored++;
    latency_add(&load.latency, latency_clock_ns() - s->sent_ns);
    give_slot(s);
}

static void send_one(rd_kafka_t *rk, rd_kafka_topic_t *rkt, struct device *d, uint64_t time_ns)
{
    struct kload_record r;
    struct slot *s = d->free_slots;
    rd_kafka_headers_t *headers = rd_kafka_headers_new(KLOAD_HEADERS);
    rd_kafka_resp_err_t code;

    d->free_slots = s->next;
    s->sent_ns = time_ns;
    kload_fill(&load, d->id, &r);
    for (size_t i = 0; i < KLOAD_HEADERS; i++)
        rd_kafka_header_add(headers, r.headers[i].name.p, (ssize_t)r.headers[i].name.n, r.headers[i].value.p,
                            (ssize_t)r.headers[i].value.n);
    code = rd_kafka_producev(rk, RD_KAFKA_V_RKT(rkt), RD_KAFKA_V_KEY((void *)(uintptr_t)r.record.key.p, r.record.key.n),
                             RD_KAFKA_V_VALUE(load.value, load.size), RD_KAFKA_V_HEADERS(headers),
                             RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_OPAQUE(s), RD_KAFKA_V_END);
    if (code) {
        fprintf(stderr, "kprod: %s\n", rd_kafka_err2str(code));
        exit(1);
    }
    sent++;
}

static void fill_windows(rd_kafka_t *rk, rd_kafka_topic_t *rkt)
{
    while (ready && sent < load.count) {
        struct device *d = take_ready();
        uint64_t now_ns = latency_clock_ns();

        while (d->free_slots && sent < load.count)
            send_one(rk, rkt, d, now_ns);
    }
}

/* What is due, one a device in turn; its latency counts from when it was due. */
static void keep_pace(rd_kafka_t *rk, rd_kafka_topic_t *rkt)
{
    double seconds = (double)(latency_clock_ns() - load.began_ns) / (double)NS_PER_S;
    uint64_t due = (uint64_t)(seconds * (double)load.rate);

    while (ready && sent < due && sent < load.count) {
        struct device *d = take_ready();

        send_one(rk, rkt, d, load.began_ns + sent * NS_PER_S / load.rate);
        if (d->free_slots)
            make_ready(d);
    }
}

/* They live as long as the process. */
static void make_devices(void)
{
    for (unsigned i = 0; i < load.devices; i++) {
        struct device *d = mem_alloc_zero(MEM_TEST, sizeof *d);
        struct slot *slots = mem_alloc_zero(MEM_TEST, load.window * sizeof *slots);

        d->id = i;
        for (unsigned k = 0; k < load.window; k++) {
            slots[k].device = d;
            give_slot(&slots[k]);
        }
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
    make_devices();
    kload_begin(&load);
    while (stored + failed < load.count) {
        if (load.rate)
            keep_pace(rk, rkt);
        else
            fill_windows(rk, rkt);
        rd_kafka_poll(rk, load.rate ? 1 : 100);
    }
    kload_report(&load, "kprod", stored, failed);
    rd_kafka_topic_destroy(rkt);
    rd_kafka_destroy(rk);
    rd_kafka_conf_destroy(conf);
    free(load.value);
    return 0;
fail:
    fprintf(stderr, "kprod: %s\n", ei.text);
    return 1;
}
