/* fanout_park_list: what is parked, as JSON for people. Any thread; blocks as reading the disk does. */
#pragma once

#include "base/buf.h"
#include "fanout/fanout_park_index.h"

/* Appends {"events":N,"max_bytes":N,"parked":[...]} with the oldest events, at most `max`. E_IO: the disk cannot be
 * read. E_NOMEM. */
MUST_USE err fanout_park_list_write(struct fanout_park_index *index, size_t max, struct buf *out);
