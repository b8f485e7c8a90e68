/* fanout_isolation: channels whose definition is wrong, kept apart so that the others can go live. A text is read in passes: whoever is
 * found wrong in one is replaced in the next by what it was before, or left out when it was not there or clashes with what is new; until
 * nobody is wrong. Part of reading a configuration (fanout_config.h); any thread. */
#pragma once

#include "fanout/fanout_field.h"

enum fanout_fate {
    FANOUT_FATE_NEW, /* as the text has it */
    FANOUT_FATE_OLD, /* as it was before */
    FANOUT_FATE_OUT,
};

/* One channel of the text. */
struct fanout_candidate {
    enum fanout_fate fate;
    struct fanout_isolated about; /* once it was found wrong */
};

/* All-zero but for `before` and `scratch` is how it begins. */
struct fanout_isolation {
    struct fanout_snapshot *before; /* NULL: there was nothing */
    struct arena *scratch;          /* longer-lived than a pass */
    struct fanout_candidate *candidates;
    size_t n_candidates;
    size_t n_told;    /* errors that are those of channels */
    bool has_changed; /* somebody was found wrong in this pass: there must be another one */
};

/* A pass begins, over a text with this many channels. NULL is a no-op, here and below: nothing is isolated. */
void fanout_isolation_begin(struct fanout_isolation *isolation, size_t n_channels);

/* What is to be made of the channel at this place of the text. FANOUT_FATE_OLD: and its definition, to be copied, is in `*out_old`. */
enum fanout_fate fanout_isolation_fate(const struct fanout_isolation *isolation, size_t place,
                                       const struct fanout_channel **out_old);

/* The channel at this place was read, or looked at with regard to the others, when there were `n_before` errors. When there are more now it
 * is wrong: true. `key` is empty when it has no name to go by. */
bool fanout_isolation_judge(struct fanout_isolation *isolation, const struct config_errors *errors, size_t n_before,
                            size_t place, struct str key, unsigned line);

/* After a pass: whether something is wrong that is no channel's. */
bool fanout_isolation_is_vain(const struct fanout_isolation *isolation, const struct config_errors *errors);

/* After the last pass: lists in the snapshot who is isolated. */
void fanout_isolation_list(const struct fanout_isolation *isolation, struct arena *arena, struct fanout_snapshot *snapshot);

static inline size_t fanout_isolation_count(const struct config_errors *errors)
{
    return errors->count + errors->omitted;
}
