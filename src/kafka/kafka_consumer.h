/* kafka_consumer: the source of core/source.h over librdkafka. One handle in assign mode for everything that this instance
 * reads by itself; its consumer group is the instance's own, never has members, and serves only to keep positions.
 *
 * Instances may share a group instead: a second handle is a member of it, which says what to read and takes the positions, and
 * fetches nothing (kafka_consumer_group.c). Or nobody keeps positions, and everything is read from its end on.
 *
 * Two service threads: one takes records and settlements as they come and commits, the other (kafka_consumer_finder.h) asks
 * the cluster for topics and positions and may wait for it. Kafka that is away is waited for.
 *
 * Life: kafka_consumer_open(), kafka_consumer_start(), [records come], kafka_consumer_stop(), kafka_consumer_free(). One thread;
 * the source may be used by any. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "core/source.h"
#include "kafka/kafka.h"

struct kafka_consumer;

enum {
    KAFKA_CONSUMER_DEFAULT_UNSETTLED = 10000,
    KAFKA_CONSUMER_DEFAULT_BYTES = 128 << 20,
};

/* Who reads: a label of the metrics. */
enum kafka_consumer_reader { KAFKA_CONSUMER_RULES, KAFKA_CONSUMER_COMMANDS, KAFKA_CONSUMER_INSTANCES, KAFKA_CONSUMER_READERS };

/* All views are borrowed for the call. */
struct kafka_consumer_settings {
    enum kafka_consumer_reader for_whom;
    struct str group;    /* of the program; the consumer group is GROUP.INSTANCE */
    struct str instance; /* what tells this process from others, and is the same after a restart */
    /* The consumer group is GROUP, and its members divide the partitions among them. One that none has a position in begins at
     * its beginning, or where the reader knows; begins_at_end() does not count. The embedded Kafka takes 3 s to let anybody join,
     * and has no use for it: there everything is read as ever. */
    bool is_shared;
    /* No positions are kept: what is there when it starts is passed over, what comes later is read once. Not with is_shared. */
    bool is_transient;
    uint32_t max_unsettled;             /* records of a partition; 0: the default */
    uint64_t max_bytes;                 /* unsettled, of all partitions; one may have an eighth. 0: the default */
    uint32_t find_ms;                   /* how often new topics are looked for; 0: the default */
    const struct source_reader *reader; /* lives until kafka_consumer_stop() */
    void *wants;                        /* what the reader wants at first; a reference is taken */
    /* Posted once, when partitions have been found and it is fixed where each begins: what is written from then on is read.
     * `started` may be NULL. */
    struct mail *started;
    struct mailbox *started_home;
};

/* Opens the handle and starts the threads; nothing is read yet. `settings` are those that `k` was opened with. Registers metrics:
 * before the workers run. The caller owns `*out_consumer`. E_INVAL: see kafka_check_settings(). E_IO: no thread. */
MUST_USE err kafka_consumer_open(struct kafka *k, const struct kafka_settings *settings,
                                 const struct kafka_consumer_settings *consumer_settings, struct kafka_consumer **out_consumer,
                                 struct errinfo *ei);

/* The port for settling; lives as long as the consumer. */
struct source *kafka_consumer_source(struct kafka_consumer *c);

/* Begins to look for topics and to hand out records. Once. Any thread. */
void kafka_consumer_start(struct kafka_consumer *c);

/* Other wants, in two steps, so that the reader can change over between them. From the first step on nothing is handed out that
 * these wants do not have; `done` is posted to `home` when that is so, behind the last such record. Kafka is not waited for.
 * With the second what is wanted anew is read: from where it stopped, or from where the group stands. Takes a reference. Both
 * by one thread, one after the other, and the next change after both; while the consumer runs. */
void kafka_consumer_want(struct kafka_consumer *c, void *wants, struct mail *done, struct mailbox *home);
void kafka_consumer_read_wanted(struct kafka_consumer *c);

/* All topics that are read were made anew under their names: everything in them is new. What is out of them may still be settled.
 * Any thread, while the consumer runs. */
void kafka_consumer_begin_anew(struct kafka_consumer *c);

/* No record is handed out any more; what is out may still be settled and is committed. A shared group is left as soon as nothing
 * is out. Any thread, also twice. */
void kafka_consumer_pause(struct kafka_consumer *c);

/* Commits what has been settled, for which Kafka has 5 s, and ends the threads. What is settled later is too late: it comes again
 * after a restart. Before kafka_stop(). Twice is a no-op. */
void kafka_consumer_stop(struct kafka_consumer *c);

/* Releases everything, records still out included: nobody may have one any more. NULL is a no-op. */
void kafka_consumer_free(struct kafka_consumer *c);
