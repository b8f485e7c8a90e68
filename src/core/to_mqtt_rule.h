/* to_mqtt_rule: the ordered rules by which Kafka records become MQTT messages. The first rule whose topic and key match takes a
 * record.
 *
 * A rule's Kafka topic is a name, a name with variables (`orders.{tenant}`), or a regular expression that begins with `^`; its
 * key pattern is a regular expression. Named groups of both, the variables of the name among them, can be used in the
 * templates of the MQTT topic and of the tenant. Patterns are PCRE2's, on bytes, with bounds on what a match may cost; like
 * Kafka's own clients they look anywhere behind `^` and need a `$` to bind the end.
 *
 * Rules are put together once, then immutable and shared, any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "core/to_mqtt_template.h"

enum {
    TO_MQTT_MAX_RULES = 256,
    TO_MQTT_MAX_GROUPS = 32, /* of topic and key of a rule */
};

/* As the configuration has it; everything is borrowed for the call. */
struct to_mqtt_spec {
    struct str topic;
    struct str key;    /* empty: any record */
    struct str mqtt;   /* the topic's template */
    struct str tenant; /* a template; empty: the group `tenant` */
    uint8_t qos;
    bool is_retained;
    bool begins_at_end;
    uint64_t hold_ms;       /* how long a record waits for a subscriber, */
    uint64_t start_hold_ms; /* and how long after the start it waits at least */
    uint32_t ack_timeout_ms;
};

/* What is wrong with a specification. */
struct to_mqtt_fault {
    const char *field; /* "topic", "key", "mqtt", "tenant" */
    struct errinfo ei;
};

struct to_mqtt_rule {
    size_t index;
    struct to_mqtt_spec spec; /* texts are the rules' own */
    struct to_mqtt_pattern *topic_pattern, *key_pattern;
    struct str groups[TO_MQTT_MAX_GROUPS]; /* first those of the topic, then those of the key */
    size_t n_groups, n_topic_groups;
    struct to_mqtt_template topic, tenant;
};

struct to_mqtt_rules;

/* No rules, one reference. `max_levels`: what an MQTT topic may have. */
struct to_mqtt_rules *to_mqtt_rules_new(uint32_t max_levels);

/* Any thread. The last to_mqtt_rules_unref() frees; NULL is a no-op. */
struct to_mqtt_rules *to_mqtt_rules_ref(struct to_mqtt_rules *rules);
void to_mqtt_rules_unref(struct to_mqtt_rules *rules);

/* Compiles a rule to the end. E_INVAL, E_LIMIT: `out_fault` says why; nothing was added. */
MUST_USE err to_mqtt_rules_add(struct to_mqtt_rules *rules, const struct to_mqtt_spec *spec, struct to_mqtt_fault *out_fault);

/* What to_mqtt_rules_new() was given. */
uint32_t to_mqtt_rules_max_levels(const struct to_mqtt_rules *rules);

size_t to_mqtt_rules_count(const struct to_mqtt_rules *rules);
const struct to_mqtt_rule *to_mqtt_rules_at(const struct to_mqtt_rules *rules, size_t i);

/* Whether the rule takes records of this topic; the texts of the groups of its name go to `out_groups`, which holds
 * TO_MQTT_MAX_GROUPS, as views into it. Allocates; not for every record. */
bool to_mqtt_rule_takes_topic(const struct to_mqtt_rule *rule, struct str topic, struct str *out_groups);

/* The first rule that takes records of this topic, -1: none. As above. */
int to_mqtt_rules_find(const struct to_mqtt_rules *rules, struct str topic);
