/* nearest: the valid word that somebody probably meant. Pure functions, any thread. */
#pragma once

#include "base/str.h"

/* One search: zero it, set `word`, offer every valid word, ask for the result. */
struct nearest {
    struct str word;
    struct str best; /* borrowed from whoever offered it */
    size_t distance;
};

/* Offers a valid word. Cost is the product of the lengths; words over 64 bytes are left out. */
void nearest_offer(struct nearest *n, struct str candidate);

/* The offered word with the fewest changes (a letter more, less, other or two swapped; a word cut short counts as one), the
 * first of equals; empty when it is not near enough to be worth naming. */
struct str nearest_result(const struct nearest *n);
