/* sink_bench: the same load as kprod, through kafka/ as the workers use it: SINK_BENCH_THREADS threads (default 2), each with a
 * loop and its share of the devices, the next record of a device when an answer comes by mail. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "kafka/kafka.h"
#include "kload.h"
#include "loop/loop.h"
#include "obs/metrics.h"

enum { MAX_THREADS = 64 };

struct thread {
    struct loop loop;
    pthread_t id;
    unsigned number;
    uint64_t to_send, to_answer;
    uint64_t stored, failed;
};

struct slot {
    struct delivery delivery;
    struct thread *thread;
    unsigned device;
};

static struct kload load;
static struct kafka *kafka;
static struct sink_topic *topic;
static unsigned n_threads = 2;

static void send_one(struct slot *s)
{
    struct kload_record r;

    if (s->thread->to_send == 0)
        return;
    s->thread->to_send--;
    kload_fill(&load, s->device, &r);
    r.record.topic = topic;
    if (sink_submit(kafka_sink(kafka), &r.record, &s->delivery) != E_OK) {
        fprintf(stderr, "sink_bench: refused\n");
        exit(1);
    }
}

static void on_answer(struct mail *m)
{
    struct slot *s = CONTAINER_OF(m, struct slot, delivery.mail);
    struct thread *t = s->thread;

    if (s->delivery.outcome == OUTCOME_STORED)
        t->stored++;
    else
        t->failed++;
    if (--t->to_answer == 0)
        loop_stop(&t->loop);
    send_one(s);
}

static void *run(void *context)
{
    struct thread *t = context;
    unsigned n_devices = load.devices / n_threads + (t->number < load.devices % n_threads);
    struct slot *slots = calloc((size_t)n_devices * load.window + 1, sizeof *slots);

    metrics_attach_thread();
    for (unsigned i = 0; i < n_devices * load.window; i++) {
        slots[i] = (struct slot){.delivery = {.mail.on_mail = on_answer, .home = &t->loop.mailbox},
                                 .thread = t,
                                 .device = t->number + n_threads * (i % n_devices)};
        send_one(&slots[i]);
    }
    if (t->to_answer)
        loop_run(&t->loop);
    free(slots);
    return NULL;
}

static void on_topics(struct mail *m)
{
    loop_stop(CONTAINER_OF(CONTAINER_OF(m, struct kafka_topics, mail)->home, struct loop, mailbox));
}

/* Opens and waits until the topic is there. */
static void open_kafka(void)
{
    struct kafka_settings settings = {.bootstrap = str_from(load.bootstrap),
                                      .is_embedded = str_equal(str_from(load.bootstrap), STR("embedded")),
                                      .max_inflight_bytes = (uint64_t)1 << 30,
                                      .properties = load.properties,
                                      .n_properties = load.n_properties};
    struct str names[] = {str_from(load.topic)};
    struct kafka_topics topics = {.mail.on_mail = on_topics, .names = names, .n_names = 1};
    struct errinfo ei = {0};
    struct loop loop;

    if (kafka_open(&settings, &kafka, &ei) != E_OK || loop_init(&loop, 0, &ei) != E_OK) {
        fprintf(stderr, "sink_bench: %s\n", ei.text);
        exit(1);
    }
    topics.home = &loop.mailbox;
    kafka_ensure_topics(kafka, &topics);
    loop_run(&loop);
    loop_fini(&loop);
    if (topics.result.code != E_OK) {
        fprintf(stderr, "sink_bench: %s\n", topics.result.text);
        kafka_free(kafka);
        exit(1);
    }
    topic = sink_find_topic(kafka_sink(kafka), names[0]);
}

int main(int argc, char **argv)
{
    static struct thread threads[MAX_THREADS];
    const char *wanted = getenv("SINK_BENCH_THREADS");
    uint64_t stored = 0, failed = 0;

    kload_parse(&load, argc, argv);
    if (wanted && atoi(wanted) > 0 && atoi(wanted) <= MAX_THREADS)
        n_threads = (unsigned)atoi(wanted);
    if (n_threads > load.devices)
        n_threads = load.devices;
    open_kafka();
    kload_begin(&load);
    for (unsigned i = 0; i < n_threads; i++) {
        struct thread *t = &threads[i];

        t->number = i;
        t->to_send = t->to_answer = load.count / n_threads + (i < load.count % n_threads);
        if (loop_init(&t->loop, 0, NULL) != E_OK || pthread_create(&t->id, NULL, run, t) != 0)
            return 1;
    }
    for (unsigned i = 0; i < n_threads; i++) {
        pthread_join(threads[i].id, NULL);
        stored += threads[i].stored;
        failed += threads[i].failed;
    }
    kload_report(&load, "sink_bench", stored, failed);
    kafka_free(kafka);
    for (unsigned i = 0; i < n_threads; i++)
        loop_fini(&threads[i].loop);
    free(load.value);
    return 0;
}
