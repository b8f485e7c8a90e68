/* mqtt_handlers: one function for each packet a client may send. All run inside the connection's read path; `frame` is
 * borrowed. A handler that closes the connection still answers HANDLE_DONE. */
#pragma once

#include "adapter/mqtt/mqtt_conn.h"

/* `packet` is the whole packet as received, for a hand-over; `rest` what stands behind it. */
enum handle mqtt_handle_connect(struct mqtt_conn *c, const struct mqtt_frame *frame, struct str packet_and_rest);

enum handle mqtt_handle_publish(struct mqtt_conn *c, const struct mqtt_frame *frame);
enum handle mqtt_handle_subscribe(struct mqtt_conn *c, const struct mqtt_frame *frame);
enum handle mqtt_handle_unsubscribe(struct mqtt_conn *c, const struct mqtt_frame *frame);

/* PUBACK, PUBREC, PUBREL, PUBCOMP. */
enum handle mqtt_handle_ack(struct mqtt_conn *c, const struct mqtt_frame *frame);
enum handle mqtt_handle_pingreq(struct mqtt_conn *c, const struct mqtt_frame *frame);
enum handle mqtt_handle_disconnect(struct mqtt_conn *c, const struct mqtt_frame *frame);
enum handle mqtt_handle_auth(struct mqtt_conn *c, const struct mqtt_frame *frame);
