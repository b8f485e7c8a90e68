/* table: replicated key-value state that survives and is shared: the registry, routes, waiting commands, retained messages,
 * sessions.
 *
 * A table is a log of accepted states and, on every instance, a view of it: an LMDB database to which they are applied in
 * order, so that all instances hold the same. A change is a request. It goes to the one owner of its partition, which decides
 * requests in their order against everything decided before, and adds the states of the accepted ones to the log; a refused
 * request leaves no trace. What must be checked together shares a partition key (a tenant's devices and credentials). Behind
 * the log port (core/table_log.h) is Kafka, or a local log for an instance that stands alone. docs/wire/tables.md has the
 * formats.
 *
 * Threads: a table has one service thread of its own, on which its owner decides and its view is written; every other thread
 * reads the view directly (no lock, no copy) and writes by request. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "base/mail.h"
#include "base/str.h"
#include "loop/wheel.h"

struct mailbox;
struct store;
struct table;
struct table_log;
struct table_txn;

enum {
    TABLE_KEY_MAX = 1024,        /* bytes; those over 440 are stored by their hash */
    TABLE_VALUE_MAX = 256 << 10, /* bytes */
    TABLE_REQUEST_MAX = 512 << 10,
    TABLE_REPLY_MAX = 512 << 10,
    TABLE_PARTITIONS_MAX = 256,
};

/* What the owner makes of a request. */
enum table_verdict {
    TABLE_ACCEPTED, /* what it put and removed becomes state, all or nothing */
    TABLE_REFUSED,  /* nothing does; the reply says why */
};

/* One state that was applied to the view. Views of the call. */
struct table_change {
    unsigned partition;
    uint64_t offset; /* of the state in its log; grows */
    struct str key;
    struct str value; /* `p` NULL: removed */
};

/* What is particular to a table. All run on its service thread and must not block. */
struct table_ops {
    /* Decides a request. Reads by table_txn_get() see everything decided before; nothing but the request and these reads may
     * enter the decision, since another owner may have to repeat it. `out_reply` (of MEM_TABLE) goes to the requester
     * whatever the verdict; over TABLE_REPLY_MAX bytes the request is refused, with an empty one. */
    enum table_verdict (*decide)(void *context, struct table_txn *txn, struct str request, struct buf *out_reply);
    /* The view has this now (committed). NULL: nobody asks. Not called for what a view held when it was opened. */
    void (*on_applied)(void *context, const struct table_change *change);
    /* What the view had of a partition is gone, and comes again from the log: what was made of it is worth nothing. NULL:
     * nobody asks. */
    void (*on_rebuild)(void *context, unsigned partition);
};

struct table_options {
    const char *name; /* [a-z_]: names the databases, topics, threads and metrics */
    const struct table_ops *ops;
    void *context;         /* of the ops */
    struct store *store;   /* where the view is; borrowed */
    struct table_log *log; /* borrowed */
    unsigned n_partitions; /* 1 to TABLE_PARTITIONS_MAX, for ever */
};

/* Opens the view, rebuilding it when it is not this log's, and starts the thread. `opened` is posted to `home` when the view
 * has first reached the end of the log. E_*: `ei` says why. Main thread, may block on the disk. */
MUST_USE err table_open(const struct table_options *options, struct mail *opened, struct mailbox *home,
                        struct table **out_table, struct errinfo *ei);

/* Stops the thread; requests that wait are answered with E_CLOSED, or with E_TIMEOUT when they may still be done. `opened`,
 * if it has not come, does not come any more. Readers must be closed. NULL is a no-op. Main thread; blocks for a second at
 * most. */
void table_close(struct table *t);

/* A request and its answer; owned by the requester and left alone until its mail comes. */
struct table_write {
    struct mail mail;     /* on_mail is set by the requester */
    struct mailbox *home; /* set by the requester */
    struct str partition_key;
    struct str request;
    /* E_OK: accepted, and this instance's view has it. E_DENIED: refused. E_TIMEOUT: nobody knows (it may still be done).
     * E_BUSY: too many wait; E_LIMIT: too large; E_CLOSED: nothing has happened; E_IO: the disk refuses, the log has the
     * details. */
    err result;
    struct buf reply; /* of E_OK and E_DENIED; the requester frees it (MEM_TABLE) */

    /* The table's. */
    struct list link;
    struct timer timer;
    void (*on_answer)(struct mail *m);
    struct table *table;
    uint64_t id, cause, base_offset;
    unsigned partition;
};

/* Asks for a change. Any thread; does not block; the mail comes exactly once. */
void table_write(struct table *t, struct table_write *write);

/* The owner's reads and writes while it decides. A view of what was got is good until the decision ends. E_LIMIT: too large,
 * or too much; E_INVAL: no key (1 to TABLE_KEY_MAX bytes, the first not NUL); E_BUSY: what stands there was written by a
 * later version and must not be lost. After any of them the request is refused, whatever decide says. Removing what is not
 * there is no change. */
bool table_txn_get(struct table_txn *txn, struct str key, struct str *out_value);
MUST_USE err table_txn_put(struct table_txn *txn, struct str key, struct str value);
MUST_USE err table_txn_remove(struct table_txn *txn, struct str key);

/* Walks the keys that begin with `prefix`, in the order of their bytes; `after` (may be empty) is the key to begin behind.
 * False at the end. */
struct table_item {
    struct str key, value;
    uint64_t offset; /* of the state: a version, for ETags */
};
bool table_txn_next(struct table_txn *txn, struct str prefix, struct str after, struct table_item *out_item);

/* A reader: a moment of the view that stays as it is until it is closed or renewed. One thread; all-zero is closed.
 * Short-lived, or renewed each turn of a loop: an old one keeps the database from using its space again. */
struct table_reader {
    struct table *table;
    void *txn;
};

MUST_USE err table_reader_open(struct table *t, struct table_reader *r);
void table_reader_renew(struct table_reader *r);
void table_reader_rest(struct table_reader *r); /* lets go of the moment: nothing is found until it is renewed */
void table_reader_close(struct table_reader *r);

/* As of the owner, of the view. Views last until the reader is renewed or closed. */
bool table_reader_get(struct table_reader *r, struct str partition_key, struct str key, struct table_item *out_item);
bool table_reader_next(struct table_reader *r, struct str partition_key, struct str prefix, struct str after,
                       struct table_item *out_item);

/* For those who walk everything: partition by partition, 0 to table_partitions() - 1. */
unsigned table_partitions(const struct table *t);
bool table_reader_next_in(struct table_reader *r, unsigned partition, struct str prefix, struct str after,
                          struct table_item *out_item);

/* Waits until the view has all that was in the log of the key's partition when this was asked, at most `limit_ms`: before
 * refusing what the view does not have. Shared by all who wait. E_OK, E_TIMEOUT, E_CLOSED. With a local log it is E_OK at
 * once. Any thread. */
struct table_barrier {
    struct mail mail; /* set by the requester, as home */
    struct mailbox *home;
    err result;

    /* The table's. */
    struct list link;
    struct timer timer;
    void (*on_answer)(struct mail *m);
    struct table *table;
    uint64_t end_offset;
    uint32_t limit_ms;
    unsigned partition;
};
void table_catch_up(struct table *t, struct str partition_key, uint32_t limit_ms, struct table_barrier *barrier);
