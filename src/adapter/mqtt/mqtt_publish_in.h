/* mqtt_publish_in: where a publish goes: to Kafka as a device's data, or to the subscribers. The PUBLISH handler itself is
 * declared in mqtt_handlers.h. */
#pragma once

#include "adapter/mqtt/mqtt_conn.h"

/* A publish as the message that subscribers get. NULL: no memory. */
struct mqtt_publish;
struct message *mqtt_publish_in_message(struct mqtt_conn *c, const struct mqtt_publish *publish, struct str topic)
    __attribute__((warn_unused_result));

/* Whether nobody may publish there. */
bool mqtt_publish_in_is_reserved(struct str topic);

/* Whether it claims to be text and is not (section 3.3.2.3.2). */
bool mqtt_publish_in_has_bad_format(const struct mqtt_publish *publish);

/* Waits for room in a mailbox, which nobody announces. HANDLE_WAIT. */
enum handle mqtt_publish_in_wait(struct mqtt_conn *c);

/* Publishes a will, for the first time or again when its mapper has answered. */
void mqtt_publish_in_route_will(struct mqtt_worker *mw, const struct principal *principal, unsigned origin,
                                struct message *will);

/* The broker's hook for wills (broker/broker.h). `context` is the adapter, `origin` the listener
 * the client came by. On the shard's worker. */
void mqtt_publish_in_will(void *context, struct shard *shard, const struct principal *principal, unsigned origin,
                          struct message *will);
