/* credentials_compare: whether an import brings anything that a device does not have. Pure functions, any thread. */
#pragma once

#include "registry/document.h"

/* Whether two normalised sets of credentials say the same: the accounts in any order, the secrets of each in theirs, whatever the ids of
 * secrets. Passwords that are not hashed yet equal no hash. NULL is a set without accounts. */
bool credentials_compare_equal(const json_t *a, const json_t *b);
