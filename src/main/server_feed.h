/* server_feed: Kafka's records to MQTT subscribers: the rules of `to_mqtt`, the consumer that reads and the feed that publishes. All
 * of it is absent when there are no such rules. Only for main/. */
#pragma once

#include "base/err.h"

struct feed;
struct generation;
struct kafka_consumer;
struct server;

/* All-zero is absent. */
struct server_feed {
    struct kafka_consumer *consumer;
    struct feed *feed;
};

/* Opens both, for the configuration that the server begins with; before the workers run. E_*: the reason is in `ei`. */
MUST_USE err server_feed_open(struct server *s, struct errinfo *ei);

/* Names, in the log, the rules of both directions that may feed each other. */
void server_feed_warn_of_loops(const struct generation *g);

/* Devices can connect: records come from now on. */
void server_feed_start(struct server_feed *f);

/* No new records; what devices acknowledge still counts. */
void server_feed_drain(struct server_feed *f);

/* Commits what has been acknowledged; before Kafka is stopped. */
void server_feed_stop(struct server_feed *f);

/* After the workers have stopped and the broker is gone, before Kafka is freed. */
void server_feed_free(struct server_feed *f);
