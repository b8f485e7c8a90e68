/* server_kafka: from the configuration to Kafka: settings, and the topics that must exist. Only for main/. */
#pragma once

#include "main/server.h"

/* Opens s->kafka; with the embedded one, writes its address to DATA_DIR/kafka.bootstrap. */
MUST_USE err server_kafka_open(struct server *s, struct errinfo *ei);

/* Asks for the topics of every enabled tenant, and for those that rules make and name without variables; s->topics.mail comes. */
void server_kafka_ensure_topics(struct server *s);
void server_kafka_free_topics(struct server *s);
