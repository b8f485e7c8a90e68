/* device_upload: what a device sends, by whichever protocol, on its way to a record: who may speak for whom, the rules of
 * content types, QoS and times to live, defaults, the tenant's data volume (docs/wire/device-data.md). Everything that can be refused without Kafka. On the
 * worker; does not block. */
#pragma once

#include "adapter/ledger.h"
#include "core/command_record.h"
#include "core/device_record.h"
#include "core/device_topic.h"
#include "core/property_bag.h"
#include "core/trace_context.h"
#include "registry/registry.h"

/* One message. Everything is borrowed. */
struct device_upload {
    const struct config *config;
    struct registry *registry;
    struct command_plane *commands;    /* is told which gateway a device was heard through; NULL: nobody is */
    const struct principal *principal; /* of whoever sent it */
    enum config_adapter_type adapter;
    enum device_endpoint endpoint;
    struct str tenant, device; /* whom it is about; empty: the sender's tenant, the sender */
    struct str address;        /* where it was sent */
    struct str payload, content_type;
    struct trace_context trace;
    const struct property_bag *bag;
    uint32_t ttd_s; /* how long the device waits for a command from now on; 0: it does not */
    uint8_t qos;
    bool is_retained;
    bool is_malformed;     /* its payload is not the text it claims to be */
    bool admits_strangers; /* a sender without a device of its own may speak for every device of its tenant */
    /* Once prepared: */
    bool is_terminal; /* refused because the sender itself may not be here any more (docs/DEVICES.md) */
    const char *text; /* refused: why, in words; NULL: the refusal's own */
};

/* Checks, and makes the record; its topic is for the caller to set. `fault` is what is wrong with the address already. False:
 * `*out_why` says why not. */
MUST_USE bool device_upload_prepare(struct device_upload *u, enum device_fault fault, struct device_record *out_record,
                                    enum ledger_refusal *out_why);

/* The same of a device's response to a command: `request_id` and `status` as it sent them, checked by device_topic_parse(). */
MUST_USE bool device_upload_prepare_response(struct device_upload *u, enum device_fault fault, struct str request_id,
                                             int status, struct command_answer *out_answer, enum ledger_refusal *out_why);

/* A record of that sender has been given to Kafka: it counts for its tenant's data volume, whatever becomes of it there. */
void device_upload_count(const struct principal *principal, const struct record *record);

/* The route of an endpoint's messages in the ledger. */
enum ledger_route device_upload_route(enum device_endpoint endpoint);

/* Kafka's outcome as a refusal; not for OUTCOME_STORED. */
enum ledger_refusal device_upload_refusal(enum outcome outcome);
