/* kload: what kprod and sink_bench have in common, so that both produce the same records: those of devices that publish
 * telemetry, a window each, the next record when one is answered. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/sink.h"
#include "kafka/kafka.h"
#include "latency.h"

enum { KLOAD_HEADERS = 6, KLOAD_MAX_PROPERTIES = 32 };

struct kload {
    const char *bootstrap; /* "embedded" for the embedded Kafka */
    const char *topic;
    uint64_t count; /* records, over all devices */
    uint64_t rate;  /* records a second; 0: as fast as the windows allow */
    size_t size;    /* bytes of a value */
    unsigned devices, window;
    struct kafka_property properties[KLOAD_MAX_PROPERTIES];
    size_t n_properties;
    char *value;
    uint64_t began_ns, began_cpu_ns;
    struct latency latency; /* printed if there is any */
};

/* A record of a device, with the key and headers that telemetry has. Points into itself. */
struct kload_record {
    struct record record;
    struct record_header headers[KLOAD_HEADERS];
    char device_id[24], time_ms[24];
};

/* Reads `BOOTSTRAP TOPIC COUNT SIZE DEVICES WINDOW [rate=N] [property=value ...]`; prints the usage and exits if it is not that. */
void kload_parse(struct kload *l, int argc, char **argv);

void kload_fill(const struct kload *l, unsigned device, struct kload_record *out);

/* Marks the beginning; then prints rate, processor time (all threads) and memory as one line of JSON. */
void kload_begin(struct kload *l);
void kload_report(const struct kload *l, const char *name, uint64_t stored, uint64_t failed);
