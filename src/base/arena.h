/* arena: scratch and snapshot memory that is given back as a whole. All-zero is valid and empty. One owner; reading what lies
 * in it is safe from any thread once nobody allocates any more. */
#pragma once

#include <stddef.h>

#include "base/mem.h"
#include "base/str.h"

struct arena_block;

struct arena {
    struct arena_block *blocks; /* the newest first */
    size_t used_bytes;          /* handed out since the start or the last arena_free() */
};

/* Returns `n` zeroed bytes aligned for any type, never NULL (see mem_alloc()). For sizes we choose or have bounded.
 * Lives until arena_free(). Always give the same `sub`. */
void *arena_alloc(struct arena *a, enum mem_sub sub, size_t n) __attribute__((malloc, alloc_size(3), returns_nonnull));

/* Copies `s` and ends it with a NUL that is not counted. */
struct str arena_copy(struct arena *a, enum mem_sub sub, struct str s);

/* As arena_free(), but a small block stays for the next use: for arenas that are filled again and again. */
void arena_reset(struct arena *a, enum mem_sub sub);

/* Gives everything back and leaves an empty arena. arena_wipe() first overwrites it, for what held secrets. */
void arena_free(struct arena *a, enum mem_sub sub);
void arena_wipe(struct arena *a, enum mem_sub sub);
