/* kafka_table_private: the whole that kafka_table_log.h hides. Three kinds of threads touch it, each what is marked as its own:
 * the table's thread, the reader (kafka_table_reader.c), and the owners' (kafka_table_owner.c); the asker (kafka_table_asker.c)
 * only sends answers. What passes between reader and table are events, in order. */
#pragma once

#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/list.h"
#include "core/table_log.h"
#include "kafka/kafka_table_log.h"
#include "loop/loop.h"

struct kafka_table;
struct kafka_table_owner;

enum { KAFKA_TABLE_BATCH = 256 };

/* From the reader to the table. */
enum kafka_table_event_kind {
    KAFKA_TABLE_RESET, /* the view begins anew at `position` */
    KAFKA_TABLE_STATES,
    KAFKA_TABLE_REQUESTS,
    KAFKA_TABLE_REPLIES,
    KAFKA_TABLE_OWNED, /* `owner` is ready; the states end at next_offset */
    KAFKA_TABLE_LOST,  /* this instance decides no more */
    KAFKA_TABLE_GONE,  /* `owner` has ended and may be freed */
};

struct kafka_table_event {
    struct mail mail;
    struct list link;
    struct kafka_table_partition *partition;
    enum kafka_table_event_kind kind;
    struct table_log_position position;
    struct kafka_table_owner *owner;
    uint64_t next_offset;
    size_t bytes;
    size_t n;
    rd_kafka_message_t *messages[];
};

struct kafka_table_request {
    struct list link;
    rd_kafka_message_t *message;
};

struct kafka_table_partition {
    struct kafka_table *log;
    int32_t number;

    /* The reader's. */
    bool is_assigned; /* to this instance, by the group */
    struct kafka_table_owner *owner;
    bool reads_states, reads_requests;
    bool is_checked; /* it is known which log this is, and the view was told */
    bool skips;      /* what is left of the messages at hand is from before a change of place */
    uint64_t low_offset, high_offset;
    uint64_t next_state, next_request; /* offsets; what comes before is not wanted */
    struct table_log_position position;
    atomic_bool has_identity;           /* for the owner: somebody has named this log; */
    atomic_uint_fast64_t looked_before; /* and if not, it is not named in what stands before this offset */
    atomic_bool is_looked;              /* the offset before is known */

    /* The table's. */
    struct kafka_table_owner *committer; /* the owner while it may commit */
    struct list held;                    /* events with states that the view has not taken */
    struct list requests, taken;
    int64_t last_taken;
    struct mail refused_mail;   /* tells that there is nobody to commit */
    bool wants_place, is_asked; /* for the asker, under its lock */
};

/* --- the asker: questions that block --- */
struct kafka_table_asker {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool is_running;
    uint64_t retention_ms; /* delete.retention.ms of the states */
};

struct kafka_table {
    struct table_log log;
    struct kafka *k;
    char name[KAFKA_TABLE_NAME_BYTES];
    char *requests_topic, *states_topic, *replies_topic; /* full names */
    struct sink_topic *requests;
    char *transactions; /* the beginning of transactional.id */
    rd_kafka_conf_t *producer_conf;
    rd_kafka_t *group;                       /* member of the group; fetches nothing */
    rd_kafka_t *rk;                          /* fetches everything, by assignment of ours */
    rd_kafka_queue_t *records, *memberships; /* of the two */
    unsigned n_partitions;
    struct kafka_table_partition *partitions;
    struct kafka_table_asker asker;
    atomic_bool is_stopping, is_ready; /* ready: the place of the replies is known */
    atomic_size_t out_bytes;           /* of events on their way to the table */

    /* The reader's. */
    pthread_t thread;
    bool has_loop, has_thread;
    struct loop loop;
    struct io wake;
    struct task poll_task;
    struct timer poll_timer, owner_timer;
    struct mail stop_mail, unchoke_mail;
    atomic_bool is_choked, is_unchoking; /* the mail is on its way */
    unsigned n_owners;
    bool is_closing;
    rd_kafka_message_t *batch[KAFKA_TABLE_BATCH];

    /* The table's. */
    const struct table_log_user *user;
    struct timer again; /* for states that were not taken */
    size_t n_appending;
};

/* --- kafka_table_log.c --- */

/* Sends an event to the table, which frees it. */
void kafka_table_post(struct kafka_table *l, struct kafka_table_event *event);
struct kafka_table_event *kafka_table_event_new(struct kafka_table_partition *p, enum kafka_table_event_kind kind, size_t n);

/* --- kafka_table_reader.c --- */

MUST_USE err kafka_table_reader_open(struct kafka_table *l, const struct kafka_settings *settings, struct errinfo *ei);
MUST_USE err kafka_table_reader_start(struct kafka_table *l, struct errinfo *ei);
void kafka_table_reader_stop(struct kafka_table *l);
void kafka_table_reader_close(struct kafka_table *l);

/* Where a partition begins and ends; to the reader, which frees it. From the asker. */
struct kafka_table_place {
    struct mail mail;
    struct kafka_table_partition *partition;
    bool is_reply;
    int64_t low, high;
};
void kafka_table_reader_place(struct kafka_table_place *place);

/* For the group: the requests of an owned partition. */
void kafka_table_reader_read_requests(struct kafka_table_partition *p, int64_t offset);
void kafka_table_reader_leave_requests(struct kafka_table_partition *p);

/* --- kafka_table_group.c; the reader's thread --- */

MUST_USE err kafka_table_group_open(struct kafka_table *l, const struct kafka_settings *settings, struct errinfo *ei);
void kafka_table_group_join(struct kafka_table *l);

/* Takes what the group says. */
void kafka_table_group_poll(struct kafka_table *l);

/* Nothing more is decided for the partition; if it is still this instance's, an owner begins anew after a second. */
void kafka_table_group_end_owner(struct kafka_table_partition *p);

/* Leaves the group, so that others take over at once, and ends all owners; the loop stops when the last has gone. */
void kafka_table_group_close(struct kafka_table *l);

/* From an owner's thread: it may serve, requests begin at its `first_request`; it has ended. */
void kafka_table_group_ready(struct kafka_table_owner *o);
void kafka_table_group_gone(struct kafka_table_owner *o);

/* --- kafka_table_asker.c --- */

void kafka_table_asker_init(struct kafka_table *l);
MUST_USE err kafka_table_asker_start(struct kafka_table *l, struct errinfo *ei);
void kafka_table_asker_stop(struct kafka_table *l);

/* Asks for the end of a partition's states; the answer goes to the user on the table's thread. */
void kafka_table_asker_ask(struct kafka_table_partition *p);

/* Replies are listened to: requests may be appended, and ends asked for. The reader's thread. */
void kafka_table_asker_begin(struct kafka_table *l);

/* Asks anew where a partition's states begin; kafka_table_reader_place() comes. The reader's thread. */
void kafka_table_asker_place(struct kafka_table_partition *p);

/* --- kafka_table_owner.c --- */

struct kafka_table_owner {
    struct kafka_table_partition *partition;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* Under the lock. */
    bool is_stopping, has_ended;
    const struct table_log_batch *job; /* to be committed */
    int64_t job_last_request;
    err job_result;
    struct mail ready_mail, gone_mail; /* to the reader */
    struct mail done_mail;             /* to the table */
    /* Set before ready_mail is posted. */
    uint64_t end_offset;
    int64_t first_request; /* or RD_KAFKA_OFFSET_BEGINNING */
    /* The thread's own. */
    rd_kafka_t *rk;
    char *transactional_id;
};

/* Starts the thread of an owner. NULL: the system gives none. The reader's thread. */
struct kafka_table_owner *kafka_table_owner_new(struct kafka_table_partition *p);

/* Asks it to end; kafka_table_group_gone() comes. Any thread. */
void kafka_table_owner_stop(struct kafka_table_owner *o);

/* Gives it a batch; done_mail comes. False: it has ended, and may be freed before any mail of its own would come. The table's
 * thread. */
MUST_USE bool kafka_table_owner_commit(struct kafka_table_owner *o, const struct table_log_batch *batch, int64_t last_request);

/* Joins the thread, after gone. */
void kafka_table_owner_free(struct kafka_table_owner *o);

/* The record that names a log: the first of each partition of states. */
#define KAFKA_TABLE_IDENTITY_KEY "\0identity"
enum { KAFKA_TABLE_IDENTITY_RECORD_BYTES = 2 + TABLE_LOG_IDENTITY_BYTES };

/* Version and kind before it. False: it is none, or of a later version. */
bool kafka_table_identity_read(struct str record, uint8_t out_identity[TABLE_LOG_IDENTITY_BYTES]);
