/* table_log: the port between a table (table/table.h) and the log that it stands on: Kafka, or a local one. The log moves
 * bytes, and knows nothing of what they mean. For each partition it has
 *   requests  in an order, each given to the partition's one owner;
 *   states    accepted changes in the order of their offsets; of several with one key only the last need be kept;
 *   replies   from the owner to everybody.
 * The owner commits what came of a batch of requests at once: states, replies, and that the requests are done; all of it
 * becomes visible, or nothing. Whoever was the owner and does not know yet that another is, fails to commit.
 *
 * Everything is called on the table's thread, but for attach and detach; so is every call of the log's to its user. Nothing
 * here blocks for longer than the local disk takes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct loop;
struct table_log;

enum { TABLE_LOG_IDENTITY_BYTES = 16 };

/* Which log a view belongs to and how far it is, for one partition. All-zero: a view with nothing. */
struct table_log_position {
    uint8_t identity[TABLE_LOG_IDENTITY_BYTES];
    uint64_t first_offset; /* where the log began when the view did */
    uint64_t next_offset;  /* the view has everything before */
    uint64_t at_end_ms;    /* since 1970: when it last had all there was */
};

struct table_log_state {
    uint64_t offset;
    struct str key;
    struct str value; /* `p` NULL: removed */
};

struct table_log_request {
    uint64_t position; /* grows */
    struct str record;
};

struct table_log_batch {
    const struct table_log_state *states; /* offsets do not count */
    size_t n_states;
    const struct str *replies;
    size_t n_replies;
};

/* The table's side. */
struct table_log_user {
    void *context;
    struct loop *loop; /* of the table's thread */
    unsigned n_partitions;
    /* The view of a partition cannot go on: begin anew, as a view of this log. Its states come from the beginning on. False:
     * not now, the disk refuses; it will be asked again. */
    bool (*on_reset)(void *context, unsigned partition, const struct table_log_position *begin);
    /* States in order; with them everything before `next_offset` has been read. None: and there are no more for now.
     * False: not taken, offer them again later. */
    bool (*on_states)(void *context, unsigned partition, const struct table_log_state *states, size_t n, uint64_t next_offset);
    /* This instance decides for the partition from now on, when it has the states before `end_offset`; or it does not any
     * more. */
    void (*on_owner)(void *context, unsigned partition, bool is_owner, uint64_t end_offset);
    /* next() has something. */
    void (*on_requests)(void *context, unsigned partition);
    /* The end of a commit. Unless E_OK nothing has become visible; E_AGAIN: its requests come again; E_DENIED: another owner
     * gets them; E_LIMIT, E_IO: they are gone, and those who asked know nothing yet. */
    void (*on_committed)(void *context, unsigned partition, err result);
    void (*on_reply)(void *context, struct str record);
    /* A request did not get into the log, as far as is known. */
    void (*on_lost)(void *context, uint64_t id, err result);
    /* The answer to ask_end(). E_TIMEOUT: the log does not answer. */
    void (*on_end)(void *context, unsigned partition, err result, uint64_t end_offset);
};

struct table_log_ops {
    err (*attach)(struct table_log *log, const struct table_log_user *user, const struct table_log_position *positions,
                  struct errinfo *ei);
    void (*detach)(struct table_log *log);
    err (*append)(struct table_log *log, unsigned partition, uint64_t id, struct str key, struct str record);
    bool (*next)(struct table_log *log, unsigned partition, struct table_log_request *out_request);
    void (*commit)(struct table_log *log, unsigned partition, const struct table_log_batch *batch);
    void (*ask_end)(struct table_log *log, unsigned partition);
};

struct table_log {
    const struct table_log_ops *ops;
};

/* Gives the log its user, and the positions of the user's view (n_partitions of them, copied). The user is borrowed until
 * table_log_detach(). One at a time. The main thread, before and after the table's runs. */
MUST_USE static inline err table_log_attach(struct table_log *log, const struct table_log_user *user,
                                            const struct table_log_position *positions, struct errinfo *ei)
{
    return log->ops->attach(log, user, positions, ei);
}

/* Ends it; waits for the log's own threads. What they have posted to the loop before still runs when it turns. */
static inline void table_log_detach(struct table_log *log)
{
    log->ops->detach(log);
}

/* Adds a request; copies it. `id` is for on_lost(). E_BUSY: no room now; E_LIMIT: too large for the log. */
MUST_USE static inline err table_log_append(struct table_log *log, unsigned partition, uint64_t id, struct str key,
                                            struct str record)
{
    return log->ops->append(log, partition, id, key, record);
}

/* Takes the next request of a partition that this instance owns; it belongs to the batch that is committed next, and its
 * views are good until that has ended. False: there is none now. */
MUST_USE static inline bool table_log_next(struct table_log *log, unsigned partition, struct table_log_request *out_request)
{
    return log->ops->next(log, partition, out_request);
}

/* Commits what came of the requests taken since the last commit of the partition. The batch and all it points to are
 * borrowed until on_committed(), which comes later, once. */
static inline void table_log_commit(struct table_log *log, unsigned partition, const struct table_log_batch *batch)
{
    log->ops->commit(log, partition, batch);
}

/* Asks where the states end now; one question a partition at a time. on_end() comes later, once. */
static inline void table_log_ask_end(struct table_log *log, unsigned partition)
{
    log->ops->ask_end(log, partition);
}
