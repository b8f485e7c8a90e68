/* authority_client: the HTTP clients of the workers, each made by its worker with the first request. Only for this folder. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "http/http_client.h"
#include "loop/resolver.h"
#include "loop/worker.h"

/* What they are for; each has connections of its own. */
enum authority_use { AUTHORITY_WEBHOOK, AUTHORITY_KEYS, AUTHORITY_OCSP, AUTHORITY_USES };

struct authority_client {
    struct http_client http;
    struct http_client_options options;
    uint64_t tls_number; /* of the TLS it uses */
    bool is_open;
};

struct authority_clients {
    struct workers *workers;
    struct authority_client (*list)[AUTHORITY_USES]; /* of each worker */
    struct resolver resolver;
    pthread_mutex_t lock; /* of the TLS, which the main thread changes */
    struct tls *tls;
    atomic_uint_fast64_t tls_number;
    atomic_bool is_closed;
};

struct authority_client_bounds {
    uint64_t connections; /* of all workers together */
    uint64_t max_waiting; /* of a worker */
};

/* `workers` are set up, their threads need not run. Registers metrics. Main thread. */
void authority_client_init(struct authority_clients *c, struct workers *workers);

/* What https goes by from now on; NULL: there is none. A reference is taken. Main thread. */
void authority_client_use_tls(struct authority_clients *c, struct tls *tls);

/* Sends a request from the worker to whose mailbox answers go, which is the calling thread. As http_client_send(). */
MUST_USE err authority_client_send(struct authority_clients *c, struct mailbox *home, enum authority_use use,
                                   const struct authority_client_bounds *bounds, struct http_call *call,
                                   const struct http_client_request *request);

/* After the workers have stopped: requests are answered with E_CLOSED, and none is taken any more. Two turns of each loop later: gives it all back. */
void authority_client_close(struct authority_clients *c);
void authority_client_fini(struct authority_clients *c);
