/* tenant_topics: the Kafka topics of the tenants that a worker has met, each looked up at the sink once. One thread. */
#pragma once

#include "base/map.h"
#include "core/device_topic.h"
#include "core/sink.h"

/* All-zero but for `sink` is empty. */
struct tenant_topics {
    struct sink *sink; /* lives longer */
    struct map map;
};

/* The topic of an endpoint of a tenant: `hono.telemetry.T`, `hono.event.T`, and `hono.command_response.T` for what is published
 * to `command`. NULL for other endpoints. */
struct sink_topic *tenant_topics_find(struct tenant_topics *topics, struct str tenant, enum device_endpoint endpoint);

void tenant_topics_fini(struct tenant_topics *topics);
