#include "base/map.h"

enum { FIRST_SLOTS = 8 };

/* Only this half is kept beside the pointer, so it picks the slot as well: growing needs no look at the entries. */
static uint32_t stored(uint64_t hash)
{
    return (uint32_t)(hash >> 32);
}

/* The slot an entry would like best. */
static uint32_t wanted(const struct map *m, uint32_t hash)
{
    return hash & (m->n_slots - 1);
}

static void put(struct map *m, uint32_t hash, void *entry)
{
    uint32_t i = wanted(m, hash);

    while (m->slots[i].entry)
        i = (i + 1) & (m->n_slots - 1);
    m->slots[i] = (struct map_slot){entry, hash};
}

static void resize(struct map *m, enum mem_sub sub, uint32_t n_slots)
{
    struct map old = *m;

    m->slots = mem_alloc_zero(sub, n_slots * sizeof *m->slots);
    m->n_slots = n_slots;
    for (uint32_t i = 0; i < old.n_slots; i++)
        if (old.slots[i].entry)
            put(m, old.slots[i].hash, old.slots[i].entry);
    mem_free(sub, old.slots);
}

void *map_find(const struct map *m, uint64_t hash, const void *key, map_equal equal)
{
    uint32_t h = stored(hash);

    if (m->n_entries == 0)
        return NULL;
    for (uint32_t i = wanted(m, h); m->slots[i].entry; i = (i + 1) & (m->n_slots - 1))
        if (m->slots[i].hash == h && equal(m->slots[i].entry, key))
            return m->slots[i].entry;
    return NULL;
}

void map_add(struct map *m, enum mem_sub sub, uint64_t hash, void *entry)
{
    if (m->n_slots == 0 || m->n_entries + 1 > m->n_slots / 4 * 3)
        resize(m, sub, m->n_slots ? m->n_slots * 2 : FIRST_SLOTS);
    put(m, stored(hash), entry);
    m->n_entries++;
}

/* Closes the gap at `hole`: pulls back every later entry of the run that may stand there. */
static void close_gap(struct map *m, uint32_t hole)
{
    uint32_t mask = m->n_slots - 1;

    for (uint32_t i = (hole + 1) & mask; m->slots[i].entry; i = (i + 1) & mask) {
        uint32_t from_home = (i - wanted(m, m->slots[i].hash)) & mask;

        if (from_home >= ((i - hole) & mask)) {
            m->slots[hole] = m->slots[i];
            hole = i;
        }
    }
    m->slots[hole] = (struct map_slot){0};
}

bool map_remove(struct map *m, uint64_t hash, const void *entry)
{
    uint32_t h = stored(hash);

    if (m->n_entries == 0)
        return false;
    for (uint32_t i = wanted(m, h); m->slots[i].entry; i = (i + 1) & (m->n_slots - 1)) {
        if (m->slots[i].entry != entry)
            continue;
        close_gap(m, i);
        m->n_entries--;
        return true;
    }
    return false;
}

void *map_next(const struct map *m, uint32_t *cursor)
{
    while (*cursor < m->n_slots) {
        void *entry = m->slots[(*cursor)++].entry;

        if (entry)
            return entry;
    }
    return NULL;
}

void map_free(struct map *m, enum mem_sub sub)
{
    mem_free(sub, m->slots);
    *m = (struct map){0};
}
