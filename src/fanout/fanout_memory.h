/* fanout_memory: which subscriptions have had an event, by its source and id, so that an event that is sent again because some failed goes to
 * those alone (redeliver: failed-only); and which events came at all, so that what goes round in circles is noticed (repeats). Remembered on the event's home worker for the channel's `remember_ms`, in this process only, and within a
 * bound: of more the oldest are forgotten, and then an event goes to all again. Internal to fanout/; one thread. */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "fanout/fanout_snapshot.h"
#include "proto/cloudevents/cloudevent.h"

enum { FANOUT_MEMORY_MAX_BYTES = 16 << 20 }; /* of one worker */

/* All-zero but for its list, by fanout_memory_init(), is empty. */
struct fanout_memory {
    struct map entries;
    struct list oldest; /* the first is */
    uint64_t used_bytes;
};

/* What is remembered of one event. */
struct fanout_memory_entry;

void fanout_memory_init(struct fanout_memory *memory);
void fanout_memory_fini(struct fanout_memory *memory);

/* The entry of an event, or NULL. Good until the memory changes. */
const struct fanout_memory_entry *fanout_memory_find(const struct fanout_memory *memory, const struct fanout_channel *channel,
                                                     const struct cloudevent *event, uint64_t now_ms);

/* Whether this subscription has had it; NULL: whether it was taken, as far as fanout_memory_note() was told. False for no entry. */
bool fanout_memory_has(const struct fanout_memory_entry *entry, const struct fanout_subscription *subscription);

/* Remembers that the event came, for the channel's `remember_ms` and at least as long as it may be under way. Without memory it does not. */
void fanout_memory_begin(struct fanout_memory *memory, const struct fanout_channel *channel, const struct cloudevent *event,
                         uint64_t now_ms);

/* Forgets the event: it failed, and may come again. */
void fanout_memory_drop(struct fanout_memory *memory, const struct fanout_channel *channel, const struct cloudevent *event);

/* Remembers that a subscription has had the event, or with NULL that it was taken. Without memory it does not. */
void fanout_memory_note(struct fanout_memory *memory, const struct fanout_channel *channel, const struct cloudevent *event,
                        const struct fanout_subscription *subscription, uint64_t now_ms);
