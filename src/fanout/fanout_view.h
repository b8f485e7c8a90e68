/* fanout_view: a snapshot as one worker uses it: beside each subscription what this worker knows of it, found once. Every job pins the
 * view it began with, so that it sees one generation from beginning to end; the last one gives the snapshot back. Internal to
 * fanout/; one thread. */
#pragma once

#include "base/list.h"
#include "fanout/fanout_endpoint.h"
#include "fanout/fanout_lane.h"
#include "fanout/fanout_snapshot.h"

struct fanout_plane;
struct sink_topic;

/* What a leg is sent to. */
enum fanout_role { FANOUT_ROLE_SUBSCRIBER, FANOUT_ROLE_REPLY, FANOUT_ROLE_DEAD_LETTER, FANOUT_ROLES };

/* Of one subscription; filled at its first use. */
struct fanout_slot {
    struct fanout_lane *lane;
    struct fanout_endpoint *endpoints[FANOUT_ROLES];
    struct sink_topic *topics[FANOUT_ROLES];
};

/* Of one channel. */
struct fanout_strand {
    struct fanout_slot *slots; /* as the channel's subscriptions */
    uint64_t owned_bytes;      /* of events that were answered and are not done */
};

struct fanout_view {
    struct list link; /* in the plane's views */
    struct fanout_plane *plane;
    struct fanout_snapshot *snapshot;
    uint32_t references;
    struct fanout_strand *strands; /* as the snapshot's channels */
    struct fanout_slot *slots;
};

/* The plane's view of this snapshot, with one more reference; made if there is none. Never NULL. */
struct fanout_view *fanout_view_take(struct fanout_plane *plane, struct fanout_snapshot *snapshot);

static inline struct fanout_view *fanout_view_ref(struct fanout_view *view)
{
    view->references++;
    return view;
}

/* Gives a reference back; the last one frees. NULL is a no-op. */
void fanout_view_unref(struct fanout_view *view);

static inline struct fanout_strand *fanout_view_strand(const struct fanout_view *view, const struct fanout_channel *channel)
{
    return &view->strands[channel - view->snapshot->channels];
}

/* The slot of a subscription, with its lane. */
struct fanout_slot *fanout_view_slot(struct fanout_view *view, const struct fanout_channel *channel,
                                     const struct fanout_subscription *subscription);

/* The slot's endpoint for a target. */
struct fanout_endpoint *fanout_view_endpoint(struct fanout_view *view, struct fanout_slot *slot, enum fanout_role role,
                                             const struct fanout_target *target);
