/* fanout: the fan-out plane of a process: HTTP listeners on all workers, one snapshot at a time, and the deliveries of each event.
 * docs/FANOUT.md says what it does; this is how main/ runs it. */
#pragma once

#include "base/err.h"
#include "base/mail.h"
#include "config/config.h"
#include "fanout/fanout_snapshot.h"
#include "loop/worker.h"

struct fanout;
struct fanout_park;
struct fanout_park_carrier;
struct sink;
struct tls;

struct fanout_settings {
    struct workers *workers;  /* prepared, not started; borrowed for the fan-out's life */
    struct config *config;    /* its `fanout` section; a reference is taken */
    struct sink *sink;        /* of `kafka:` subscribers; NULL: there are none */
    struct fanout_park *park; /* NULL: there is no place for parked events */
    struct tls *tls;          /* of https subscribers; a reference is taken */
};

/* Binds the listener; nothing is accepted before fanout_start(). E_*: the reason is in `ei`. Main thread. */
MUST_USE err fanout_open(const struct fanout_settings *settings, struct fanout **out_fanout, struct errinfo *ei);

/* Begins to accept, with this snapshot (a reference is taken); `done` is posted to `home` when all workers do. */
void fanout_start(struct fanout *f, struct fanout_snapshot *first, struct mail *done, struct mailbox *home);

/* A new snapshot for every request that comes from now on (a reference is taken). `done` is posted when all workers have it and may be
 * used again then; one change at a time. */
void fanout_apply(struct fanout *f, struct fanout_snapshot *next, struct mail *done, struct mailbox *home);

/* New connections to https subscribers have this TLS from now on. A reference is taken. Any thread. */
void fanout_use_tls(struct fanout *f, struct tls *tls);

/* The orderly end: stop accepting after `grace_ms` (readiness is off before), finish what was taken within `limit_ms`, answer 503 with Retry-After
 * to what is left. `done` is posted when nothing is left. A second call can only shorten both. */
void fanout_drain(struct fanout *f, uint32_t grace_ms, uint32_t limit_ms, struct mail *done, struct mailbox *home);

/* Writes the address it listens on into `to`. */
void fanout_name(struct fanout *f, char *to, size_t size);

/* Who brings parked events to their subscriptions again: for fanout_park_disk_start(), once this has started. As long as it lives. */
struct fanout_park_carrier *fanout_carrier(struct fanout *f);

/* After the workers have stopped. NULL is a no-op. */
void fanout_free(struct fanout *f);
