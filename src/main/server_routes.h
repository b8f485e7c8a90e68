/* server_routes: the table of routes, from the data directory or Kafka to the workers' replicas (docs/adr/0021). The main thread; only for main/. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/mail.h"
#include "config/config.h"
#include "main/server_table.h"

struct routes;
struct server;

struct server_routes {
    struct server *server;
    struct routes *routes; /* NULL: this process neither takes commands nor passes them on */
    bool is_shared;        /* with other instances */
    struct server_table table;
    struct mail opened, receiving, *ready;
};

/* Whether a process with this configuration has routes. */
bool server_routes_are_wanted(const struct config *config);

/* Sets up the routes and opens their table; `ready` (its on_mail set) is posted to the main loop when this process has its lease and knows all
 * routes, which needs the workers to run; at once when no routes are wanted. After Kafka was opened, before the workers are started: whoever
 * listens to the routes does so in between. E_*: the reason is in `ei`; server_routes_free() is due in any case. */
MUST_USE err server_routes_open(struct server *s, struct mail *ready, struct errinfo *ei);

/* The orderly end: `left` (its on_mail set) is posted to the main loop within two seconds. */
void server_routes_leave(struct server *s, struct mail *left);

/* After the workers and Kafka have stopped, and whoever listens was freed. */
void server_routes_free(struct server_routes *r);
