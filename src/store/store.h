/* store: what lies on the local disk: keys and values in LMDB, one environment a data directory, several named databases in it.
 * Changes are transactions: all or nothing, and on the disk when store_commit() returns, whatever ends the process then.
 * Readers see the moment at which they began, without a lock and without a copy, on any thread.
 *
 * A directory belongs to one process at a time. Its file grows up to a bound and never shrinks; space of removed values is used
 * again once no reader is older. After an end that was not orderly the whole file is examined before LMDB maps it, so that a
 * truncated or foreign file is an error and not a crash.
 *
 * Threads: store_open(), store_close() and store_db_open() belong to one thread, before and after the others. Write
 * transactions exclude each other: the second store_begin() waits, so whoever writes does so on a thread that may wait. A
 * transaction belongs to its thread; a reader to one thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct store;

enum {
    STORE_KEY_MAX = 511,   /* bytes; a key has at least one */
    STORE_DATABASES = 256, /* in one directory */
    STORE_READERS = 512,   /* at a time */
};

enum store_durability {
    STORE_DURABLE, /* what was committed survives a power failure */
    /* For what can be made anew. The last commits may be undone by a power failure, in order, never by the end of the
     * process; and a damaged file is replaced by an empty one. Half the cost. */
    STORE_REBUILDABLE,
};

struct store_options {
    const char *path;   /* a directory; made if it is missing, with its parent there */
    uint64_t max_bytes; /* of its file; 0: STORE_DEFAULT_MAX_BYTES. Address space, not memory or disk, until it is needed */
    enum store_durability durability;
};

#define STORE_DEFAULT_MAX_BYTES (UINT64_C(16) << 30)

/* Opens a directory. With the reason in `ei`: E_BUSY: a process has it open (this one included); E_PROTO: the file in it is
 * damaged, or not LMDB's; E_IO: the system refuses. Blocks on the disk; after an end that was not orderly for as long as
 * reading the file takes. */
MUST_USE err store_open(const struct store_options *options, struct store **out_store, struct errinfo *ei);

/* What was wrong with the file that was replaced when the store was opened; NULL: it was in order. */
const char *store_damage(const struct store *s);

/* Ends orderly. No transaction, reader or cursor may be open. NULL is a no-op. */
void store_close(struct store *s);

/* Removes the file of a directory that nobody has open, so that the next store_open() begins with nothing: for what can be made
 * anew. E_BUSY, E_IO. */
MUST_USE err store_erase(const char *path, struct errinfo *ei);

/* Bytes of the file in use, and the bound. Any thread. */
uint64_t store_used_bytes(const struct store *s);
uint64_t store_max_bytes(const struct store *s);

/* A database by name, made if it is missing. */
struct store_db {
    unsigned id;
};
MUST_USE err store_db_open(struct store *s, const char *name, struct store_db *out_db, struct errinfo *ei);

/* A transaction, the caller's. All-zero is none. */
struct store_txn {
    struct store *store;
    void *lmdb;
    int failed; /* the first failure; nothing after it counts */
    bool is_reader, is_idle;
};

/* Begins to write. Waits for the writer before. E_IO. */
MUST_USE err store_begin(struct store *s, struct store_txn *txn);

/* Ends a write. What failed within it fails here again, and then nothing of it has happened: E_LIMIT: the file is full up to
 * its bound; E_PROTO: the file is damaged; E_IO. The text for people is in `ei` (may be NULL). */
MUST_USE err store_commit(struct store_txn *txn, struct errinfo *ei);

/* Undoes a write. None is a no-op. */
void store_abort(struct store_txn *txn);

/* Begins to read: what was committed by now. E_LIMIT: STORE_READERS are open; E_IO. */
MUST_USE err store_reader_open(struct store *s, struct store_txn *txn);

/* Goes on to the present. E_IO: the store is broken; nothing is found then. */
MUST_USE err store_reader_renew(struct store_txn *txn);

/* Lets go of the moment until it is renewed: an old reader keeps space from being used again. Nothing may be read in
 * between. */
void store_reader_rest(struct store_txn *txn);
void store_reader_close(struct store_txn *txn);

/* The value of a key, borrowed until the transaction ends or writes. E_NOTFOUND. */
MUST_USE err store_get(struct store_txn *txn, struct store_db db, struct str key, struct str *out_value);

/* Sets and removes. E_LIMIT: the key is too long, or the file full; E_NOTFOUND: nothing was there to be removed. */
MUST_USE err store_put(struct store_txn *txn, struct store_db db, struct str key, struct str value);
MUST_USE err store_remove(struct store_txn *txn, struct store_db db, struct str key);

/* Removes everything in a database. */
MUST_USE err store_clear(struct store_txn *txn, struct store_db db);

/* How many keys a database has. */
uint64_t store_count(struct store_txn *txn, struct store_db db);

/* Walks a database in the order of the keys' bytes. The views are good until the transaction ends or writes. All-zero is
 * closed. */
struct store_cursor {
    void *lmdb;
    struct store_txn *txn;
    struct str key, value;
};

MUST_USE err store_cursor_open(struct store_txn *txn, struct store_db db, struct store_cursor *c);
void store_cursor_close(struct store_cursor *c);

/* To the first key that is not before `key` (empty: the first of all), to the next, to the last. E_NOTFOUND: there is none. */
MUST_USE err store_cursor_seek(struct store_cursor *c, struct str key);
MUST_USE err store_cursor_next(struct store_cursor *c);
MUST_USE err store_cursor_last(struct store_cursor *c);

/* Removes what the cursor is at; store_cursor_next() then goes to the one behind it. */
MUST_USE err store_cursor_remove(struct store_cursor *c);
