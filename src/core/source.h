/* source: the port through which records come from Kafka, the counterpart of sink.h. kafka/ implements it; a fake one serves the
 * tests. Readers see neither librdkafka nor a network.
 *
 * Every partition of the topics that the reader is interested in is read by this instance, from where the instance's own
 * consumer group stands; or, where instances share a group, those partitions that the group gives to this one. Records are
 * handed, in order, to one mailbox, in batches. The reader settles each record exactly once, when nothing more will come of it: by
 * any thread, in any order. What stands at the beginning of a partition and is settled is committed, and what is settled
 * behind it is written down with the commit: after a restart only records that were not settled come again.
 *
 * What the reader is interested in may change while records flow. A partition that is not wanted any more is no longer read;
 * what is out of it is settled and committed as ever, and when it is wanted again, it goes on from where it stopped.
 *
 * So many records, and so many bytes, of a partition may be unsettled at a time; then it pauses, and the reader is told. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "base/mail.h"
#include "base/str.h"
#include "core/sink.h"

struct mailbox;
struct source;
struct source_reader;

/* A partition being read. Owned by the source, lives as long as it does. */
struct source_partition {
    struct str topic; /* without the prefix */
    int32_t number;
    const struct source_reader *reader;
    struct mailbox *home; /* where its records go */
    /* Where it was read from when the cluster did not have that any more: records that come from before were written since, to a topic
     * made anew under the name. 0: that has not happened. */
    atomic_int_fast64_t lost_at;
    void *reader_data; /* the reader's own; only the thread of `home` may touch it while the source runs */
};

/* A record in the reader's hands. Everything in it is the source's and lives until source_settle(), but key, value and headers
 * only until source_forget(). */
struct source_record {
    struct mail mail; /* brings it to the reader */
    struct source_partition *partition;
    int64_t offset;
    int64_t timestamp_ms; /* since 1970; negative: not known */
    struct str key;       /* `p` NULL: no key */
    struct str value;     /* `p` NULL: a null value */
    const struct record_header *headers;
    size_t n_headers;
    struct list link; /* from here on the source's own */
    void *raw;
    uint32_t bytes;
    bool is_stale; /* of a topic that has since been made anew */
};

/* Who reads. Given to the source when it is opened; borrowed. */
struct source_reader {
    void *context;
    /* The wants: all that the reader is interested in at a time, an object of its own that never changes and is counted. The
     * source holds references to the one it was given last and, for a while, to the one before. Any thread. */
    void *(*ref)(void *wants);
    void (*unref)(void *wants);
    /* Which interest a topic (without prefix) belongs to, -1: none. By threads of the source's own, as the next two. */
    int (*interest)(void *wants, struct str topic);
    /* What an interest is called, for people, and to know it again in other wants: all those from 0 on; empty past the last. */
    struct str (*name)(void *wants, int interest);
    /* Where an interest begins that is met for the first time: at the end of what is there, or at its beginning. Topics and
     * partitions that appear later always begin at their beginning. */
    bool (*begins_at_end)(void *wants, int interest);
    /* The offset where a partition begins that the group has no position for. Negative: nothing is known, begins_at_end() counts. Any
     * thread of the source; NULL: as if negative. */
    int64_t (*begins_at)(void *context, struct str topic, int32_t partition);
    /* The mailbox for a partition's records; by a thread of the source's own. */
    struct mailbox *(*home)(void *context, struct str topic, int32_t partition);
    /* A record has arrived: CONTAINER_OF(m, struct source_record, mail). On the thread of the partition's home. */
    void (*on_record)(struct mail *m);
    /* A partition pauses because too much of it is unsettled, and has for some time; told again as long as it does. On the thread of
     * its home. */
    void (*on_full)(void *context, struct source_partition *partition);
    /* The partition belongs to another member of a shared group now, and what was not settled is read by it again. Records that are out
     * stay valid until they are settled, which moves no position any more. When the partition comes back, its records come behind
     * this. On the thread of its home, behind the last record; NULL: the reader does not care. */
    void (*on_lost)(void *context, struct source_partition *partition);
};

struct source_ops {
    void (*forget)(struct source *source, struct source_record *record);
    void (*settle)(struct source *source, struct source_record *record);
};

struct source {
    const struct source_ops *ops;
};

/* Key, value and headers are not needed any more; whoever has copied them gives their memory back early. Any thread, once, or
 * not at all. */
static inline void source_forget(struct source *source, struct source_record *record)
{
    source->ops->forget(source, record);
}

/* Nothing more will come of the record; it is gone. Any thread; does not block. */
static inline void source_settle(struct source *source, struct source_record *record)
{
    source->ops->settle(source, record);
}
