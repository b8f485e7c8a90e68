/* fanout_lane: one subscription as one worker knows it, through all generations of the configuration that have it: what is under way, who
 * waits for max_inflight, and how it went so far. Kept as long as a view of a snapshot names it. Internal to fanout/; one thread. */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "base/str.h"
#include "fanout/fanout_metrics.h"

enum { FANOUT_LANE_WAITING_MAX = 10 * 1000 }; /* deliveries that wait for their turn */

struct fanout_lane {
    uint32_t references;
    uint64_t idle_since_ms; /* when the last reference was given back */
    uint64_t hash;
    uint32_t n_running, n_waiting; /* deliveries; of them those that wait for max_inflight */
    uint32_t n_inflight;           /* attempts at the subscriber */
    struct list waiting;
    bool is_giving; /* turns to those that wait */
    uint64_t ended[FANOUT_OUTCOMES];
    uint64_t attempts, retries, filtered;
    /* The last attempt that failed. */
    uint8_t fault; /* enum fanout_fault */
    uint16_t status;
    uint64_t failed_at_ms; /* wall clock; 0: never */
    struct str channel, uid;
    char text[]; /* of both */
};

/* The lane of a subscription, with one more reference; made if there is none. Never NULL. */
struct fanout_lane *fanout_lane_take(struct map *lanes, struct str channel, struct str uid);

/* The same without a reference, to look at; NULL: there is none. */
const struct fanout_lane *fanout_lane_find(const struct map *lanes, struct str channel, struct str uid);

/* Gives the reference back; without one it is kept for a while, for the next generation. NULL is a no-op. */
void fanout_lane_give(struct fanout_lane *lane, uint64_t now_ms);

/* Frees those that nobody has referred to since `before_ms`. */
void fanout_lane_sweep(struct map *lanes, uint64_t before_ms);
