/* fanout_park_index: parked events on the disk: each under its number, with the time at which it is tried again and how often it was. It
 * knows neither threads nor clocks; blocks on the disk. */
#pragma once

#include "base/str.h"
#include "store/store.h"

/* One open park. Counts are of what is committed; they belong to the thread that changes it. */
struct fanout_park_index {
    struct store *store;
    struct store_db events; /* number -> record */
    struct store_db states; /* number -> due, attempts, lane */
    struct store_db due;    /* lane, due, number -> nothing */
    uint64_t next_number;
    uint64_t n, bytes; /* events, and their records' sizes */
    uint64_t max_bytes;
};

struct fanout_park_state {
    uint64_t due_ms; /* wall clock */
    uint32_t attempts;
    uint64_t lane; /* the same for all events of one subscription */
};

/* Changes that happen together. */
struct fanout_park_change {
    struct fanout_park_index *index;
    struct store_txn txn;
    uint64_t n, bytes, next_number; /* as they will be */
};

/* Opens the folder, which belongs to one process. E_BUSY, E_PROTO, E_IO: as store_open(), the reason is in `ei`. */
MUST_USE err fanout_park_index_open(struct fanout_park_index *index, const char *path, uint64_t max_bytes, struct errinfo *ei);

/* All-zero is a no-op. */
void fanout_park_index_close(struct fanout_park_index *index);

/* Begins to change. E_IO. */
MUST_USE err fanout_park_index_begin(struct fanout_park_index *index, struct fanout_park_change *change);

/* Adds an event. E_LIMIT: it would be more than max_bytes in all; the change can go on. Other errors come again with the commit. */
MUST_USE err fanout_park_index_add(struct fanout_park_change *change, struct str record, uint64_t lane, uint64_t due_ms);

/* Removes one; not there is well. */
MUST_USE err fanout_park_index_remove(struct fanout_park_change *change, uint64_t number);

/* One more attempt was made in vain: the next one is due then. Not there is well. */
MUST_USE err fanout_park_index_postpone(struct fanout_park_change *change, uint64_t number, uint64_t due_ms);

/* The next attempt is due then, as if there had been no more. Not there is well. */
MUST_USE err fanout_park_index_hasten(struct fanout_park_change *change, uint64_t number, uint64_t due_ms);

/* Ends: all of it is on the disk, or nothing happened (E_LIMIT: the file is full; E_IO, E_PROTO; `ei` may be NULL). */
MUST_USE err fanout_park_index_commit(struct fanout_park_change *change, struct errinfo *ei);

/* The events of each lane in the order in which they are due, lane after lane, or all by number, for a reader (store_reader_open()). The
 * views are good until the reader is renewed, rests or is closed. */
struct fanout_park_walk {
    struct fanout_park_index *index;
    struct store_txn *reader;
    struct store_cursor cursor;
    bool is_by_lane, is_begun;
    uint64_t number;
    struct fanout_park_state state;
};

MUST_USE err fanout_park_index_walk(struct fanout_park_index *index, struct store_txn *reader, bool is_by_lane,
                                    struct fanout_park_walk *walk);

/* The next one: its number and state. E_NOTFOUND: there is none. */
MUST_USE err fanout_park_index_next(struct fanout_park_walk *walk);

/* By lane: the first one of this lane, or else of the next lane that has any. E_NOTFOUND: none has. */
MUST_USE err fanout_park_index_seek(struct fanout_park_walk *walk, uint64_t lane);

/* By number: this one. E_NOTFOUND: it is not there. */
MUST_USE err fanout_park_index_find(struct fanout_park_walk *walk, uint64_t number);

/* The record of the one the walk is at. */
MUST_USE err fanout_park_index_read(struct fanout_park_walk *walk, struct str *out_record);

void fanout_park_index_end(struct fanout_park_walk *walk);
