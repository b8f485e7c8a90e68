/* server_command_topics: the topics between instances that commands take with the routing router or shared (command/command_topics.h): the
 * own one is made, read, and removed at the end; that of an instance that this one has declared dead is removed as well. Main
 * thread, unless said otherwise; only for main/. */
#pragma once

#include <stdatomic.h>

#include "base/err.h"
#include "base/list.h"
#include "base/mail.h"
#include "base/str.h"
#include "kafka/kafka.h"
#include "loop/wheel.h"

struct command_transport;
struct command_transport_user;
struct kafka_consumer;
struct routes;
struct server;

/* All-zero is absent, and everything below is a no-op then. */
struct server_command_topics {
    struct server *server;
    struct command_transport *transport; /* NULL: there are no such topics */
    struct kafka_consumer *consumer;
    struct routes *routes;
    struct kafka_topics own; /* the request for the own topic */
    struct str own_name;
    bool is_asking, asks_again; /* it is under way; something has changed meanwhile */
    bool is_reading, is_read;   /* the consumer was started; it is fixed where it begins */
    bool is_leaving;
    struct mail ask, started; /* from worker 0, from the consumer */
    atomic_bool is_ask_due;
    struct timer look; /* the own topic must be there, whoever removes it */
    struct mail *ready, *waiter;
    struct mailbox *waiter_home;
    struct mail *left;
    struct list removals; /* of topics of the dead */
};

/* Sets up, if the configuration asks for topics: after Kafka was opened. E_*: the reason is in `ei`. */
MUST_USE err server_command_topics_open(struct server *s, struct errinfo *ei);

/* Who is told of what comes, and the routes, which say who lives. Before the workers run. */
void server_command_topics_connect(struct server_command_topics *t, struct routes *routes,
                                   const struct command_transport_user *user);

/* Has the own topic made and read; `ready` (its on_mail set) is posted to the main loop when it is. With workers that run. */
void server_command_topics_begin(struct server *s, struct mail *ready);

/* An instance was declared dead: its topic is removed, unless it lives again soon. Worker 0's thread. */
void server_command_topics_forget(struct server_command_topics *t, struct str instance);

/* The orderly end, when nobody sends anything any more: removes the own topic, then posts `left` (its on_mail set) to the main loop, within
 * two seconds whatever happens. */
void server_command_topics_leave(struct server *s, struct mail *left);

/* Nothing is read any more; before Kafka is stopped. */
void server_command_topics_stop(struct server_command_topics *t);

/* After Kafka and the workers have stopped. */
void server_command_topics_free(struct server_command_topics *t);
