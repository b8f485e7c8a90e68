/* mqtt_device: what a client publishes as a device, to `telemetry`, `event` and their like, becomes a record in Kafka
 * (docs/DEVICES.md). Runs inside the PUBLISH handler. */
#pragma once

#include "adapter/ledger.h"
#include "adapter/mqtt/mqtt_conn.h"
#include "adapter/mqtt/mqtt_mapper.h"
#include "adapter/mqtt/mqtt_metrics.h"
#include "core/command_record.h"
#include "core/device_record.h"
#include "core/device_topic.h"
#include "core/property_bag.h"
#include "core/trace_context.h"
#include "registry/registry.h"

/* A device's publish, from a client or from a will. Everything is borrowed. */
struct mqtt_device_publish {
    const struct config *config;
    struct registry *registry;
    struct command_plane *commands; /* NULL: there are no commands */
    const struct principal *principal;
    const struct device_topic *topic;
    struct str address, payload; /* the topic as it was sent, with its bag */
    struct str content_type;
    struct trace_context trace;
    uint8_t qos;
    bool retain;
    bool is_malformed;                /* its payload is not the text it claims to be */
    const struct mqtt_mapped *mapped; /* what its mapper has made of it; NULL: nothing */
    /* Once prepared: */
    bool is_terminal;        /* refused because the sender itself may not be here any more (docs/DEVICES.md) */
    const char *text;        /* refused: why, in words; NULL: the refusal's own */
    struct property_bag bag; /* of the topic */
    char scratch[PROPERTY_BAG_SCRATCH_BYTES];
};

/* Everything that can be refused without Kafka, and the record; its topic is for the caller to set. False: `*out_why` says why
 * not. The bag is read in any case, since it says what to do then. */
MUST_USE bool mqtt_device_prepare(struct mqtt_device_publish *p, enum device_fault fault, struct device_record *out_record,
                                  enum ledger_refusal *out_why);

/* The same of a response to a command (DEVICE_ENDPOINT_COMMAND). */
MUST_USE bool mqtt_device_prepare_response(struct mqtt_device_publish *p, enum device_fault fault,
                                           struct command_answer *out_answer, enum ledger_refusal *out_why);

/* `fault` and `topic` come from device_topic_parse(). Answers the publish now or when Kafka has it. HANDLE_WAIT: no room. */
enum handle mqtt_device_publish(struct mqtt_conn *c, const struct mqtt_publish *publish, struct str address,
                                const struct device_topic *topic, enum device_fault fault);

/* The same for a will, which nobody waits for. */
void mqtt_device_publish_will(struct mqtt_worker *mw, const struct principal *principal, struct message *will,
                              const struct device_topic *topic, enum device_fault fault);
