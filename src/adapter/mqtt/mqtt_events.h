/* mqtt_events: what happens to clients, told to the rules that take events (docs/wire/rules.md has the JSON). Nothing is done, and
 * no text is made, unless a rule asks for the event. Runs on the worker. */
#pragma once

#include "adapter/mqtt/mqtt_conn.h"
#include "proto/mqtt/mqtt_connect.h"
#include "proto/mqtt/mqtt_subscribe.h"

struct session;

/* The CONNACK has been written. */
void mqtt_events_tell_connect(struct mqtt_conn *c, const struct mqtt_connect *connect, bool is_present);

/* Who ended a connection. */
enum mqtt_end { MQTT_END_CLIENT, MQTT_END_SERVER, MQTT_END_NETWORK };

/* The connection ends; its session is still known. Once for each connection: what is told first counts. `code` is the reason code
 * of the DISCONNECT, received or sent; of MQTT_END_NETWORK there is none. */
void mqtt_events_tell_disconnect(struct mqtt_conn *c, enum mqtt_end by, enum mqtt_reason code);

/* The SUBACK has been written; `reasons` are its. */
void mqtt_events_tell_subscribe(struct mqtt_conn *c, const struct mqtt_subscribe *packet, const uint8_t *reasons);

/* The broker's hook (broker/broker.h). `context` is the adapter. */
void mqtt_events_tell_session_end(void *context, struct shard *shard, const struct session *ss, bool is_replaced);
