/* http_adapter: Hono's HTTP endpoints for devices (docs/wire/http.md): listeners on every worker, and what a request becomes. Opened and
 * freed by the main thread; everything else happens on the workers. */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "base/mail.h"
#include "core/sink.h"
#include "loop/worker.h"
#include "registry/generation.h"

struct command_plane;
struct http_adapter;
struct mailbox;

struct http_adapter_settings {
    struct workers *workers;
    struct sink *sink;              /* lives longer than the adapter */
    struct command_plane *commands; /* the same; NULL: there are no commands */
    struct generation *generation;  /* to begin with; references are taken */
};

/* Binds every HTTP listener of the configuration on every worker; nothing is accepted yet. Before the workers' threads start.
 * E_BUSY: an address is in use; E_INVAL, E_IO: otherwise; `ei` names the listener. */
MUST_USE err http_adapter_open(const struct http_adapter_settings *settings, struct http_adapter **out_adapter,
                               struct errinfo *ei);

/* Begins to accept, on all workers. `done` (its on_mail set by the caller) is posted to `home` when every listener of every
 * worker listens. Any thread, once, after the workers have started. */
void http_adapter_start(struct http_adapter *a, struct mail *done, struct mailbox *home);

/* The address of listener `index` of the configuration, as bound, into `text`. Any thread, before the drain. */
void http_adapter_name(const struct http_adapter *a, size_t index, char *text, size_t size);

/* Gives every worker the next generation of configuration, registry and rules; it has the same listeners at the same addresses. A
 * request sees one of them, but for one that waits for room meanwhile, which is checked against the new one. `done` is posted to
 * `home` when all have it. The main thread; one call at a time. */
void http_adapter_use(struct http_adapter *a, struct generation *generation, struct mail *done, struct mailbox *home);

/* Ends in an orderly way: listeners close, idle connections too; requests in flight are answered, those that have begun may end.
 * Connections that are left a second after drain_timeout are cut. `done` is posted to `home` when none is left. Any thread, once. */
void http_adapter_drain(struct http_adapter *a, struct mail *done, struct mailbox *home);

/* After the workers have stopped and the sink has answered all it was given. NULL is a no-op. */
void http_adapter_free(struct http_adapter *a);
