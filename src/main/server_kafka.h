/* server_kafka: from the configuration to Kafka: settings, and the topics that must exist. Only for main/. */
#pragma once

#include "kafka/kafka.h"

struct config;
struct generation;
struct reload;
struct server;

/* A request for topics, with what it needs. */
struct server_topics {
    struct kafka_topics request; /* its mail is set by whoever asks */
    struct str *names;           /* owned, each text too */
    struct reload *owner;
    void *context; /* of whoever asks */
    struct server_topics *next;
};

/* Opens s->kafka; with the embedded one, writes its address to DATA_DIR/kafka.bootstrap. */
MUST_USE err server_kafka_open(struct server *s, struct errinfo *ei);

/* The topics that must exist for a generation, the one before it having had its own: those of every enabled tenant, and those that
 * rules make and name without variables. `before` NULL: there was none. The caller owns the request, and gives it to
 * kafka_ensure_topics(); NULL: all are there. */
struct server_topics *server_kafka_missing_topics(const struct generation *before, const struct generation *after);

/* Those of one tenant. As above. */
struct server_topics *server_kafka_tenant_topics(const struct config *config, struct str tenant);

/* After its mail came, or Kafka was stopped. NULL is a no-op. */
void server_kafka_free_topics(struct server_topics *topics);
