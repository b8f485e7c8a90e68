/* subscriptions: which sessions of one worker want which topics. Filters stand in a topic tree; a session found by several
 * of its filters is delivered to once, at the highest QoS of them and with all their identifiers [MQTT-3.3.4-2, 3.3.4-3].
 *
 * The summary is what other workers see of it: a bit for each (tenant, first level) in use, hashed, and for filters that
 * begin with a wildcard one for the tenant. One thread, but for subscriptions_may_match(). */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slab.h"
#include "broker/topic_tree.h"

struct message;
struct session;

enum { SUMMARY_BITS = 4096 };

/* A subscription: a row of both the session's and the filter's list. */
struct subscription {
    struct session *session;
    struct topic_node *node;
    struct subscription *next_of_session;
    struct subscription *next_of_node, **link_of_node;
    uint32_t id; /* Subscription Identifier, 0: none */
    uint8_t qos;
    bool no_local;
    bool retain_as_published;
    uint16_t summary_bit;
};

struct subscription_options {
    uint32_t id;
    uint8_t qos;
    bool no_local;
    bool retain_as_published;
};

/* A session found by a publish. */
struct match {
    struct session *session;
    int32_t first_id; /* index into subscriptions->ids, -1: none */
    uint16_t n_ids;
    uint8_t qos;
    bool retain_as_published;
};

struct match_id {
    uint32_t id;
    int32_t next;
};

struct subscriptions {
    struct topic_tree tree;
    struct slab slab;
    atomic_uint_fast64_t summary[SUMMARY_BITS / 64];
    uint32_t *counts; /* filters behind each bit; allocated with the first */
    /* Of the publish in progress. */
    struct match *matches;
    struct match_id *ids;
    uint32_t n_matches, matches_capacity, n_ids, ids_capacity;
    uint64_t mark; /* numbers publishes; a session that has not been found has 0 */
};

void subscriptions_init(struct subscriptions *subs);
void subscriptions_fini(struct subscriptions *subs);

/* Adds a subscription, or replaces the options of the one the session has for this filter [MQTT-3.8.4-3]. `*out_existed`
 * tells which. E_NOMEM: nothing changed. */
MUST_USE err subscriptions_add(struct subscriptions *subs, struct session *ss, struct str tenant, struct str filter,
                               const struct subscription_options *options, bool *out_existed);

/* Whether the session has a subscription with this filter. */
bool subscriptions_has(const struct subscriptions *subs, const struct session *ss, struct str tenant, struct str filter);

/* False when there was none. */
bool subscriptions_remove(struct subscriptions *subs, struct session *ss, struct str tenant, struct str filter);

void subscriptions_remove_all(struct subscriptions *subs, struct session *ss);

/* Fills subs->matches with the sessions that get the message; No Local is applied [MQTT-3.8.3-3]. Valid until the next call.
 * E_NOMEM: some were left out. */
MUST_USE err subscriptions_match(struct subscriptions *subs, const struct message *m);

/* Whether somebody here may want the topic. Any thread. */
bool subscriptions_may_match(const struct subscriptions *subs, struct str tenant, struct str topic);
