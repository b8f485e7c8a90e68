/* fanout_snapshot_private: what the builder of a snapshot shares with those who look into it: the index of hosts and what a Host
 * header means. Pure functions, any thread. */
#pragma once

#include "fanout/fanout_snapshot.h"

enum { FANOUT_HOST_BYTES = 320 }; /* a DNS name has at most 253, a channel's key at most 317 */

/* A further host of a channel, in by_host. */
struct fanout_host {
    struct str host;
    const struct fanout_channel *channel;
};

/* The channel that has this host, in normal form, among its `hosts`, or NULL. */
const struct fanout_host *fanout_snapshot_find_alias(const struct fanout_snapshot *snapshot, struct str host);

/* The normal form: lower-case, without port and last dot. Returns the length; 0: too long for any channel. */
size_t fanout_host_normalize(struct str host, char to[FANOUT_HOST_BYTES]);

/* The key "namespace/name" that a host in normal form means. False: it has no dot, so it is no channel's; `*out_n` is 0 when it has
 * one and is still none. */
bool fanout_host_to_key(struct str host, char to[FANOUT_HOST_BYTES], size_t *out_n);
