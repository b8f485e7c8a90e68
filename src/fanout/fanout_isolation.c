#include "fanout/fanout_isolation.h"

void fanout_isolation_begin(struct fanout_isolation *isolation, size_t n_channels)
{
    if (!isolation)
        return;
    isolation->has_changed = false;
    if (isolation->candidates) /* the text is the same in each pass */
        return;
    isolation->candidates = arena_alloc(isolation->scratch, MEM_CONFIG, n_channels * sizeof *isolation->candidates);
    isolation->n_candidates = n_channels;
}

/* How it was before. */
static const struct fanout_channel *old_of(const struct fanout_isolation *isolation, struct str key)
{
    return isolation->before && key.n ? fanout_snapshot_find_key(isolation->before, key) : NULL;
}

enum fanout_fate fanout_isolation_fate(const struct fanout_isolation *isolation, size_t place,
                                       const struct fanout_channel **out_old)
{
    const struct fanout_candidate *candidate = isolation ? &isolation->candidates[place] : NULL;

    if (!candidate || candidate->fate != FANOUT_FATE_OLD)
        return candidate ? candidate->fate : FANOUT_FATE_NEW;
    *out_old = old_of(isolation, candidate->about.key);
    return FANOUT_FATE_OLD;
}

static struct str reason_of(const struct fanout_isolation *isolation, const struct config_errors *errors, size_t n_before)
{
    if (n_before < errors->count)
        return arena_copy(isolation->scratch, MEM_CONFIG, str_from(errors->items[n_before].text));
    return STR("there are more errors in the text than are told");
}

bool fanout_isolation_judge(struct fanout_isolation *isolation, const struct config_errors *errors, size_t n_before,
                            size_t place, struct str key, unsigned line)
{
    size_t n = fanout_isolation_count(errors);
    struct fanout_candidate *candidate;

    if (!isolation || n == n_before)
        return false;
    candidate = &isolation->candidates[place];
    isolation->n_told += n - n_before;
    isolation->has_changed = true;
    if (candidate->fate == FANOUT_FATE_NEW)
        candidate->about = (struct fanout_isolated){
            .key = arena_copy(isolation->scratch, MEM_CONFIG, key),
            .line = n_before < errors->count && errors->items[n_before].line ? errors->items[n_before].line : line,
            .why = reason_of(isolation, errors, n_before),
        };
    candidate->fate =
        candidate->fate == FANOUT_FATE_NEW && old_of(isolation, candidate->about.key) ? FANOUT_FATE_OLD : FANOUT_FATE_OUT;
    return true;
}

bool fanout_isolation_is_vain(const struct fanout_isolation *isolation, const struct config_errors *errors)
{
    return fanout_isolation_count(errors) != isolation->n_told;
}

void fanout_isolation_list(const struct fanout_isolation *isolation, struct arena *arena, struct fanout_snapshot *snapshot)
{
    size_t n = 0;

    for (size_t i = 0; i < isolation->n_candidates; i++)
        n += isolation->candidates[i].fate != FANOUT_FATE_NEW;
    if (n == 0)
        return;
    snapshot->isolated = arena_alloc(arena, MEM_CONFIG, n * sizeof *snapshot->isolated);
    for (size_t i = 0; i < isolation->n_candidates; i++) {
        const struct fanout_candidate *candidate = &isolation->candidates[i];
        struct fanout_isolated *to = &snapshot->isolated[snapshot->n_isolated];

        if (candidate->fate == FANOUT_FATE_NEW)
            continue;
        *to = (struct fanout_isolated){.key = arena_copy(arena, MEM_CONFIG, candidate->about.key),
                                       .line = candidate->about.line,
                                       .why = arena_copy(arena, MEM_CONFIG, candidate->about.why)};
        if (candidate->fate == FANOUT_FATE_OLD)
            to->kept = fanout_snapshot_find_key(snapshot, to->key);
        snapshot->n_isolated++;
    }
}
