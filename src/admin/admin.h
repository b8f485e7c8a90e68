/* admin: the administration port: /metrics (Prometheus text), /livez and /readyz, GET and HEAD. Runs on any loop, in practice
 * on the main thread's. Other parts of the process bring further routes.
 *
 *   /livez   200 "ok" as long as the loop turns
 *   /readyz  200 "ok", 200 "degraded: kafka" (an orchestrator must not take devices away because Kafka is), 503 "starting",
 *            503 "draining" */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "http/http_route.h"
#include "loop/loop.h"

struct workers;

enum admin_readiness { ADMIN_STARTING, ADMIN_READY, ADMIN_DEGRADED_KAFKA, ADMIN_DRAINING, ADMIN_READINESSES };

/* What the port asks the process. */
struct admin_probes {
    enum admin_readiness (*readiness)(void *context); /* on the loop's thread, must not block */
    void *context;
    const struct http_route *routes; /* further ones, which are copied; tried after those above */
    size_t n_routes;
    struct workers *workers; /* whose metrics are to balance (scrape.h); they run as long as the port is open. NULL: none */
};

struct admin;

/* Listens on `address` ("127.0.0.1:8081", port 0: any). `probes` is copied. The caller owns *out_admin until admin_close().
 * E_INVAL: not an address. E_BUSY: in use. E_IO. The reason is in `ei`. Registers its metrics: before threads start. */
MUST_USE err admin_open(struct loop *l, struct str address, const struct admin_probes *probes, struct admin **out_admin,
                        struct errinfo *ei);

/* New connections have this TLS from now on; NULL: none. A reference is taken. */
struct tls;
void admin_use_tls(struct admin *a, struct tls *tls);

/* The address it is bound to, as "127.0.0.1:8081", into `text`. */
void admin_name(const struct admin *a, char *text, size_t size);

/* Stops listening, sends what is answered and closes. `a` frees itself at the end of the loop's next turn: whoever ends the
 * loop runs one more, loop_turn(l, 0). NULL is a no-op. The port stays open through a drain, so call it last. */
void admin_close(struct admin *a);
