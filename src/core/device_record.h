/* device_record: turns a device's message into the record for Kafka, with the headers of docs/wire/device-data.md and the rules
 * for content types, defaults and times to live. Which record goes to which topic is the caller's choice. Pure functions, any
 * thread; no memory is allocated. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "core/device_fault.h"
#include "core/device_topic.h"
#include "core/property_bag.h"
#include "core/sink.h"

enum {
    DEVICE_RECORD_MAX_DEFAULTS = 48, /* headers from defaults on one record, tenant's and device's merged */
    DEVICE_RECORD_MAX_HEADERS = 13 + DEVICE_RECORD_MAX_DEFAULTS,
};

/* Headers that a tenant or device wants on every record: `count` times a name and its value, flat, that is 2 * count views. An
 * array of structures that hold a name and a value, both `struct str`, in this order and nothing else, has this very layout.
 * Names are unique within one list. All-zero: none. */
struct device_defaults {
    const struct str *pairs;
    size_t count;
};

/* A tenant's upper bounds of the time to live, in seconds; negative: no bound. */
struct device_limits {
    int64_t max_ttl_s; /* of events */
    int64_t max_ttl_telemetry_qos0_s;
    int64_t max_ttl_telemetry_qos1_s;
};

/* A message as the adapter has it. Everything is borrowed. All-zero fields mean "not given". */
struct device_message {
    enum device_endpoint endpoint; /* telemetry or event */
    uint8_t qos;                   /* 0, 1, or 2, which is recorded as 1 */
    bool is_retained;              /* the retain flag of the PUBLISH */
    bool has_ttd;
    int32_t ttd_s;        /* how long the device can be reached, -1 until further notice; if has_ttd */
    struct str device_id; /* the originating device, not its gateway */
    struct str payload;
    struct str address;             /* where it was sent: for MQTT the whole topic with the bag; empty: no header tells */
    struct str adapter;             /* by its name in Hono, as "hono-mqtt"; empty: no header tells */
    struct str content_type;        /* MQTT 5's property or HTTP's header; the bag's wins */
    const struct property_bag *bag; /* NULL: none */
    struct str traceparent;         /* from the protocol or made here; empty: the bag's, if any */
    struct str tracestate;          /* goes with it */
    struct str tenant_id;           /* not Hono's: when not empty, a header `tenant_id` as well */
    struct str gateway_id;          /* not Hono's: when not empty, a header `gateway_id` as well */
    struct device_defaults tenant_defaults;
    struct device_defaults device_defaults;
    const struct device_limits *limits; /* NULL: none */
    uint64_t creation_time_ms;          /* since 1970 */
};

/* A record and the memory for what had to be written for it. It points into itself: build it where it is used, never copy it.
 * About 2 KiB, for the stack; need not be initialised. */
struct device_record {
    struct record record;
    struct record_header headers[DEVICE_RECORD_MAX_HEADERS];
    char text[64]; /* the numbers' decimal digits */
};

/* The record of a telemetry message or an event: key = device id, value = payload (null for an empty notification), the
 * headers. `record.topic` is left NULL for the caller. Views into `message` and what it points to stay in use until the record
 * has been submitted. On a fault `*out_record` holds nothing useful.
 *
 * Headers: the defaults, first the device's, then those of the tenant that the device does not name itself; then device_id,
 * qos, content-type, creation-time, orig_adapter, orig_address; if there is reason to, ttl (in ms), ttd, x-opt-retain,
 * traceparent, tracestate, tenant_id, gateway_id. A default never becomes one of the headers named here, nor do the ttl
 * defaults; the default `content-type` serves when the message has none, else it is `application/octet-stream`.
 *
 * ttl (docs/wire/device-data.md): events take the bag's, else the default `ttl`; telemetry takes the default `ttl-telemetry-qos0` or
 * `-qos1` and ignores the bag's. The bound caps it, and stands in when there is none. A default that is no whole number counts
 * as absent.
 *
 * DEVICE_FAULT_EVENT_QOS, DEVICE_FAULT_EMPTY_PAYLOAD (the content type must come from the message, a default does not count),
 * DEVICE_FAULT_NOTIFICATION_PAYLOAD, DEVICE_FAULT_DEFAULTS. */
MUST_USE enum device_fault device_record_build(const struct device_message *message, struct device_record *out_record);

/* Adds a header that came with the message, in place of a default with its name; a no-op for the names of the record's own headers,
 * in any case of letters. DEVICE_FAULT_DEFAULTS: there is no room. Views stay in use as of device_record_build(). */
MUST_USE enum device_fault device_record_add(struct device_record *record, struct str name, struct str value);
