/* secret: values that are kept elsewhere: `file:PATH` and `env:NAME`. Main thread; reading a file may block. */
#pragma once

#include "base/arena.h"
#include "base/err.h"

enum { SECRET_MAX_BYTES = 64 << 10 };

/* Whether the value says where the secret is, instead of being it. */
bool secret_is_reference(struct str value);

/* Reads what `reference` names into `a`. A relative path counts from the folder of the file `beside`, which may be NULL.
 * One line end at the end of a file is not part of the secret. E_NOTFOUND: no such variable or file; E_IO: unreadable, not
 * an ordinary file; E_LIMIT: over SECRET_MAX_BYTES; E_INVAL: empty, or a NUL in it. The reason, without the secret, goes
 * to `ei`. */
MUST_USE err secret_read(struct arena *a, struct str reference, const char *beside, struct str *out_value, struct errinfo *ei);
