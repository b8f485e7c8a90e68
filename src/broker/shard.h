/* shard: what one worker holds of the broker: the sessions at home here, their subscriptions, and every retained message.
 * Only for the files of broker/. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/map.h"
#include "base/slab.h"
#include "broker/broker.h"
#include "broker/retained.h"
#include "broker/subscriptions.h"
#include "loop/worker.h"

struct shard {
    struct broker *broker;
    struct worker *worker;
    struct broker_limits limits;
    struct map sessions;
    struct slab session_slab;
    struct slab outgoing_slab;
    struct subscriptions subscriptions;
    struct retained retained;
    uint64_t next_session_number;
};

/* Tells whoever watches that a subscription was made or renewed. */
void shard_tell_subscribed(struct shard *shard, struct str tenant, struct str filter);

/* The hooks given to broker_new(). */
const struct broker_hooks *broker_hooks(const struct shard *shard);
