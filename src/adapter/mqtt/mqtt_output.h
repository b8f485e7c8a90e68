/* mqtt_output: packets from the server to one client, and the broker's port to it (broker/link.h). */
#pragma once

#include "adapter/mqtt/mqtt_conn.h"

extern const struct link_ops mqtt_output_link_ops;

/* A DISCONNECT with a reason, for clients that have one (5.0). Does not close. */
void mqtt_output_disconnect(struct mqtt_conn *c, enum mqtt_reason reason);

/* PUBACK, PUBREC, PUBREL or PUBCOMP. */
void mqtt_output_ack(struct mqtt_conn *c, enum mqtt_type type, uint16_t packet_id, enum mqtt_reason reason);
