/* map: a hash table of pointers to entries that hold their own key, open addressing with linear probing and 32 bits of the
 * hash beside each pointer, so that a miss seldom touches an entry. The caller hashes (base/siphash.h) and compares.
 * All-zero is valid and empty. One thread. 16 bytes a slot, at most three quarters of the slots used. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

struct map_slot {
    void *entry;
    uint32_t hash;
};

struct map {
    struct map_slot *slots;
    uint32_t n_slots; /* a power of two, or 0 */
    uint32_t n_entries;
};

/* Whether `entry` has the key. */
typedef bool (*map_equal)(const void *entry, const void *key);

/* The entry with this key, or NULL. */
void *map_find(const struct map *m, uint64_t hash, const void *key, map_equal equal);

/* Adds an entry; the caller has made sure that its key is not there. The map borrows the entry until it is removed. */
void map_add(struct map *m, enum mem_sub sub, uint64_t hash, void *entry);

/* Takes out this very entry. False when it was not there. */
bool map_remove(struct map *m, uint64_t hash, const void *entry);

/* Walks all entries: start with `*cursor` 0; NULL at the end. The map must not change in between. */
void *map_next(const struct map *m, uint32_t *cursor);

/* Gives the slots back; the entries are the caller's. */
void map_free(struct map *m, enum mem_sub sub);
