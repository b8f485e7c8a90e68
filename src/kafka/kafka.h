/* kafka: the door to Apache Kafka, and the only folder that knows librdkafka. One producer for the process, a service thread
 * that takes its delivery reports to whoever waits, the topics that must exist, and Kafka's wire protocol inside the process
 * for development.
 *
 * Life: kafka_open(), kafka_ensure_topics(), [workers run and use the sink], kafka_drain(), kafka_stop(), kafka_free(). Open,
 * stop and free belong to one thread; the sink (core/sink.h) and everything marked so may be used by any. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mail.h"
#include "base/str.h"
#include "core/sink.h"

struct mailbox;
struct kafka;

/* A librdkafka property by its own name, as `security.protocol`. */
struct kafka_property {
    struct str name;
    struct str value;
};

/* Records of topics whose name (without the prefix) begins with `name_prefix` are given up after `limit_ms`: their outcome is
 * then OUTCOME_UNAVAILABLE, although Kafka may have them. Topics without a limit, or with 0, wait for Kafka for ever. */
struct kafka_time_limit {
    struct str name_prefix;
    uint32_t limit_ms;
};

/* All views are borrowed for the call they are given to. All-zero but for `bootstrap` is usable. */
struct kafka_settings {
    struct str bootstrap;        /* HOST:PORT,...; ignored when is_embedded */
    bool is_embedded;            /* start a Kafka in memory instead (its limits go to the log) */
    struct str topic_prefix;     /* put before every topic name given to the sink and to kafka_ensure_topics() */
    uint64_t max_inflight_bytes; /* the sink's room; 0: KAFKA_DEFAULT_INFLIGHT_BYTES */
    const struct kafka_property *properties;
    size_t n_properties;
    const struct kafka_time_limit *time_limits; /* the first that fits holds */
    size_t n_time_limits;
};

enum { KAFKA_DEFAULT_INFLIGHT_BYTES = 64 << 20 };

/* Where Kafka stands, as /readyz and the gauge millrace_kafka_up show it. */
enum kafka_state {
    KAFKA_STARTING, /* no metadata has come yet since the start: not ready */
    KAFKA_UP,
    KAFKA_AWAY,     /* no broker answers, or none stores records (after 10 s); what was taken waits. Degraded, yet ready */
    KAFKA_DRAINING, /* kafka_drain() or kafka_stop() was called; nothing new is taken */
};

/* Checks what can be checked without a network: properties unknown to librdkafka, with bad values, or which are ours to set.
 * E_INVAL with the property's name in `ei`. For `millrace check`; kafka_open() does the same. Any thread. */
MUST_USE err kafka_check_settings(const struct kafka_settings *settings, struct errinfo *ei);

/* Starts producer and service thread (and the embedded Kafka). Does not wait for the cluster. Registers metrics, so it comes
 * before the worker threads start. E_INVAL: see kafka_check_settings(). E_IO: the system gave no thread or descriptor. The
 * caller owns `*out_kafka`. */
MUST_USE err kafka_open(const struct kafka_settings *settings, struct kafka **out_kafka, struct errinfo *ei);

/* The port to produce through; lives as long as `k`, whatever happens to the producer behind it. After kafka_drain() or
 * kafka_stop() it refuses with E_INVAL and OUTCOME_UNAVAILABLE. Any thread. */
struct sink *kafka_sink(struct kafka *k);

/* The state now. Any thread. */
enum kafka_state kafka_state(const struct kafka *k);
const char *kafka_state_name(enum kafka_state state);

/* Whether metadata has come since the start and nobody drains; stays true when Kafka goes away. Any thread. */
bool kafka_is_ready(const struct kafka *k);

/* The bootstrap address: what was configured, or that of the embedded Kafka ("127.0.0.1:PORT"). Lives as long as `k`. */
struct str kafka_bootstrap(const struct kafka *k);

/* Records taken and not yet answered, and the bytes they are charged with. Any thread. */
uint64_t kafka_inflight_records(const struct kafka *k);
uint64_t kafka_inflight_bytes(const struct kafka *k);

/* How a topic is to be made, and what one that exists must agree with. The views live as long as the request. */
struct kafka_topic_spec {
    int32_t n_partitions; /* also of one that exists; 0: the cluster's default, any */
    int32_t n_replicas;   /* 0: the cluster's default */
    const struct kafka_property
        *config; /* as `retention.ms`. One that exists must have the same cleanup.policy, and at least as
                                          * many max.message.bytes */
    size_t n_config;
};

/* Topics that must exist. The requester owns it, zeroed, and leaves it (and what it names) alone until its mail comes. */
struct kafka_topics {
    struct mail mail;     /* on_mail is set by the requester */
    struct mailbox *home; /* set by the requester */
    const struct str *names;
    const struct kafka_topic_spec *specs; /* one for each name; NULL: the cluster's defaults */
    size_t n_names;                       /* 0: only waits for the first metadata */
    struct errinfo result;
    size_t n_made;   /* those that were missing, when the mail comes */
    bool is_removal; /* kafka's own, as is the next */
    struct kafka_topics *next;
};

/* Makes the missing ones among the topics, with the cluster's own number of partitions and replicas. As long as the cluster
 * does not answer it tries again, with pauses and a log line, for as long as it takes; the state is KAFKA_STARTING until
 * then. The mail comes exactly once, with `result.code`
 *   E_OK       all exist and their metadata is here: the first record will not wait for it
 *   E_DENIED   the cluster's access control refuses to show or to make one
 *   E_INVAL    a name is not legal, the cluster refuses for another lasting reason, or one that exists is not as specified
 *   E_CLOSED   kafka_stop() came first
 * and a text for people. Topics that could be made are there even if others were refused. Any thread; does not block. */
void kafka_ensure_topics(struct kafka *k, struct kafka_topics *topics);

/* Removes those of the topics that are there, with everything in them; `specs` does not matter. The mail comes exactly once, with a
 * code as of kafka_ensure_topics(); E_OK: none is there any more. The embedded Kafka cannot (E_INVAL). Any thread; does not block. */
void kafka_remove_topics(struct kafka *k, struct kafka_topics *topics);

/* A request to drain; owned by the requester, zeroed, until its mail comes. */
struct kafka_drain {
    struct mail mail;     /* on_mail is set by the requester */
    struct mailbox *home; /* set by the requester */
    uint64_t given_up;    /* records that Kafka had not confirmed within the limit; they were answered OUTCOME_UNAVAILABLE */
};

/* From now on the sink refuses; what it took before may still arrive within `limit_ms`, then the rest is answered. All answers
 * are posted before the mail is. Once only. Any thread; does not block. */
void kafka_drain(struct kafka *k, struct kafka_drain *drain, uint32_t limit_ms);

/* Answers everything that still waits (OUTCOME_UNAVAILABLE; call kafka_drain() first to give it time), ends the threads and
 * leaves Kafka. Blocks for as long as librdkafka takes to end its threads, normally a few milliseconds. A second call is a
 * no-op. The mailboxes that answers go to must still exist; the sink may still be called and refuses. */
void kafka_stop(struct kafka *k);

/* Releases the memory, sink and topics included; nobody may use the sink any more. Stops first if need be. NULL is a no-op. */
void kafka_free(struct kafka *k);
