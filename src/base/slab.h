/* slab: objects of one size for one thread, without a header each. Memory grows by chunks and is given back at slab_fini()
 * only: a worker's peak is its size. All-zero but for `object_bytes` and `sub` is valid and empty. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

struct slab {
    size_t object_bytes; /* at least a pointer's size; rounded up to a multiple of 8 */
    enum mem_sub sub;
    void *free_objects;
    struct slab_chunk *chunks;
    char *fresh, *fresh_end; /* the part of the newest chunk that was never handed out */
    size_t in_use;
};

/* An object, zeroed. Never NULL. */
void *slab_new(struct slab *s) __attribute__((returns_nonnull));

/* As slab_new(), for the hot path: contents undefined. */
void *slab_new_raw(struct slab *s) __attribute__((returns_nonnull));

/* Gives one back; NULL is a no-op. */
void slab_free(struct slab *s, void *object);

/* Releases all chunks, whatever is still in use. */
void slab_fini(struct slab *s);
