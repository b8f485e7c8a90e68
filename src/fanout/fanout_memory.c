#include "fanout/fanout_memory.h"

#include "base/check.h"
#include "base/siphash.h"
#include "fanout/fanout_metrics.h"

/* OVERHEAD_BYTES: of an entry in allocator and map. */
enum { FIRST_UIDS = 4, OVERHEAD_BYTES = 48 };
static const uint64_t TAKEN = 0; /* among the uids: the event as a whole */

struct fanout_memory_entry {
    struct list link;
    uint64_t hash, expires_ms;
    uint64_t *uids; /* hashes, which no sender can aim at */
    uint32_t n_uids, max_uids;
    uint32_t n_channel, n_source, n_id;
    char text[]; /* all three */
};

struct key {
    struct str channel, source, id;
};

static bool is_of(const void *found, const void *key)
{
    const struct fanout_memory_entry *entry = found;
    const struct key *wanted = key;
    const char *source = entry->text + entry->n_channel, *id = source + entry->n_source;

    return str_equal((struct str){id, entry->n_id}, wanted->id) &&
           str_equal((struct str){source, entry->n_source}, wanted->source) &&
           str_equal((struct str){entry->text, entry->n_channel}, wanted->channel);
}

static struct key key_of(const struct fanout_channel *channel, const struct cloudevent *event)
{
    return (struct key){channel->key, event->source, event->id};
}

static uint64_t size_of(const struct fanout_memory_entry *entry)
{
    return sizeof *entry + OVERHEAD_BYTES + entry->n_channel + entry->n_source + entry->n_id +
           entry->max_uids * sizeof *entry->uids;
}

void fanout_memory_init(struct fanout_memory *memory)
{
    *memory = (struct fanout_memory){0};
    list_init(&memory->oldest);
}

static void forget(struct fanout_memory *memory, struct fanout_memory_entry *entry)
{
    memory->used_bytes -= size_of(entry);
    ASSERT(map_remove(&memory->entries, entry->hash, entry));
    list_remove(&entry->link);
    mem_free(MEM_FANOUT, entry->uids);
    mem_free(MEM_FANOUT, entry);
}

void fanout_memory_fini(struct fanout_memory *memory)
{
    while (!list_is_empty(&memory->oldest))
        forget(memory, CONTAINER_OF(memory->oldest.next, struct fanout_memory_entry, link));
    map_free(&memory->entries, MEM_FANOUT);
}

/* What is over, and then what there is no room for. */
static void tidy(struct fanout_memory *memory, uint64_t now_ms)
{
    while (!list_is_empty(&memory->oldest)) {
        struct fanout_memory_entry *entry = CONTAINER_OF(memory->oldest.next, struct fanout_memory_entry, link);
        bool is_over = entry->expires_ms <= now_ms;

        if (!is_over && memory->used_bytes <= FANOUT_MEMORY_MAX_BYTES)
            return;
        if (!is_over)
            fanout_metrics_add(FANOUT_EVENTS_FORGOTTEN, 1);
        forget(memory, entry);
    }
}

static struct fanout_memory_entry *entry_new(struct fanout_memory *memory, const struct key *key, uint64_t hash)
{
    struct fanout_memory_entry *entry = mem_try_alloc(MEM_FANOUT, sizeof *entry + key->channel.n + key->source.n + key->id.n);

    if (!entry)
        return NULL;
    *entry = (struct fanout_memory_entry){
        .hash = hash,
        .n_channel = (uint32_t)key->channel.n,
        .n_source = (uint32_t)key->source.n,
        .n_id = (uint32_t)key->id.n,
    };
    memcpy(entry->text, key->channel.p, key->channel.n);
    memcpy(entry->text + key->channel.n, key->source.p, key->source.n);
    memcpy(entry->text + key->channel.n + key->source.n, key->id.p, key->id.n);
    map_add(&memory->entries, MEM_FANOUT, hash, entry);
    list_push(&memory->oldest, &entry->link);
    memory->used_bytes += size_of(entry);
    return entry;
}

static uint64_t hash_of(const struct key *key)
{
    return siphash_pair(key->source, key->id) ^ (siphash(key->channel) << 1);
}

const struct fanout_memory_entry *fanout_memory_find(const struct fanout_memory *memory, const struct fanout_channel *channel,
                                                     const struct cloudevent *event, uint64_t now_ms)
{
    const struct key key = key_of(channel, event);
    const struct fanout_memory_entry *entry = map_find(&memory->entries, hash_of(&key), &key, is_of);

    return entry && entry->expires_ms > now_ms ? entry : NULL;
}

static uint64_t uid_of(const struct fanout_subscription *subscription)
{
    return subscription ? siphash(subscription->uid) : TAKEN;
}

bool fanout_memory_has(const struct fanout_memory_entry *entry, const struct fanout_subscription *subscription)
{
    uint64_t uid = entry ? uid_of(subscription) : 0;

    for (uint32_t i = 0; entry && i < entry->n_uids; i++)
        if (entry->uids[i] == uid)
            return true;
    return false;
}

/* Room for one more. */
static bool grow(struct fanout_memory *memory, struct fanout_memory_entry *entry)
{
    uint32_t max = entry->max_uids ? 2 * entry->max_uids : FIRST_UIDS;
    uint64_t *grown;

    if (entry->n_uids < entry->max_uids)
        return true;
    grown = mem_try_realloc(MEM_FANOUT, entry->uids, max * sizeof *grown);
    if (!grown)
        return false;
    memory->used_bytes += (max - entry->max_uids) * sizeof *grown;
    entry->uids = grown;
    entry->max_uids = max;
    return true;
}

/* The event's entry, made if need be, as the youngest one; NULL without memory. */
static struct fanout_memory_entry *renew(struct fanout_memory *memory, const struct fanout_channel *channel,
                                         const struct cloudevent *event, uint64_t expires_ms)
{
    const struct key key = key_of(channel, event);
    uint64_t hash = hash_of(&key);
    struct fanout_memory_entry *entry = map_find(&memory->entries, hash, &key, is_of);

    if (!entry)
        entry = entry_new(memory, &key, hash);
    if (!entry)
        return NULL;
    entry->expires_ms = expires_ms;
    list_remove(&entry->link);
    list_push(&memory->oldest, &entry->link);
    return entry;
}

void fanout_memory_begin(struct fanout_memory *memory, const struct fanout_channel *channel, const struct cloudevent *event,
                         uint64_t now_ms)
{
    uint32_t ms = channel->remember_ms > channel->timeout_ms ? channel->remember_ms : channel->timeout_ms;

    if (renew(memory, channel, event, now_ms + ms))
        tidy(memory, now_ms);
}

void fanout_memory_drop(struct fanout_memory *memory, const struct fanout_channel *channel, const struct cloudevent *event)
{
    const struct key key = key_of(channel, event);
    struct fanout_memory_entry *entry = map_find(&memory->entries, hash_of(&key), &key, is_of);

    if (entry)
        forget(memory, entry);
}

void fanout_memory_note(struct fanout_memory *memory, const struct fanout_channel *channel, const struct cloudevent *event,
                        const struct fanout_subscription *subscription, uint64_t now_ms)
{
    struct fanout_memory_entry *entry = renew(memory, channel, event, now_ms + channel->remember_ms);

    if (!entry)
        return;
    if (!fanout_memory_has(entry, subscription) && grow(memory, entry))
        entry->uids[entry->n_uids++] = uid_of(subscription);
    tidy(memory, now_ms);
}
