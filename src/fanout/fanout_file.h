/* fanout_file: small files, read as a whole and replaced as a whole. Blocks on the disk; any thread that may. */
#pragma once

#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* Appends the content of an ordinary file, at most CONFIG_MAX_TEXT_BYTES, to `out_text` (of MEM_CONFIG). E_NOTFOUND: there is no
 * such file. E_LIMIT: it is larger. E_IO. The reason, without the path, is in `ei`. */
MUST_USE err fanout_file_read(const char *path, struct buf *out_text, struct errinfo *ei);

/* Puts `head` and `text` in place of what is at `path`, or there is nothing: whoever reads sees the old content or the new one,
 * whole, and after E_OK the new one survives a loss of power. E_IO: the old content is still there; the reason is in `ei`. */
MUST_USE err fanout_file_replace(const char *path, struct str head, struct str text, mode_t mode, struct errinfo *ei);
