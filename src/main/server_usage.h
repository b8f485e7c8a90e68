/* server_usage: what tenants have used (registry/usage.h) over restarts of this instance (and, by server_usage_share.h, between several): read at the start, written each second and at the
 * end, in `usage` of the data directory. A killed process loses a second at most. The main thread; only for main/. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "base/err.h"
#include "store/store.h"

struct config;
struct server_usage_share;

struct server_usage {
    struct store *store;
    struct store_db db;
    pthread_t thread; /* that writes */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool runs, is_ending;
    pthread_mutex_t share_lock;
    struct server_usage_share *share; /* under it; NULL: nobody else is told */
    bool has_failed;                  /* and it was logged */
};

/* Reads what there is, and begins to write. Before devices are let in. E_*: the reason is in `ei`; server_usage_close() is due in any
 * case. */
MUST_USE err server_usage_open(struct server_usage *u, const struct config *config, struct errinfo *ei);

/* From now on others are told as well; NULL: from now on they are not. Between open and close. */
void server_usage_use_share(struct server_usage *u, struct server_usage_share *share);

/* Writes what is left. When nobody counts any more. */
void server_usage_close(struct server_usage *u);
