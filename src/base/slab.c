#include "base/slab.h"

#include <string.h>

#include "base/check.h"

/* Small objects share a page or two, so that 15,000 idle connections waste little and a test with one wastes 16 KiB. */
enum { CHUNK_BYTES = 16 * 1024, OBJECTS_MIN = 8 };

struct slab_chunk {
    struct slab_chunk *next;
    _Alignas(16) char bytes[];
};

static void add_chunk(struct slab *s)
{
    size_t size = (s->object_bytes + 7) & ~(size_t)7;
    struct slab_chunk *chunk;
    size_t n;

    ASSERT(s->object_bytes >= sizeof(void *)); /* the list of free objects goes through them */
    n = (CHUNK_BYTES - sizeof *chunk) / size;
    if (n < OBJECTS_MIN)
        n = OBJECTS_MIN;
    s->object_bytes = size;
    chunk = mem_alloc(s->sub, sizeof *chunk + n * size);
    chunk->next = s->chunks;
    s->chunks = chunk;
    s->fresh = chunk->bytes;
    s->fresh_end = chunk->bytes + n * size;
}

void *slab_new_raw(struct slab *s)
{
    void *object = s->free_objects;

    s->in_use++;
    if (object) {
        memcpy(&s->free_objects, object, sizeof(void *));
        return object;
    }
    if (s->fresh == s->fresh_end)
        add_chunk(s);
    object = s->fresh;
    s->fresh += s->object_bytes;
    return object;
}

void *slab_new(struct slab *s)
{
    return memset(slab_new_raw(s), 0, s->object_bytes);
}

void slab_free(struct slab *s, void *object)
{
    if (!object)
        return;
    memcpy(object, &s->free_objects, sizeof(void *));
    s->free_objects = object;
    s->in_use--;
}

void slab_fini(struct slab *s)
{
    while (s->chunks) {
        struct slab_chunk *chunk = s->chunks;

        s->chunks = chunk->next;
        mem_free(s->sub, chunk);
    }
    s->free_objects = NULL;
    s->fresh = s->fresh_end = NULL;
    s->in_use = 0;
}
