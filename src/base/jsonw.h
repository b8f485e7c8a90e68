/* jsonw: writes JSON text to a buffer. What is between the values (braces, commas, names) is the caller's. Any thread. */
#pragma once

#include "base/buf.h"
#include "base/str.h"

/* Appends `text` in quotes, with escapes where JSON needs them; what is not UTF-8 becomes U+FFFD. E_NOMEM; part of it may then
 * have been written. */
MUST_USE err jsonw_string(struct buf *out, enum mem_sub sub, struct str text);
