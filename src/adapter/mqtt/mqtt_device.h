/* mqtt_device: what a client publishes as a device, to `telemetry`, `event` and their like, becomes a record in Kafka
 * (spec/hono 2.2, 2.3). Runs inside the PUBLISH handler. */
#pragma once

#include "adapter/mqtt/mqtt_conn.h"
#include "adapter/mqtt/mqtt_metrics.h"
#include "core/device_topic.h"

/* `fault` and `topic` come from device_topic_parse(). Answers the publish now or when Kafka has it. HANDLE_WAIT: no room. */
enum handle mqtt_device_publish(struct mqtt_conn *c, const struct mqtt_publish *publish, struct str address,
                                const struct device_topic *topic, enum device_fault fault);

/* The same for a will, which nobody waits for. */
void mqtt_device_publish_will(struct mqtt_worker *mw, const struct principal *principal, const struct message *will,
                              const struct device_topic *topic, enum device_fault fault);
