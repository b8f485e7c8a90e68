/* table_private: what table.h hides. Everything belongs to the table's thread, but for what is said to be constant. */
#pragma once

#include <pthread.h>

#include "base/arena.h"
#include "base/list.h"
#include "base/map.h"
#include "core/table_log.h"
#include "loop/loop.h"
#include "store/store.h"
#include "table/table.h"
#include "table/table_metrics.h"
#include "table/table_record.h"
#include "table/table_view.h"

struct table_partition;

/* A change within the batch that is being decided. */
struct table_owner_change {
    struct str key, store_key;
    struct str value;  /* `p` NULL: removed */
    struct str record; /* of the state, once it is accepted */
    size_t request;    /* which of the batch */
    size_t before;     /* one more than the place of the change of this key before it; 0: none */
};

/* What this instance decides for a partition (table_owner.c). The batch lives from its first decision until its commit has
 * ended. */
struct table_owner {
    bool is_owner, is_committing;
    uint64_t from_offset; /* decides when the view has everything before */
    bool is_waiting;      /* for the view to have the last batch */
    uint64_t last_cause, last_base;
    struct arena arena;
    struct table_owner_change *changes; /* in the order in which they were made */
    size_t n_changes, n_changes_room;
    size_t *sorted; /* the last change of each key, in the order of the store's keys */
    size_t n_sorted;
    struct table_owner_request *requests;
    size_t n_requests;
    size_t bytes;
    struct store_txn reader;
    struct table_log_batch batch;
};

/* A request of the batch, to tell its writer should the commit come to nothing. */
struct table_owner_request {
    uint8_t instance[TABLE_RECORD_INSTANCE_BYTES];
    uint64_t id;
};

struct table_partition {
    struct table *table;
    unsigned number;
    struct table_owner owner;
    /* The last mark that the view got since it was opened. */
    bool has_applied;
    uint64_t applied_offset, applied_cause;
    struct list accepted; /* writes that wait for the view, in the order of their causes */
    /* Who waits for the end of the log: to ask for it, for the answer, for the view. */
    struct list unasked, asked, reaching;
    bool is_asking, is_opening, has_opening_end;
    uint64_t opening_end, lag;
};

struct table {
    const char *name;
    const struct table_ops *ops; /* constant, as the next */
    void *context;
    struct table_log *log;
    struct table_log_user user;
    const struct table_metrics *metrics;
    uint8_t instance[TABLE_RECORD_INSTANCE_BYTES];
    unsigned n_partitions;

    struct loop loop;
    pthread_t thread;
    bool has_thread, is_attached;
    struct table_view view;
    struct table_partition *partitions;
    struct map writes; /* by id, those that wait */
    uint64_t next_id;
    struct mail *opened; /* until it is posted */
    struct mailbox *opened_home;
    unsigned n_opening;
    struct timer note_timer, stop_timer;
    struct mail stop_mail;
    bool is_stopping, is_stopped;
    uint64_t stop_by_ms;
};

/* --- table_write.c --- */
void table_write_reply(struct table *t, struct str record);
void table_write_lost(struct table *t, uint64_t id, err result);
/* The view of the partition has got further: answers whose turn it is. */
void table_write_applied(struct table_partition *p);
/* Answers everything that waits. */
void table_write_close(struct table *t);

/* --- table_barrier.c --- */
void table_barrier_end(struct table_partition *p, err result, uint64_t end_offset);
void table_barrier_applied(struct table_partition *p);
/* Asks for the end of the partition's log, unless somebody does. */
void table_barrier_ask(struct table_partition *p);
void table_barrier_close(struct table *t);

/* --- table_owner.c --- */
/* Decides what there is to decide, if this is the time. */
void table_owner_run(struct table_partition *p);
void table_owner_set(struct table_partition *p, bool is_owner, uint64_t from_offset);
void table_owner_committed(struct table_partition *p, err result);
void table_owner_free(struct table_partition *p);

/* Whether the view has the mark of a request, or of a later one, at or behind an offset. */
static inline bool table_partition_has(const struct table_partition *p, uint64_t base_offset, uint64_t cause)
{
    return p->has_applied && p->applied_offset >= base_offset && p->applied_cause >= cause;
}

static inline uint64_t table_partition_next_offset(const struct table_partition *p)
{
    return p->table->view.positions[p->number].next_offset;
}
