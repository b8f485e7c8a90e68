/* mqtt_output: packets from the server to one client, and the broker's port to it (broker/link.h). */
#pragma once

#include "adapter/mqtt/mqtt_conn.h"

extern const struct link_ops mqtt_output_link_ops;

/* A DISCONNECT with a reason, for clients that have one (5.0). Does not close. */
void mqtt_output_disconnect(struct mqtt_conn *c, enum mqtt_reason reason);

/* PUBACK, PUBREC, PUBREL or PUBCOMP. */
void mqtt_output_ack(struct mqtt_conn *c, enum mqtt_type type, uint16_t packet_id, enum mqtt_reason reason);

/* A message of the server's own to this client, in JSON, at QoS 0, for the subscription with this identifier (0: it has none).
 * E_AGAIN: no room in the output. E_LIMIT: larger than the client takes. E_NOMEM: the connection closes. */
MUST_USE err mqtt_output_json(struct mqtt_conn *c, struct str topic, struct str body, uint32_t subscription_id);

/* What the client of a session's link speaks; MQTT_VERSION_NONE: there is no link. */
enum mqtt_version mqtt_output_version(struct link *link);
