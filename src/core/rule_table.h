/* rule_table: the ordered rules by which what clients do becomes Kafka records. The first rule that matches takes a publish or
 * an event; it may write several records.
 *
 * A table is put together once, from specifications as the configuration has them, then checked and finished; from then on it
 * is immutable and shared by reference count, any thread. Finding a rule allocates nothing: rules are indexed by the text
 * of their first level, those that begin with a wildcard stand in every list, at their place. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "core/rule_filter.h"
#include "core/rule_template.h"
#include "core/sink.h"

enum {
    RULE_TABLE_MAX_RULES = 4096,
    RULE_MAX_ACTIONS = 16,
    RULE_MAX_HEADERS = 64, /* of one action */
};

/* What a rule takes. */
enum rule_source {
    RULE_SOURCE_PUBLISH,
    RULE_SOURCE_CONNECT,
    RULE_SOURCE_DISCONNECT,
    RULE_SOURCE_SUBSCRIBE,
    RULE_SOURCE_SESSION_END,
    RULE_SOURCES,
};

/* When the sender is told that all is well, the least strict first. */
enum rule_ack {
    RULE_ACK_RECEIVED, /* at once */
    RULE_ACK_QUORUM,   /* when every record of the rule is in Kafka */
    RULE_ACKS,
};

/* As the configuration has it; everything is borrowed for the call. */
struct rule_action_spec {
    struct str topic, key, partition;    /* templates; empty: no key, by the key */
    const struct record_header *headers; /* names as they are, values as templates */
    size_t n_headers;
    enum rule_ack ack;
    bool is_creating;  /* topics that are missing are made */
    uint32_t limit_ms; /* how long a record may wait for Kafka; 0: for ever */
};

struct rule_spec {
    struct str name; /* for people: metrics, explanations */
    enum rule_source source;
    struct str filter; /* of RULE_SOURCE_PUBLISH */
    struct str tenant; /* empty: any */
    struct str mapper; /* who rewrites messages before their records are made; empty: nobody */
    bool is_local;     /* MQTT's subscribers get the message too */
    const struct rule_action_spec *actions;
    size_t n_actions;
};

struct rule_header {
    struct str name;
    struct rule_template value;
};

struct rule_action {
    struct rule_template topic, key, partition;
    struct rule_header *headers;
    size_t n_headers;
    enum rule_ack ack;
    bool is_creating;
    uint32_t limit_ms;
};

struct rule {
    size_t index; /* in the table */
    struct str name;
    enum rule_source source;
    struct rule_filter filter;
    struct str tenant;
    struct str mapper;
    bool is_local;
    enum rule_ack ack; /* the strictest of its actions */
    struct rule_action *actions;
    size_t n_actions;
    struct rule_variables variables; /* of all its templates */
};

struct rule_table;

/* What is wrong with a rule. `action` is the one concerned, RULE_MAX_ACTIONS: the rule itself. */
struct rule_fault {
    size_t action;
    const char *field;  /* "mqtt", "topic", "key", "headers", "partition", "timeout", "ack" */
    struct str unknown; /* a variable nobody knows; borrows the specification */
    struct errinfo ei;
};

/* An empty table with one reference. `prefix_bytes`: how much is put before every topic's name. */
struct rule_table *rule_table_new(size_t prefix_bytes);

/* Any thread. The last rule_table_unref() frees; NULL is a no-op. */
struct rule_table *rule_table_ref(struct rule_table *table);
void rule_table_unref(struct rule_table *table);

/* Compiles a rule to the end of the table. E_INVAL, E_LIMIT: `out_fault` says why; the table is as before but must then only
 * be freed, or filled further to find more faults. */
MUST_USE err rule_table_add(struct rule_table *table, const struct rule_spec *spec, struct rule_fault *out_fault);

/* What is wrong with rule `i` beside those before it: an earlier one leaves nothing to it, or gives a topic that both may write
 * another time limit or class. E_INVAL: `out_fault` says which. */
MUST_USE err rule_table_check(const struct rule_table *table, size_t i, struct rule_fault *out_fault);

/* Builds the index; nothing can be added any more. */
void rule_table_finish(struct rule_table *table);

size_t rule_table_count(const struct rule_table *table);
const struct rule *rule_table_at(const struct rule_table *table, size_t i);

/* The rule that takes a publish, and the texts of its segments; NULL when there is none. `out_segments` holds
 * RULE_FILTER_MAX_SEGMENTS. */
const struct rule *rule_table_find(const struct rule_table *table, struct str tenant, struct str topic,
                                   struct str *out_segments);

/* The rule that takes an event, or NULL. */
const struct rule *rule_table_find_event(const struct rule_table *table, enum rule_source event, struct str tenant);

/* Whether any rule takes this source at all: what nobody asks for need not be made. */
bool rule_table_has(const struct rule_table *table, enum rule_source source);

/* The first rule from number `from` on that may write to this Kafka topic, or NULL: for rules the other way, which could feed
 * it with what it has written. */
const struct rule *rule_table_find_writer(const struct rule_table *table, size_t from, struct str topic);

/* As the configuration spells them: "mqtt", "connect" ..., "received", "quorum". Never NULL. */
const char *rule_table_source_name(enum rule_source source);
const char *rule_table_ack_name(enum rule_ack ack);
