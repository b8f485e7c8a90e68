/* server_command: commands from Kafka to devices: the consumer that reads, the plane that routes, what carries commands to other instances.
 * Only where there are routes (main/server_routes.h). Main thread; only for main/. */
#pragma once

#include "base/err.h"
#include "base/mail.h"
#include "loop/wheel.h"

struct command_transport;
struct command_plane;
struct generation;
struct kafka_consumer;
struct server;

/* All-zero is absent. */
struct server_command {
    struct kafka_consumer *consumer; /* NULL: others read */
    struct command_plane *plane;     /* NULL: there are no commands */
    struct generation *next;         /* while it is being taken over */
    struct mail unwanted, used; /* that the consumer has left what is not wanted; that the routers use the next generation */
    struct mail *done;
    struct command_transport *transport; /* NULL: nothing is passed on */
    struct mail quiet, *left;            /* nobody is subscribed any more */
    struct timer patience;
};

/* Sets up; after the routes, before the adapters are opened and the workers run. E_*: the reason is in `ei`. */
MUST_USE err server_command_open(struct server *s, struct errinfo *ei);

/* Gives the consumer and the routers the next generation, which is borrowed until `done` is posted to the main loop. */
void server_command_use(struct server *s, struct generation *next, struct mail *done);

/* Devices can connect: commands come from now on. */
void server_command_start(struct server_command *c);

/* Begins to take what other instances pass on, for whom this one does not live yet: `ready` (its on_mail set) is posted to the main loop then, before
 * which the routes are not to be started. The workers run. */
void server_command_receive(struct server *s, struct mail *ready);

/* No new commands; what devices acknowledge still counts. */
void server_command_drain(struct server_command *c);

/* The adapters are drained: `left` (its on_mail set) is posted to the main loop when no subscription is left, or after two seconds. */
void server_command_leave(struct server *s, struct mail *left);

/* Commits what has been done; before Kafka is stopped. */
void server_command_stop(struct server_command *c);

/* After the workers have stopped and the adapters are gone, before Kafka is freed. */
void server_command_free(struct server_command *c);
