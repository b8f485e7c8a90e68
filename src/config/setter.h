/* setter: writes one value, given as text, to where its option is kept. Pure functions, any thread. */
#pragma once

#include "config/option.h"

/* Why a value was refused, for a person. Never holds the value, which may be a secret. */
struct setter_reason {
    char text[160];
};

/* Parses `text` as the type of `o` asks, checks it and writes it at `to`; texts are borrowed, not copied. False, and nothing
 * written, with the reason in `why`. Not for sections, lists, maps and properties. */
MUST_USE bool setter_write(const struct option *o, struct str text, void *to, struct setter_reason *why);

/* Writes the default of `o`. Texts without one become empty, not NULL; what is no single value is left alone. */
void setter_write_default(const struct option *o, void *to);

/* The index of `text` among the choices of `o`; false, with the nearest or all of them in `why`, when it is none. */
MUST_USE bool setter_find_choice(const struct option *o, struct str text, int *out_value, struct setter_reason *why);
