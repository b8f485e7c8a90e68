/* server_fanout: the fan-out of a process, alone or beside the rest: which configuration holds, the plane that delivers, the place of
 * parked events, and its part of the administration port. The main thread; only for main/. */
#pragma once

#include "config/config.h"
#include "fanout/fanout_control.h"
#include "http/http_route.h"
#include "loop/worker.h"

struct fanout;
struct fanout_admin;
struct fanout_park_disk;
struct sink;
struct tls;

/* All-zero is absent. */
struct server_fanout {
    struct mailbox *home; /* the main loop's */
    struct config *config;
    struct fanout_control *control;
    struct fanout *plane;
    struct fanout_admin *admin;
    struct fanout_park_disk *park;
    struct mail *drained;
    void (*on_https)(void *context);
    void *context;
};

struct server_fanout_settings {
    struct loop *loop;       /* the main thread's */
    struct workers *workers; /* prepared, not started */
    struct config *config;   /* a reference is taken */
    struct sink *sink;       /* of `kafka:` subscribers; NULL: there is none */
    bool has_disk;           /* data_dir may be used */
    struct tls *tls;         /* of https subscribers; a reference is taken. NULL: it comes when it is needed, or never */
    void (*on_https)(void *context); /* now it is needed: server_fanout_use_tls() may be called. NULL: nobody wants to know */
    void *context;
};

/* Reads the first configuration and binds the listener. E_*: the reason, with file and line, is in `ei`; server_fanout_free() is due
 * in any case. */
MUST_USE err server_fanout_open(struct server_fanout *f, const struct server_fanout_settings *settings, struct errinfo *ei);

/* The routes for the administration port, as long as it is open. None when it is absent. */
const struct http_route *server_fanout_routes(const struct server_fanout *f, size_t *out_n);

/* The workers run: events are taken once `done` is posted to the main loop. */
void server_fanout_start(struct server_fanout *f, struct mail *done);

/* After that: changes of the configuration are followed. */
void server_fanout_follow(struct server_fanout *f);

/* New connections to https subscribers have this TLS; NULL: the same as before. A no-op when the fan-out is absent. */
void server_fanout_use_tls(struct server_fanout *f, struct tls *tls);

/* SIGHUP. A no-op when it is absent. */
void server_fanout_reload(struct server_fanout *f);

/* The orderly end, within fanout.grace and then drain_timeout; `done` is posted to the main loop. A second call answers at once what is
 * left. */
void server_fanout_drain(struct server_fanout *f, struct mail *done);

/* Writes the address it listens on. */
void server_fanout_name(const struct server_fanout *f, char *to, size_t size);

/* After the workers have stopped and the port was closed; before Kafka is freed. */
void server_fanout_free(struct server_fanout *f);
