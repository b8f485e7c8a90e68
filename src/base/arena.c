#include "base/arena.h"

#include <stdalign.h>
#include <string.h>

#include "base/check.h"

enum { FIRST_BLOCK_BYTES = 1024, MAX_BLOCK_BYTES = 1 << 20, KEPT_BLOCK_BYTES = 4 * FIRST_BLOCK_BYTES };

struct arena_block {
    struct arena_block *next;
    size_t size, used;
    alignas(max_align_t) char bytes[];
};

/* Blocks double, so that a small arena stays small and a large one has few blocks. */
static struct arena_block *block_new(enum mem_sub sub, const struct arena_block *last, size_t need)
{
    size_t size = last ? last->size * 2 : FIRST_BLOCK_BYTES;
    struct arena_block *block;

    if (size > MAX_BLOCK_BYTES)
        size = MAX_BLOCK_BYTES;
    if (size < need)
        size = need;
    block = mem_alloc_zero(sub, sizeof *block + size);
    block->size = size;
    return block;
}

void *arena_alloc(struct arena *a, enum mem_sub sub, size_t n)
{
    size_t step = ((n ? n : 1) + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    struct arena_block *block = a->blocks;
    void *p;

    ASSERT(step >= n);
    if (!block || block->size - block->used < step) {
        block = block_new(sub, block, step);
        block->next = a->blocks;
        a->blocks = block;
    }
    p = block->bytes + block->used;
    block->used += step;
    a->used_bytes += step;
    return p;
}

struct str arena_copy(struct arena *a, enum mem_sub sub, struct str s)
{
    char *p = arena_alloc(a, sub, s.n + 1);

    if (s.n)
        memcpy(p, s.p, s.n);
    return (struct str){p, s.n};
}

static void release(struct arena *a, enum mem_sub sub, bool wipes)
{
    struct arena_block *block = a->blocks;

    while (block) {
        struct arena_block *next = block->next;

        if (wipes)
            explicit_bzero(block->bytes, block->used);
        mem_free(sub, block);
        block = next;
    }
    *a = (struct arena){0};
}

void arena_free(struct arena *a, enum mem_sub sub)
{
    release(a, sub, false);
}

void arena_wipe(struct arena *a, enum mem_sub sub)
{
    release(a, sub, true);
}

void arena_reset(struct arena *a, enum mem_sub sub)
{
    struct arena_block *kept = a->blocks;

    if (!kept || kept->size > KEPT_BLOCK_BYTES) {
        arena_free(a, sub);
        return;
    }
    a->blocks = kept->next;
    arena_free(a, sub);
    memset(kept->bytes, 0, kept->used);
    kept->used = 0;
    kept->next = NULL;
    a->blocks = kept;
}
