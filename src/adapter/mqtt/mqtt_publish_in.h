/* mqtt_publish_in: where a publish goes: to Kafka as a device's data, or to the subscribers. The PUBLISH handler itself is
 * declared in mqtt_handlers.h. */
#pragma once

#include "adapter/mqtt/mqtt_worker.h"

/* The broker's hook for wills (broker/broker.h). `context` is the adapter, `origin` the listener
 * the client came by. On the shard's worker. */
void mqtt_publish_in_will(void *context, struct shard *shard, const struct principal *principal, unsigned origin,
                          struct message *will);
