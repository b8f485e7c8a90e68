/* table_log_disk: what a local log (table_log_local.h) has on the disk: the states by their offsets, of each key only the
 * last. The table's thread, but for opening and closing. */
#pragma once

#include "base/err.h"
#include "core/table_log.h"
#include "store/store.h"

enum { TABLE_LOG_DISK_STATES = 1000 /* read at once */ };

struct table_log_disk_partition {
    unsigned number;
    uint64_t next_offset;   /* of the next state */
    uint64_t pruned_offset; /* a reader that has less than this may have missed removals */
};

struct table_log_disk {
    struct store *store;
    struct store_db states, keys, removals, meta; /* offset -> state, key -> offset, offset of a removal -> nothing */
    uint8_t identity[TABLE_LOG_IDENTITY_BYTES];
    unsigned n_partitions;
    struct table_log_disk_partition *partitions;
};

/* Opens the log of a table, made when it is missing. E_INVAL: there is one with another number of partitions, or of a later
 * version; else as store.h. To be closed after a failure as well. */
MUST_USE err table_log_disk_open(struct table_log_disk *d, struct store *store, const char *name, unsigned n_partitions,
                                 struct errinfo *ei);
void table_log_disk_close(struct table_log_disk *d);

/* Adds the states of a batch, all or nothing, at the end of a partition. Old removals before `read_offset`, which every
 * reader has, may be forgotten. Errors of store_commit(); E_NOMEM. */
MUST_USE err table_log_disk_add(struct table_log_disk *d, unsigned partition, const struct table_log_batch *batch,
                                uint64_t read_offset, struct errinfo *ei);

/* Some states of a partition from an offset on; with them all before `next_offset` has been read. They are good until
 * table_log_disk_end_read(). */
struct table_log_disk_reader {
    struct store_txn txn;
    struct table_log_state *states;
    size_t n;
    uint64_t next_offset;
};
MUST_USE err table_log_disk_read(struct table_log_disk *d, unsigned partition, uint64_t offset,
                                 struct table_log_disk_reader *r);
void table_log_disk_end_read(struct table_log_disk_reader *r);
