#include "main/server_usage.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/log.h"
#include "config/config.h"
#include "loop/loop.h"
#include "main/server_table.h"
#include "main/server_usage_share.h"
#include "obs/metrics.h"
#include "registry/usage.h"

enum { VALUE_BYTES = 128, MAX_BYTES = 1 << 30 };

/* A value: a version, then the numbers of struct usage_state. */
#define FORMAT "1 %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64

static struct metric counts[] = {
    {.name = "millrace_usage_writes_total",
     .labels = "outcome=\"stored\"",
     .help = "Times that what tenants have used was written to the disk",
     .kind = METRIC_COUNTER},
    {.name = "millrace_usage_writes_total", .labels = "outcome=\"failed\"", .kind = METRIC_COUNTER},
};
enum { STORED, FAILED };

/* One write of all that has changed. */
struct writing {
    struct server_usage *usage;
    struct store_txn txn;
    struct store_db db;
    unsigned n;
    err e;
};

static void write_one(void *context, struct str tenant, const struct usage_state *state)
{
    struct writing *w = context;
    char value[VALUE_BYTES];
    int n = snprintf(value, sizeof value, FORMAT, state->bytes_begin_ms, state->bytes, state->connected_begin_ms,
                     state->connected_ms);

    w->n++;
    pthread_mutex_lock(&w->usage->share_lock);
    if (w->usage->share)
        server_usage_share_tell(w->usage->share, tenant, state);
    pthread_mutex_unlock(&w->usage->share_lock);
    if (w->e == E_OK)
        w->e = store_put(&w->txn, w->db, tenant, (struct str){value, (size_t)n});
}

/* What could not be written is written when it changes next. */
static void write_changes(struct server_usage *u)
{
    struct errinfo ei = {0};
    struct writing w = {.usage = u, .db = u->db};

    w.e = store_begin(u->store, &w.txn);
    if (w.e == E_OK) {
        usage_take_changes(write_one, &w, (int64_t)loop_wall_ms());
        w.e = store_commit(&w.txn, &ei);
    }
    if (w.e != E_OK && !u->has_failed)
        LOG_ERROR(LOG_REGISTRY, "usage.failed", F_TEXT("why", ei.text[0] ? ei.text : err_name(w.e)));
    u->has_failed = w.e != E_OK;
    if (w.n || w.e != E_OK)
        metric_add(&counts[w.e == E_OK ? STORED : FAILED], 1);
}

static void *run(void *context)
{
    struct server_usage *u = context;
    struct timespec until;

    metrics_attach_thread();
    pthread_mutex_lock(&u->lock);
    while (!u->is_ending) {
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec++;
        if (pthread_cond_timedwait(&u->ended, &u->lock, &until) != ETIMEDOUT)
            continue;
        pthread_mutex_unlock(&u->lock);
        write_changes(u);
        pthread_mutex_lock(&u->lock);
    }
    pthread_mutex_unlock(&u->lock);
    return NULL;
}

/* Values of later versions are left alone until their tenant uses something. */
static void restore_one(struct str tenant, struct str value)
{
    struct usage_state state = {0};
    char text[VALUE_BYTES];

    if (value.n >= sizeof text)
        return;
    memcpy(text, value.p, value.n);
    text[value.n] = '\0';
    if (sscanf(text, "1 %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64, &state.bytes_begin_ms, &state.bytes,
               &state.connected_begin_ms, &state.connected_ms) == 4)
        usage_restore(tenant, &state);
}

static err restore(struct server_usage *u)
{
    struct store_cursor cursor = {0};
    struct store_txn txn;
    err e = store_reader_open(u->store, &txn);

    if (e != E_OK)
        return e;
    e = store_cursor_open(&txn, u->db, &cursor);
    for (err at = e == E_OK ? store_cursor_seek(&cursor, (struct str){0}) : e; at == E_OK; at = store_cursor_next(&cursor))
        restore_one(cursor.key, cursor.value);
    store_cursor_close(&cursor);
    store_reader_close(&txn);
    return e;
}

static err open_store(struct server_usage *u, const struct config *config, struct errinfo *ei)
{
    const struct store_options options = {.max_bytes = MAX_BYTES, .durability = STORE_REBUILDABLE};
    err e = server_table_open_store(config, "usage", &options, &u->store, ei);

    if (e == E_OK && store_damage(u->store))
        LOG_WARN(LOG_REGISTRY, "usage.lost", F_TEXT("why", store_damage(u->store)));
    return e == E_OK ? store_db_open(u->store, "usage", &u->db, ei) : e;
}

err server_usage_open(struct server_usage *u, const struct config *config, struct errinfo *ei)
{
    pthread_condattr_t attributes;
    err e;

    *u = (struct server_usage){0};
    e = open_store(u, config, ei);
    if (e != E_OK)
        return e;
    if (restore(u) != E_OK)
        return errinfo_set(ei, E_IO, "cannot read what tenants have used from %s/usage", config->data_dir.p);
    metrics_register(counts, ARRAY_LEN(counts));
    pthread_mutex_init(&u->lock, NULL);
    pthread_mutex_init(&u->share_lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&u->ended, &attributes);
    pthread_condattr_destroy(&attributes);
    u->runs = pthread_create(&u->thread, NULL, run, u) == 0;
    return u->runs ? E_OK : errinfo_set(ei, E_IO, "cannot start the thread that keeps what tenants have used");
}

void server_usage_use_share(struct server_usage *u, struct server_usage_share *share)
{
    pthread_mutex_lock(&u->share_lock);
    u->share = share;
    pthread_mutex_unlock(&u->share_lock);
}

void server_usage_close(struct server_usage *u)
{
    if (u->runs) {
        pthread_mutex_lock(&u->lock);
        u->is_ending = true;
        pthread_cond_signal(&u->ended);
        pthread_mutex_unlock(&u->lock);
        pthread_join(u->thread, NULL);
        write_changes(u);
    }
    store_close(u->store);
    *u = (struct server_usage){0};
}
