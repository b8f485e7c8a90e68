/* rule_record: the records that a rule makes of one message or event: names of topics, keys, values, headers.
 *
 * Headers, in this order: mqtt.topic, mqtt.qos, mqtt.retain, mqtt.client_id, content-type, mqtt.response_topic,
 * mqtt.correlation_data, mqtt.expiry_s, mqtt.hops, mqtt.origin (those that apply); then the rule's own; then user properties
 * under their own names and in their order, traceparent among them. A user property never stands for one of the others: names
 * that begin with `mqtt.` and those of the rule's own headers are left out; content-type is the rule's, else the message's own,
 * else the user property's.
 *
 * Hops: a message that was made from a record carries that record's count and origin (as user properties `mqtt.hops` and
 * `mqtt.origin`, which clients that pass a message on pass on too); its records carry one more and the same origin. Others have 1
 * and TENANT/CLIENT-ID. Over RULE_RECORD_MAX_HOPS it is a loop.
 *
 * The value is the payload; null only for an empty payload with the retain flag, which is how MQTT deletes.
 * No locks; whoever owns the scratch memory may call. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "core/rule_table.h"
#include "core/sink.h"

enum { RULE_RECORD_MAX_HOPS = 8 };

/* A message or event as the adapter has it; all borrowed, all-zero fields mean "not given". */
struct rule_message {
    struct str client_id, user, tenant, device_id;
    struct str topic; /* empty for events */
    struct str event; /* of an event: its name */
    uint8_t qos;
    bool is_retained;
    bool has_expiry;
    uint32_t expiry_s;
    struct str payload;
    struct str content_type, response_topic, correlation_data;
    bool has_correlation_data;
    /* User properties, as the protocol keeps them: takes the next one from `*rest`, which starts as `properties`; false at
     * the end. NULL: there are none. */
    bool (*next_property)(struct str *rest, struct str *out_name, struct str *out_value);
    struct str properties;
};

/* Why no records can be made. */
enum rule_refusal {
    RULE_REFUSED_NOTHING,
    RULE_REFUSED_TOPIC_TOO_LONG, /* the values make a name longer than Kafka allows */
    RULE_REFUSED_PARTITION,      /* the values make no partition number */
    RULE_REFUSED_HOPS,           /* a loop */
    RULE_REFUSED_NO_MEMORY,
};

/* One record of a rule; `record.topic` is for the caller to set. */
struct rule_record {
    const struct rule_action *action;
    struct rule_name topic;
    struct record record;
};

/* Memory for what has to be written for one message: kept from message to message, so that it is allocated seldom. All-zero is
 * empty. The records of one call are valid until the next. */
struct rule_scratch {
    char *text;
    size_t text_bytes;
    struct record_header *headers;
    size_t n_headers;
    struct rule_record records[RULE_MAX_ACTIONS];
};

/* Makes a record for each action of `rule` in scratch->records. `segments` are those that rule_table_find() gave; `prefix_bytes`
 * is what will be put before the names of topics. RULE_REFUSED_NOTHING: they are there. */
MUST_USE enum rule_refusal rule_record_build(const struct rule *rule, const struct rule_message *m, const struct str *segments,
                                             size_t prefix_bytes, struct rule_scratch *scratch);

void rule_record_free_scratch(struct rule_scratch *scratch);

/* The word for metrics and logs, as in "topic_too_long". Never NULL. */
const char *rule_record_refusal_name(enum rule_refusal refusal);
