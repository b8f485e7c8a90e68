#include "fanout/fanout_lane.h"

#include <string.h>

#include "base/check.h"
#include "base/siphash.h"

struct key {
    struct str channel, uid;
};

static bool is_of(const void *entry, const void *key)
{
    const struct fanout_lane *lane = entry;
    const struct key *wanted = key;

    return str_equal(lane->uid, wanted->uid) && str_equal(lane->channel, wanted->channel);
}

struct fanout_lane *fanout_lane_take(struct map *lanes, struct str channel, struct str uid)
{
    const struct key key = {channel, uid};
    uint64_t hash = siphash_pair(channel, uid);
    struct fanout_lane *lane = map_find(lanes, hash, &key, is_of);

    if (!lane) {
        lane = mem_alloc_zero(MEM_FANOUT, sizeof *lane + channel.n + uid.n);
        lane->hash = hash;
        list_init(&lane->waiting);
        memcpy(lane->text, channel.p, channel.n);
        memcpy(lane->text + channel.n, uid.p, uid.n);
        lane->channel = (struct str){lane->text, channel.n};
        lane->uid = (struct str){lane->text + channel.n, uid.n};
        map_add(lanes, MEM_FANOUT, hash, lane);
    }
    lane->references++;
    return lane;
}

const struct fanout_lane *fanout_lane_find(const struct map *lanes, struct str channel, struct str uid)
{
    return map_find(lanes, siphash_pair(channel, uid), &(const struct key){channel, uid}, is_of);
}

void fanout_lane_give(struct fanout_lane *lane, uint64_t now_ms)
{
    if (!lane || --lane->references > 0)
        return;
    ASSERT(list_is_empty(&lane->waiting) && lane->n_running == 0);
    lane->idle_since_ms = now_ms;
}

/* The map must not change while it is walked. */
static size_t collect(struct map *lanes, uint64_t before_ms, struct fanout_lane **to, size_t size)
{
    uint32_t cursor = 0;
    struct fanout_lane *lane;
    size_t n = 0;

    while (n < size && (lane = map_next(lanes, &cursor)))
        if (lane->references == 0 && lane->idle_since_ms < before_ms)
            to[n++] = lane;
    return n;
}

void fanout_lane_sweep(struct map *lanes, uint64_t before_ms)
{
    struct fanout_lane *found[64];
    size_t n;

    while ((n = collect(lanes, before_ms, found, ARRAY_LEN(found))))
        for (size_t i = 0; i < n; i++) {
            ASSERT(map_remove(lanes, found[i]->hash, found[i]));
            mem_free(MEM_FANOUT, found[i]);
        }
}
