/* feed_private: what the files of the feed share. Only for them and their tests. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/slab.h"
#include "broker/broker.h"
#include "broker/feed.h"
#include "broker/feed_metrics.h"
#include "broker/topic_tree.h"
#include "broker/tracker.h"
#include "core/to_mqtt_route.h"
#include "loop/wheel.h"

/* A record on its way. From the worker's slab. */
struct feed_record {
    struct tracker tracker;
    struct feed_worker *fw;
    struct source_partition *partition;
    struct source_record *record; /* NULL: settled */
    struct message *message;
    struct feed_topic *topic; /* the queue it belongs to, if it may have to wait */
    struct list open;         /* of the worker, in the order in which records came */
    struct list waiting;      /* of its topic, or of the worker's stalled ones */
    struct timer timer;       /* of the end of the wait for a subscriber */
    uint64_t hold_until_ms;   /* on the loop's clock */
    int64_t offset;
    uint32_t ack_timeout_ms;
    bool is_retained;
    bool is_out; /* some session has it */
    bool is_held;
};

/* An MQTT topic with records that wait, or may have to: the value of a node of the worker's tree. */
struct feed_topic {
    struct topic_node *node;
    struct list waiting;          /* of feed_record.waiting, in the order of the source */
    struct feed_record *deciding; /* not all workers have looked for its subscribers yet: what follows waits for that */
    struct feed_topic *next_woken;
    bool is_woken;
    bool must_retry;  /* a subscription came while one was deciding */
    bool is_flushing; /* feed_topic_flush() is at work */
};

/* What one worker holds. */
struct feed_worker {
    struct feed *feed;
    struct worker *worker;
    struct shard *shard;
    struct to_mqtt_rules *rules;
    struct to_mqtt_rules *next_rules; /* what `use` brings */
    struct mail use;
    struct slab records;
    struct topic_tree topics;
    atomic_uint n_topics; /* read by other workers: whether anything waits here */
    struct list open;
    struct list stalled; /* publishes for which another worker's mailbox had no room, and all that came behind them */
    struct timer stall_timer;
    struct buf properties, encoded; /* scratch */
};

/* A partition as its worker sees it. */
struct feed_partition {
    struct feed_partition *next;
    struct feed_worker *fw;
    struct to_mqtt_route *route; /* NULL: no record has come since the rules were exchanged */
};

struct feed {
    struct source_reader reader;
    struct broker_watcher watcher;
    struct broker *broker;
    struct workers *workers;
    struct source *source;
    struct feed_worker *list;
    _Atomic(struct feed_partition *) partitions; /* all of them, for the end */
    uint64_t started_ms;
    atomic_uint n_unchanged; /* workers that have yet to take the rules they were given */
    struct mail *changed;
    struct mailbox *changed_home;
    atomic_bool is_draining;
};

static inline uint64_t feed_now_ms(const struct feed_worker *fw)
{
    return fw->worker->loop.now_ms;
}

/* --- feed_publish.c --- */

/* What became of a try to publish. */
enum feed_try {
    FEED_TAKEN,    /* some session has it; the record may be gone by now */
    FEED_DECIDING, /* it will be told */
    FEED_NOBODY,   /* nobody is subscribed */
    FEED_REFUSED,  /* there is no room for one more retained message; the record is gone */
    FEED_STALLED,  /* another worker's mailbox has no room now */
};

enum feed_try feed_publish(struct feed_record *fr);

/* A new record on its way. */
void feed_submit(struct feed_record *fr);

/* The tracker's mail, and the worker's timer for what stalled. */
void feed_on_tracker(struct mail *m);
void feed_on_stall_timer(struct timer *t);

/* Lets the source have the record; what becomes of its message is another matter. Once more is a no-op. */
void feed_settle(struct feed_record *fr);

/* Without counting and settling. */
void feed_free_record(struct feed_record *fr);

/* Nothing more comes of the record: it is counted, settled, and gone. */
void feed_finish(struct feed_record *fr, enum feed_metric what);

/* Tries again in a moment; everything that comes later follows behind. For its topic it counts as deciding. */
void feed_stall(struct feed_record *fr);

/* --- feed_message.c --- */

/* The message of a record; the caller owns the reference. NULL without memory. */
struct message *feed_message_new(struct feed_worker *fw, const struct source_record *r, const struct to_mqtt_message *m);

/* --- feed_topic.c --- */

/* The queue of the record's topic; NULL: there is no memory. With `makes` false also when there is none. */
struct feed_topic *feed_topic_find(struct feed_worker *fw, const struct message *m, bool makes);

/* Whether a record must wait behind others. */
static inline bool feed_topic_is_busy(const struct feed_topic *topic)
{
    return topic->deciding || !list_is_empty(&topic->waiting);
}

/* Waits in its topic, at its place, for a subscriber, until its time is over. */
void feed_topic_wait(struct feed_topic *topic, struct feed_record *fr);

/* Publishes what waits, as far as it goes, and drops the queue when it is empty. */
void feed_topic_flush(struct feed_worker *fw, struct feed_topic *topic);

/* A subscription has been made somewhere: wakes the topics that match. */
void feed_topic_wake(struct feed_worker *fw, struct str tenant, struct str filter);

/* Frees all queues, after the records have been freed. */
void feed_topic_free_all(struct feed_worker *fw);
