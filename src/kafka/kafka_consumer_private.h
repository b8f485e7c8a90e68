/* kafka_consumer_private: the whole that kafka_consumer.h hides. Only for its files and tests. */
#pragma once

#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/map.h"
#include "kafka/kafka_consumer.h"
#include "kafka/kafka_consumer_conf.h"
#include "kafka/kafka_consumer_finder.h"
#include "kafka/kafka_consumer_metrics.h"
#include "kafka/kafka_consumer_window.h"
#include "loop/loop.h"

enum { KAFKA_CONSUMER_BATCH = 256 };

/* A position as the cluster has it, to know it again. */
struct kafka_place {
    int64_t offset;
    uint64_t metadata; /* a hash */
};

/* Tells the home of a partition that it is lost. The partition's, for the next time too. */
struct kafka_loss {
    struct mail mail;
    struct kafka_loss *next;
    struct kafka_partition *partition;
    atomic_bool is_told;
};

/* A partition being read. */
struct kafka_partition {
    struct source_partition port;
    struct kafka_consumer *consumer;
    struct kafka_window window;
    struct kafka_partition *next;
    struct str full_topic; /* with the prefix, NUL-terminated; owned, and port.topic is a view into it */
    struct mail full;      /* to its home */
    atomic_bool is_telling;
    bool is_read; /* it is wanted */
    bool is_paused;
    uint64_t paused_ms; /* since when */
    bool is_dirty;      /* something was settled since the last commit */
    struct list stale;  /* records that are still out, of an earlier topic with the name or from before it was lost */
    /* Of a shared group; else the first two are always true. */
    bool is_ours;       /* the group gave it to this member */
    bool is_placed;     /* and it is known where the group stands */
    bool is_kept;       /* the window is good for the place last committed */
    bool awaits_commit; /* of the first position, before anything is read */
    bool has_position;  /* the cluster had one, when it was last heard of */
    struct kafka_place committed, sent;
    struct kafka_loss *losses;
};

struct kafka_consumer {
    struct source source;
    enum kafka_consumer_reader for_whom;
    const struct source_reader *reader;
    rd_kafka_t *rk;
    rd_kafka_t *member;                  /* of a shared group, fetches nothing; NULL: the group is this instance's own */
    rd_kafka_queue_t *records, *results; /* messages; answers to commits */
    rd_kafka_queue_t *memberships;       /* what the group says */
    struct kafka_finder finder;
    struct str group;  /* owned */
    struct str prefix; /* owned */
    uint32_t max_unsettled;
    uint64_t max_bytes;
    bool is_transient;
    struct mail *started; /* NULL: was posted, or is not wanted */
    struct mailbox *started_home;
    pthread_t thread;
    bool is_running, is_stopped;
    atomic_bool is_pausing; /* nothing is handed out any more */
    struct mail stop_mail;
    struct mail pause_mail, anew_mail;
    atomic_bool is_asked_anew;        /* it is on its way */
    struct mail want_mail, read_mail; /* the steps of kafka_consumer_want() */
    void *next_wants;                 /* with want_mail */
    struct mail *want_done;
    struct mailbox *want_home;

    /* The thread's own. */
    struct loop loop;
    struct io wake; /* eventfd that librdkafka writes to */
    struct task poll_task;
    struct timer commit_timer, refresh_timer, full_timer, stop_timer;
    void *wants;
    bool is_changing;      /* between the steps of kafka_consumer_want(): nothing more is read until the reader knows it */
    struct map partitions; /* also those that are not wanted any more: where they stopped must be known when they are again */
    struct kafka_partition *list; /* the same */
    uint64_t unsettled_bytes;
    bool is_choked; /* by max_bytes */
    uint32_t n_paused;
    bool is_stop_asked;
    bool is_committing;
    struct timer group_timer;
    bool is_subscribed; /* to any topic */
    uint32_t round;     /* of the group: grows with each change */
    bool is_revoking;   /* the group takes everything back; it waits until what was settled is committed */
    bool is_concluded;  /* the last commit before that was sent */
    bool is_leaving;
    size_t metadata_bytes; /* what the cluster takes with a commit */
    rd_kafka_message_t *batch[KAFKA_CONSUMER_BATCH];
};

static inline void kafka_consumer_count(const struct kafka_consumer *c, enum kafka_consumer_metric which, int64_t n)
{
    metric_add(&kafka_consumer_metrics[c->for_whom][which], (uint64_t)n);
}

/* The partition, or NULL. */
struct kafka_partition *kafka_consumer_find(const struct kafka_consumer *c, const char *full_topic, int32_t number);

/* What was found, handed to the consumer, which takes it. The finder's thread. */
void kafka_consumer_take(struct kafka_consumer *c, struct kafka_found *first, uint32_t round);

/* As a mail to the consumer's thread, which frees it. */
struct kafka_finding {
    struct mail mail;
    struct kafka_consumer *consumer;
    struct kafka_found *first;
    uint32_t round; /* of the group that asked */
};

/* --- kafka_consumer_partition.c; the consumer's thread --- */

void kafka_partition_init(struct kafka_consumer *c);

/* Stops reading what is not wanted, and reads what is. */
void kafka_partition_leave_unwanted(struct kafka_consumer *c);
void kafka_partition_read_wanted(struct kafka_consumer *c);

/* Pauses a partition of which too much is unsettled, and tells its home; lets one go on that has room again. */
void kafka_partition_check(struct kafka_consumer *c, struct kafka_partition *p);

/* The cluster does not have what we ask for: it was deleted by age, or the topic was made anew. What is there is all new. */
void kafka_partition_begin_anew(struct kafka_consumer *c, struct kafka_partition *p, const char *why);

/* A partition of a shared group; it is not read before it has a place. */
struct kafka_partition *kafka_partition_add(struct kafka_consumer *c, const char *full_topic, int32_t number);

/* Where the group stands in a partition of this member's. */
void kafka_partition_place(struct kafka_consumer *c, struct kafka_partition *p, const struct kafka_found *found);

/* Stops reading everything; what is out stays good until it is lost. */
void kafka_partition_leave_all(struct kafka_consumer *c);

/* It is another member's now. */
void kafka_partition_lose(struct kafka_consumer *c, struct kafka_partition *p);

/* Nothing of it is out. */
void kafka_partition_free(struct kafka_partition *p);

/* --- kafka_consumer_group.c; the consumer's thread --- */

/* Opens the member's handle. E_INVAL. */
MUST_USE err kafka_consumer_group_open(struct kafka_consumer *c, const struct kafka_settings *settings, struct str bootstrap,
                                       struct errinfo *ei);

/* Other topics; from the finder, as a mail. Takes the list. */
void kafka_consumer_group_subscribe(struct kafka_consumer *c, rd_kafka_topic_partition_list_t *topics);

/* Takes what the group says. */
void kafka_consumer_group_poll(struct kafka_consumer *c);

/* A commit was answered, or there was none to send: what waits for it goes on. */
void kafka_consumer_group_on_committed(struct kafka_consumer *c);

/* Leaves, so that others take over at once. May wait for the cluster. A second call is a no-op. */
void kafka_consumer_group_leave(struct kafka_consumer *c);

/* Nothing is handed out any more: leaves as soon as nothing is out and everything is committed, rather than at the end. */
void kafka_consumer_group_try_leave(struct kafka_consumer *c);

/* --- kafka_consumer_commit.c; the consumer's thread --- */

/* How a position is known again. */
struct kafka_place kafka_place_of(int64_t offset, struct str metadata);

/* Sends a commit of everything dirty, unless one is under way or there is nothing. */
void kafka_consumer_commit(struct kafka_consumer *c);

/* An answer from the results queue. */
void kafka_consumer_committed(struct kafka_consumer *c, rd_kafka_event_t *event);
