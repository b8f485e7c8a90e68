/* table_view: what an instance has of a table: the states in two databases of a store, with how far each partition is.
 * Writing belongs to the table's thread; reading is for every thread, through a reader of the store. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "core/table_log.h"
#include "store/store.h"
#include "table/table.h"

struct table_view {
    struct store *store;
    struct store_db states, meta;
    unsigned n_partitions;
    struct table_log_position *positions;
};

/* Opens the databases of a table, empty when they are missing or of another form. E_*: see store.h. The main thread. */
MUST_USE err table_view_open(struct table_view *v, struct store *store, const char *name, unsigned n_partitions,
                             struct errinfo *ei);
void table_view_close(struct table_view *v);

/* What became of a state. */
enum table_view_result {
    TABLE_VIEW_APPLIED,
    TABLE_VIEW_SKIPPED, /* a later version's (kept), or no record at all (dropped) */
    TABLE_VIEW_MARK,    /* no state: how far the requests are (table_record.h) */
    TABLE_VIEW_RESULTS
};

/* Applies states of one partition, in their order, all or nothing, and notes how far it is. `results` has room for n. */
MUST_USE err table_view_apply(struct table_view *v, unsigned partition, const struct table_log_state *states, size_t n,
                              uint64_t next_offset, enum table_view_result *results, struct errinfo *ei);

/* Empties a partition, to begin anew at a position. A long one is emptied in several commits: whatever happens between them,
 * it is emptied again. */
MUST_USE err table_view_reset(struct table_view *v, unsigned partition, const struct table_log_position *begin,
                              struct errinfo *ei);

/* Writes the positions down, when all that has changed is the time at which they were the end. */
MUST_USE err table_view_note(struct table_view *v, struct errinfo *ei);

/* Whether a record of a later version stands there, which get and next pass over. */
bool table_view_is_foreign(struct store_txn *txn, const struct table_view *v, unsigned partition, struct str key);

/* See table.h: what there is under a key; and the first key behind `after` that begins with `prefix`. */
bool table_view_get(struct store_txn *txn, const struct table_view *v, unsigned partition, struct str key,
                    struct table_item *out_item);
bool table_view_next(struct store_txn *txn, const struct table_view *v, unsigned partition, struct str prefix, struct str after,
                     struct table_item *out_item);
