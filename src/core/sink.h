/* sink: the port through which records leave for Kafka. kafka/ implements it; a fake one serves the tests. Callers see
 * neither librdkafka nor a network.
 *
 * A record that sink_submit() took is answered exactly once: the delivery's mail arrives in the mailbox the delivery
 * names, with the outcome filled in. The answer needs no memory, so it cannot fail. Records with the same topic and key
 * are stored in the order in which they were submitted, by whichever thread; answers come in no particular order.
 *
 * Room is counted in bytes for the whole process. Without room sink_submit() answers E_AGAIN and nothing has happened;
 * the caller keeps the message, stops reading from whoever sent it, and arms a sink_waiter. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mail.h"
#include "base/str.h"

/* How a record ended. Protocol adapters map these by table to reason codes and statuses. */
enum outcome {
    OUTCOME_STORED,        /* Kafka has it, as the topic's durability class demands */
    OUTCOME_TOO_LARGE,     /* larger than the producer or the topic allows */
    OUTCOME_UNKNOWN_TOPIC, /* the topic or partition does not exist */
    OUTCOME_DENIED,        /* the cluster's access control refuses */
    OUTCOME_INVALID,       /* the cluster finds the record itself faulty */
    OUTCOME_UNAVAILABLE,   /* Kafka is away, or the topic's time limit passed; the record may still be there */
    OUTCOME_OVERLOADED,    /* no room, for a sender that cannot be made to wait */
    OUTCOME_FAILED,        /* anything else; the log has the details */
    OUTCOMES,
};

/* The outcome's name as the `reason` label of metrics and in logs, for example "unknown_topic". Never NULL. */
const char *sink_outcome_name(enum outcome outcome);

/* The request's half of a submission; owned by the requester, inside an object of its own, and not to be touched between
 * sink_submit() and its mail. */
struct delivery {
    struct mail mail;     /* on_mail is set by the requester */
    struct mailbox *home; /* set by the requester: the mailbox of the thread that waits */
    uint32_t charged_bytes;
    enum outcome outcome;
};

struct record_header {
    struct str name;
    struct str value;
};

/* A topic as the sink knows it: name, handle, settings. Owned by the sink, valid as long as it is. */
struct sink_topic;

/* What to write. All views are borrowed for the duration of the call. */
struct record {
    struct sink_topic *topic;
    struct str key;   /* empty: no key */
    struct str value; /* `p` NULL: a null value, which differs from an empty one */
    const struct record_header *headers;
    size_t n_headers;
    bool has_partition; /* else the key says which, or chance */
    int32_t partition;
};

/* Tells a thread that had no room that there is some again (below 80 % of the budget). One per waiting thread; owned by
 * it. Arming an armed waiter is a no-op; on_mail may arm it again. */
struct sink_waiter {
    struct mail mail;     /* on_mail is set by the requester */
    struct mailbox *home; /* set by the requester */
    bool is_armed;        /* the rest is the sink's; read by the owner's thread only */
    void (*on_room)(struct mail *m);
};

/* A topic to be made if it is missing. Owned by the requester, zeroed, and with `name` left alone until its mail comes. */
struct sink_creation {
    struct mail mail;     /* on_mail is set by the requester */
    struct mailbox *home; /* set by the requester */
    struct str name;
    err result; /* E_OK: it is there. E_DENIED, E_INVAL: the cluster refuses. E_CLOSED: the sink was stopped before */
};

struct sink;

struct sink_ops {
    struct sink_topic *(*topic)(struct sink *sink, struct str name, uint32_t limit_ms);
    err (*submit)(struct sink *sink, const struct record *record, struct delivery *delivery);
    void (*wait)(struct sink *sink, struct sink_waiter *waiter);
    uint64_t (*charge)(const struct record *record);
    err (*reserve)(struct sink *sink, uint64_t bytes, size_t n_records);
    void (*unreserve)(struct sink *sink, uint64_t bytes, size_t n_records);
    err (*submit_reserved)(struct sink *sink, const struct record *record, struct delivery *delivery);
    void (*create)(struct sink *sink, struct sink_creation *creation);
};

struct sink {
    const struct sink_ops *ops;
};

/* The handle of a topic by its full name; the same for every call with the name. Takes a lock for a name not seen before:
 * look it up once and keep it. NULL when the name is not a legal Kafka topic name. Any thread. */
static inline struct sink_topic *sink_find_topic(struct sink *sink, struct str name)
{
    return sink->ops->topic(sink, name, 0);
}

/* The same with a limit on how long its records may wait for Kafka; 0: the sink's own. It holds if this call is the first with
 * the name. */
static inline struct sink_topic *sink_find_topic_limited(struct sink *sink, struct str name, uint32_t limit_ms)
{
    return sink->ops->topic(sink, name, limit_ms);
}

/* Makes a topic if it is missing, with the cluster's own number of partitions and replicas, however long the cluster takes to
 * answer; the mail comes exactly once. Any thread; does not block. */
static inline void sink_create_topic(struct sink *sink, struct sink_creation *creation)
{
    sink->ops->create(sink, creation);
}

/* Hands a record over. Copies what it needs. Any thread; does not block.
 * E_OK: taken, the delivery will be answered by mail. E_AGAIN: no room, nothing has happened, see sink_wait().
 * E_INVAL: refused at once, the reason is in delivery->outcome and no mail comes. */
MUST_USE static inline err sink_submit(struct sink *sink, const struct record *record, struct delivery *delivery)
{
    return sink->ops->submit(sink, record, delivery);
}

/* Several records that go all or not at all: the room that each takes (0: it is larger than any that Kafka takes), room for the
 * sum of them, and its use. E_AGAIN of sink_reserve(): as of sink_submit(). What was reserved and is not submitted is given back
 * by sink_unreserve(). Any thread. */
static inline uint64_t sink_charge(struct sink *sink, const struct record *record)
{
    return sink->ops->charge(record);
}

MUST_USE static inline err sink_reserve(struct sink *sink, uint64_t bytes, size_t n_records)
{
    return sink->ops->reserve(sink, bytes, n_records);
}

static inline void sink_unreserve(struct sink *sink, uint64_t bytes, size_t n_records)
{
    sink->ops->unreserve(sink, bytes, n_records);
}

/* sink_submit() of a record for which there is room: never E_AGAIN. Refused, its room has been given back. */
MUST_USE static inline err sink_submit_reserved(struct sink *sink, const struct record *record, struct delivery *delivery)
{
    return sink->ops->submit_reserved(sink, record, delivery);
}

/* Arms a waiter after E_AGAIN. Its mail comes once, perhaps at once if there is room already. The thread of waiter->home. */
static inline void sink_wait(struct sink *sink, struct sink_waiter *waiter)
{
    sink->ops->wait(sink, waiter);
}

/* For implementations of `wait`, on the waiter's thread: true when it is armed now and its mail is to be posted once; false
 * when it was armed already. Disarms it again when the mail runs, on the same thread: a node that is still in a mailbox
 * cannot be posted a second time. */
MUST_USE bool sink_arm_waiter(struct sink_waiter *waiter);
