/* broker: MQTT's publish and subscribe over all workers. One shard a worker; a publish is matched against the publisher's own
 * shard at once and posted, as a reference, to those workers whose filters may match: each worker shows the others a summary
 * (subscriptions.h) that can only err on the side of a needless post.
 *
 * Everything but broker_new() and broker_free() runs on the worker of the shard it is given. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "core/message.h"
#include "loop/worker.h"
#include "registry/registry.h"

struct broker;
struct session;
struct shard;
struct tracker;

/* Bounds on what a client can make us hold. */
struct broker_limits {
    uint32_t subscriptions_per_session;
    uint32_t queued_messages; /* per session */
    uint32_t queued_bytes;    /* per session */
    uint16_t in_flight;       /* messages to one client that wait for its acknowledgement */
    uint32_t sessions;        /* of all workers, in equal parts; 0: no bound */
    uint32_t retained_messages;
    uint64_t retained_bytes; /* of both, 0: no bound */
};

struct broker_hooks {
    void *context;
    /* Publishes a will as if its client had sent it. Borrows both; `origin` is what session_attach() was given. */
    void (*publish_will)(void *context, struct shard *shard, const struct principal *principal, unsigned origin,
                         struct message *will);
    /* A session ends: its expiry interval has passed, or a clean start replaces it. Borrows it; NULL: nobody cares. Not when the
     * broker is freed. */
    void (*session_ended)(void *context, struct shard *shard, const struct session *ss, bool is_replaced);
};

/* A broker with a shard for each worker. Registers metrics: before the threads start. The caller owns it. */
struct broker *broker_new(struct workers *workers, const struct broker_limits *limits, const struct broker_hooks *hooks);

/* After the workers have stopped. Ends all sessions without publishing wills. */
void broker_free(struct broker *broker);

struct shard *broker_shard(struct broker *broker, unsigned worker_id);

/* The worker on which a client's session lives; `device` is empty for clients that did not authenticate as one. Any thread. */
unsigned broker_home(const struct broker *broker, struct str tenant, struct str device, struct str client_id);

/* Room in the mailboxes of other workers for one message, to be used up by broker_deliver() in the same turn. */
struct broker_room {
    uint64_t workers; /* a bit for each that may want it */
};

/* Finds room with all who may want the message. E_AGAIN: some worker has none; nothing was reserved. E_LIMIT: it is to be
 * retained, and there are as many retained messages as there may be; or it is larger than any mailbox. */
MUST_USE err broker_reserve(struct shard *shard, const struct message *message, struct broker_room *out_room);

/* Delivers to all matching subscribers, stores a retained message (an empty payload deletes it), and sets message->sequence.
 * Borrows the reference; uses the room up. */
void broker_deliver(struct shard *shard, struct message *message, const struct broker_room *room);

/* Both: for those who have nothing to do in between. E_AGAIN, E_LIMIT: as above; nobody got anything. */
MUST_USE err broker_publish(struct shard *shard, struct message *message);

/* broker_publish() of a message that is followed by `t`, which tracker_start() has made ready: `t->is_decided` says whether all
 * workers have looked for subscribers by the time it returns, else t->mail will. The shard's worker is the tracker's home. */
MUST_USE err broker_publish_tracked(struct shard *shard, struct message *message, struct tracker *t);

/* Is told of every subscription that is made or renewed, on the worker of the session that made it, after it has taken effect. */
struct broker_watcher {
    void *context;
    void (*on_subscribed)(void *context, struct shard *shard, struct str tenant, struct str filter);
};

/* Sets the watcher, which is borrowed; NULL: none. Before the threads start. */
void broker_watch(struct broker *broker, const struct broker_watcher *watcher);

/* The worker of a shard. */
struct worker *broker_worker(const struct shard *shard);

/* The limits that hold: those given to broker_new(), or later ones. */
const struct broker_limits *broker_limits(const struct shard *shard);

/* Others from now on. What is queued or subscribed beyond them stays, and so does the window of a connected client. */
void broker_set_limits(struct shard *shard, const struct broker_limits *limits);
