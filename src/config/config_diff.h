/* config_diff: what differs between two configurations, option by option as the table (option.h) has them. Elements of a map
 * with free names are compared by name, those of a list by place. Pure functions, any thread. */
#pragma once

#include "config/config.h"

enum {
    CONFIG_DIFF_MAX_FIXED = 20, /* what a person reads before correcting the file */
    CONFIG_DIFF_PATH_BYTES = 160,
};

/* An option by its path, as in "tenants.demo.enabled". Its value, which may be a secret, is never told. */
struct config_change {
    char path[CONFIG_DIFF_PATH_BYTES];
    unsigned line; /* in the new file, of the option or of what it is part of; 0: it is not there */
};

/* All-zero: nothing differs. A whole element that came or went is one change. */
struct config_diff {
    size_t n_changes;
    struct config_change first;
    size_t n_fixed; /* those among them that need a restart; the first of them stand in `fixed` */
    struct config_change fixed[CONFIG_DIFF_MAX_FIXED];
};

/* Compares; `*out_diff` need not be initialised. */
void config_diff_make(const struct config *before, const struct config *after, struct config_diff *out_diff);
