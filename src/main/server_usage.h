/* server_usage: what tenants have used (registry/usage.h) over restarts of this instance: read at the start, written each second and at the
 * end, in `usage` of the data directory. A killed process loses a second at most. The main thread; only for main/. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "base/err.h"
#include "store/store.h"

struct config;

struct server_usage {
    struct store *store;
    struct store_db db;
    pthread_t thread; /* that writes */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool runs, is_ending;
    bool has_failed; /* and it was logged */
};

/* Reads what there is, and begins to write. Before devices are let in. E_*: the reason is in `ei`; server_usage_close() is due in any
 * case. */
MUST_USE err server_usage_open(struct server_usage *u, const struct config *config, struct errinfo *ei);

/* Writes what is left. When nobody counts any more. */
void server_usage_close(struct server_usage *u);
