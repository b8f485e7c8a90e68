/* mqtt_errors: a connection's subscriptions to the errors of its own publishes as a device (docs/DEVICES.md), and the messages
 * that go to them. They are none of the broker's: nobody else sees the messages, and they end with the connection, also when
 * its session goes on. One thread. */
#pragma once

#include "adapter/ledger.h"
#include "adapter/mqtt/mqtt_conn.h"
#include "adapter/mqtt/mqtt_metrics.h"
#include "core/device_topic.h"

struct mqtt_errors;

/* What is kept of a publish in case it fails, while somebody wants to know. */
struct mqtt_error_note;

/* Whether a filter of this connection is for errors: on a listener with Hono's endpoints, one that begins with `error` or `e` as
 * a whole level. It is then never an ordinary subscription. */
bool mqtt_errors_is_filter(const struct mqtt_conn *c, struct str filter);

/* Subscribes. The granted QoS, which is 0, or why not: 0x80 for another form or QoS, 0x87 for errors of somebody else, 0x97 when
 * there are as many as a session may have subscriptions. `id`: MQTT 5.0's Subscription Identifier, 0: none. */
uint8_t mqtt_errors_subscribe(struct mqtt_conn *c, struct str filter, uint8_t qos, uint32_t id);

/* False: there was none. */
bool mqtt_errors_unsubscribe(struct mqtt_conn *c, struct str filter);

/* A note about a publish that is going to be tried. NULL when the connection subscribes to no errors, or without memory: it then
 * fails as if nobody had subscribed. */
struct mqtt_error_note *mqtt_errors_note(const struct mqtt_conn *c, const struct device_topic *topic,
                                         struct str correlation_id);

/* The words for its failure, static; without them those of the refusal serve. A no-op without a note. */
void mqtt_errors_explain(struct mqtt_error_note *note, const char *text);

/* NULL is a no-op. */
void mqtt_errors_drop_note(struct mqtt_error_note *note);

/* Tells the client that its publish failed. False: it has no subscription for that (`note` may be NULL), no room for it, or takes
 * no packet so large. */
bool mqtt_errors_publish(struct mqtt_conn *c, const struct mqtt_error_note *note, uint16_t packet_id, enum ledger_refusal why);

/* Hono's status of a refusal, and its words. */
int mqtt_errors_status(enum ledger_refusal why);
const char *mqtt_errors_text(enum ledger_refusal why);

/* NULL is a no-op. */
void mqtt_errors_free(struct mqtt_errors *errors);
