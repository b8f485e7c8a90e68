/* kafka_consumer_window: which records of a partition are out and not settled, from where it goes on after a restart, and how
 * that is written down with a commit. Pure data, one thread; no librdkafka.
 *
 * The commit point is the first offset that is not done. What is done behind it goes into the commit's metadata, as the lengths
 * of runs: so many offsets not done, so many done, and so on, from the commit point on. What does not fit is left out: those
 * records come again, none is lost. Everything behind the last run is not done.
 *
 * Metadata is text: "1:" (the version) and the lengths in base 32, five bits to a character, the lowest first, with 32 added
 * to every character but the last of a number; the characters are those of base 64 (RFC 4648). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/source.h"

enum { KAFKA_WINDOW_METADATA_BYTES = 4000 /* a cluster takes 4096 by default (offset.metadata.max.bytes) */ };

struct kafka_window {
    struct list unsettled; /* of source_record.link, by offset */
    uint32_t n_unsettled;
    uint64_t unsettled_bytes;
    int64_t next_offset; /* what is below it was handed out, or is no record */
    int64_t *undone;     /* of an earlier run: below done_end only these were not settled */
    size_t n_undone, next_undone;
    int64_t done_end; /* 0: nothing is known of an earlier run */
};

/* Begins at a commit point with its metadata; metadata that is not ours counts as none. Takes a window that is all-zero or was
 * emptied. */
void kafka_window_start(struct kafka_window *w, int64_t offset, struct str metadata);

/* Whether a record that came with this offset is to be handed out: not if it was before, or was settled in an earlier run. */
bool kafka_window_wants(struct kafka_window *w, int64_t offset);

/* The record is handed out. Offsets rise. */
void kafka_window_add(struct kafka_window *w, struct source_record *record);

/* It is settled. */
void kafka_window_settle(struct kafka_window *w, struct source_record *record);

/* The first offset not done. */
int64_t kafka_window_commit_point(const struct kafka_window *w);

/* Writes the metadata into `out` of `size` bytes and returns its length; 0: there is nothing to say, or no room. */
size_t kafka_window_format(const struct kafka_window *w, char *out, size_t size);

/* Forgets everything; what is out is marked as stale, no longer counts, and stands in `stale` until it is settled. */
void kafka_window_clear(struct kafka_window *w, struct list *stale);
