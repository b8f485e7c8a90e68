/* server_command: commands from Kafka to devices: the consumer that reads, the plane that routes. Only where something listens that
 * devices take commands by. Main thread; only for main/. */
#pragma once

#include "base/err.h"
#include "base/mail.h"

struct command_plane;
struct generation;
struct kafka_consumer;
struct server;

/* All-zero is absent. */
struct server_command {
    struct kafka_consumer *consumer;
    struct command_plane *plane; /* NULL: there are no commands */
    struct generation *next;     /* while it is being taken over */
    struct mail left, used;      /* that the consumer has left what is not wanted; that the routers use the next generation */
    struct mail *done;
};

/* Sets up; before the adapters are opened and the workers run. E_*: the reason is in `ei`. */
MUST_USE err server_command_open(struct server *s, struct errinfo *ei);

/* Gives the consumer and the routers the next generation, which is borrowed until `done` is posted to the main loop. */
void server_command_use(struct server *s, struct generation *next, struct mail *done);

/* Devices can connect: commands come from now on. */
void server_command_start(struct server_command *c);

/* No new commands; what devices acknowledge still counts. */
void server_command_drain(struct server_command *c);

/* Commits what has been done; before Kafka is stopped. */
void server_command_stop(struct server_command *c);

/* After the workers have stopped and the adapters are gone, before Kafka is freed. */
void server_command_free(struct server_command *c);
