/* server_command_link: the connections with other instances that commands take with the routing link (command/command_link.h): where it
 * listens, whom it knows by the routes, its TLS with each generation. Main thread; only for main/. */
#pragma once

#include "base/err.h"
#include "base/str.h"

struct command_transport;
struct command_transport_user;
struct generation;
struct routes;
struct server;

/* All-zero is absent, and everything below is a no-op then. */
struct server_command_link {
    struct command_transport *transport; /* NULL: there are no such connections */
    struct routes *routes;
};

/* Binds the address, if the configuration asks for the link: before server_routes_open(), which announces it. E_*: the reason is in `ei`. */
MUST_USE err server_command_link_open(struct server *s, struct errinfo *ei);

/* HOST:PORT by which others reach it, for the lease; empty: there is none. */
struct str server_command_link_address(const struct server_command_link *l);

/* Who is told of what comes, and the routes, which say who lives where. Before the transport's `start` and the workers. */
void server_command_link_connect(struct server_command_link *l, struct routes *routes,
                                 const struct command_transport_user *user);

/* Connections that are made from now on use the TLS of this generation. */
void server_command_link_use(struct server_command_link *l, const struct generation *next);

/* After the workers have stopped. */
void server_command_link_free(struct server_command_link *l);
