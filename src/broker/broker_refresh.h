/* broker_refresh: moves the sessions of one worker to the entries of a newer registry, some in each turn of the loop, so that
 * nobody waits for a million of them. Clients that are disabled in it, or whose tenant is, are thrown out by their links
 * (link_ops.barred); sessions whose device or tenant has gone end. Sessions that begin meanwhile must already belong to the newer
 * registry, and resumed ones take their new principal anyhow. One thread, the shard's. */
#pragma once

#include <stdint.h>

#include "loop/loop.h"

struct broker_refresh;
struct registry;
struct shard;

enum { BROKER_REFRESH_AT_ONCE = 1000 }; /* sessions in a turn: a millisecond */

struct broker_refresh {
    struct task task; /* the rest is its own */
    struct shard *shard;
    struct registry *registry;
    uint32_t left;    /* slots of the table of sessions that have not been looked at, those with the lowest numbers */
    uint32_t n_slots; /* of the table when the pass began */
    void (*on_done)(struct broker_refresh *refresh);
};

/* Begins; the first sessions are looked at in this call, and on_done() may run in it. `registry` must live until then, `refresh` is
 * owned by the caller. One pass at a time. A pass that the end of the loop cuts short needs no care. */
void broker_refresh_start(struct broker_refresh *refresh, struct shard *shard, struct registry *registry,
                          void (*on_done)(struct broker_refresh *refresh));

/* Begins again with the first session, while it is under way: the registry, or what it says, is another one now. */
void broker_refresh_restart(struct broker_refresh *refresh, struct registry *registry);
