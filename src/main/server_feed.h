/* server_feed: Kafka's records to MQTT subscribers: the consumer that reads, the feed that publishes, and how both get the
 * rules of `to_mqtt` of the next generation:
 *
 *   the consumer leaves what is not wanted any more --> the workers take the new rules --> the consumer reads what is new
 *
 * so that no worker is ever handed a record that its rules do not know. There is no consumer until there are such rules for the
 * first time. Main thread; only for main/. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/mail.h"

struct feed;
struct generation;
struct kafka_consumer;
struct server;

/* All-zero is absent. */
struct server_feed {
    struct kafka_consumer *consumer;
    struct feed *feed;
    bool is_started;
    const struct generation *next; /* while it is being taken over */
    struct mail left, used;        /* that the consumer has left what is not wanted; that the workers use the new rules */
    struct mail *done;
};

/* Opens what the first generation needs; before the workers run. E_*: the reason is in `ei`. */
MUST_USE err server_feed_open(struct server *s, struct errinfo *ei);

/* Opens what another generation needs as well, so that server_feed_use() cannot fail. Nothing is read differently yet. E_*: the
 * reason is in `ei`. */
MUST_USE err server_feed_prepare(struct server *s, const struct generation *next, struct errinfo *ei);

/* Takes over the rules of a generation that was prepared; borrowed until `done` is posted to the main loop. Kafka is not waited
 * for. One call at a time. */
void server_feed_use(struct server *s, const struct generation *next, struct mail *done);

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
