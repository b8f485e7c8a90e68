/* routes_done: which offsets of a partition are done: everything before a watermark, and ranges above it. All-zero: none. One owner,
 * one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* One more is dropped: what is done counts as undone then, which costs a repetition and loses nothing. Far above what a reader has out
 * at a time. */
enum { ROUTES_DONE_RANGES_MAX = 15000 };

struct routes_range {
    uint64_t from, to; /* not including `to` */
};

struct routes_done {
    uint64_t watermark;
    struct routes_range *ranges; /* in order; none touches the one before, or the watermark */
    size_t n, room;
};

bool routes_done_has(const struct routes_done *done, uint64_t offset);

/* Adds [from, to); empty ones are nothing. False: there are too many ranges, this one was dropped. */
bool routes_done_add(struct routes_done *done, uint64_t from, uint64_t to);

/* Everything before `offset` is done. */
void routes_done_pass(struct routes_done *done, uint64_t offset);

/* Appends the bytes (docs/wire/routes.md), or reads all of `bytes` into an empty set. E_INVAL: they are not those of a set, which stays
 * empty. */
void routes_done_write(const struct routes_done *done, struct buf *out);
MUST_USE err routes_done_read(struct str bytes, struct routes_done *out_done);

void routes_done_free(struct routes_done *done);
