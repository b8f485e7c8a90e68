#include "kload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "loop/loop.h"

static uint64_t clock_ns(clockid_t which)
{
    struct timespec t;

    clock_gettime(which, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void usage(const char *program)
{
    fprintf(stderr, "usage: %s BOOTSTRAP TOPIC COUNT SIZE DEVICES WINDOW [rate=N] [property=value ...]\n", program);
    exit(2);
}

void kload_parse(struct kload *l, int argc, char **argv)
{
    *l = (struct kload){0};
    if (argc < 7 || argc > 7 + KLOAD_MAX_PROPERTIES)
        usage(argv[0]);
    l->bootstrap = argv[1];
    l->topic = argv[2];
    l->count = strtoull(argv[3], NULL, 10);
    l->size = strtoull(argv[4], NULL, 10);
    l->devices = (unsigned)strtoul(argv[5], NULL, 10);
    l->window = (unsigned)strtoul(argv[6], NULL, 10);
    if (!l->count || !l->devices || !l->window)
        usage(argv[0]);
    for (int i = 7; i < argc; i++) {
        struct str value = str_from(argv[i]);
        bool found;
        struct str name = str_take(&value, '=', &found);

        if (!found)
            usage(argv[0]);
        if (str_equal(name, STR("rate")))
            l->rate = strtoull(value.p, NULL, 10);
        else
            l->properties[l->n_properties++] = (struct kafka_property){name, value};
    }
    l->value = malloc(l->size + 1);
    if (!l->value)
        usage(argv[0]);
    memset(l->value, 'x', l->size);
}

void kload_fill(const struct kload *l, unsigned device, struct kload_record *out)
{
    struct str id = {out->device_id, (size_t)snprintf(out->device_id, sizeof out->device_id, "device-%u", device)};
    struct str now = {out->time_ms,
                      (size_t)snprintf(out->time_ms, sizeof out->time_ms, "%llu", (unsigned long long)loop_wall_ms())};
    const struct record_header headers[KLOAD_HEADERS] = {
        {STR("device_id"), id},
        {STR("qos"), STR("1")},
        {STR("creation-time"), now},
        {STR("content-type"), STR("application/octet-stream")},
        {STR("orig_adapter"), STR("hono-mqtt")},
        {STR("orig_address"), STR("telemetry")},
    };

    memcpy(out->headers, headers, sizeof headers);
    out->record = (struct record){.key = id, .value = {l->value, l->size}, .headers = out->headers, .n_headers = KLOAD_HEADERS};
}

void kload_begin(struct kload *l)
{
    l->began_ns = clock_ns(CLOCK_MONOTONIC);
    l->began_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

void kload_report(const struct kload *l, const char *name, uint64_t stored, uint64_t failed)
{
    double seconds = (double)(clock_ns(CLOCK_MONOTONIC) - l->began_ns) / 1e9;
    double cpu = (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - l->began_cpu_ns) / 1e9;
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    printf("{");
    if (l->latency.count) {
        latency_print(&l->latency);
        printf(", ");
    }
    printf("\"name\": \"%s\", \"stored\": %llu, \"failed\": %llu, \"size\": %zu, \"devices\": %u, \"window\": %u, "
           "\"records_per_s\": %.0f, \"cpu_s_per_100k\": %.3f, \"max_rss_kb\": %ld}\n",
           name, (unsigned long long)stored, (unsigned long long)failed, l->size, l->devices, l->window,
           (double)stored / seconds, cpu / ((double)(stored + failed) / 1e5), usage.ru_maxrss);
}
