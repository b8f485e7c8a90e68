/* packet: the whole MQTT codec, 3.1, 3.1.1 and 5.0, for one include.
 *
 * Reading, per connection with its `version` (MQTT_VERSION_NONE at first) and the bytes received so far:
 *     switch (mqtt_frame_decode(in, version, max_packet_size, &frame)) ...
 * then by frame.type one of mqtt_connect_decode(), mqtt_publish_decode(), mqtt_ack_decode() (PUBACK, PUBREC, PUBREL, PUBCOMP,
 * DISCONNECT, AUTH) or mqtt_subscribe_decode() (also UNSUBSCRIBE); PINGREQ has no body, which the frame has checked. A decoder
 * of a packet's body returns MQTT_REASON_SUCCESS or why the connection must end. Then frame.size bytes are consumed; what
 * was decoded borrowed them and is gone.
 *
 * Writing goes through a struct mqtt_encoder (mqtt_frame.h): mqtt_connect_encode_connack(), mqtt_publish_encode(),
 * mqtt_ack_encode(), mqtt_subscribe_encode_suback(), mqtt_subscribe_encode_unsuback(), mqtt_frame_encode_empty(PINGRESP),
 * mqtt_ack_encode_disconnect(), mqtt_ack_encode_auth().
 *
 * Strings are refused (0x81) when they are not well-formed UTF-8, hold U+0000 [MQTT-1.5.4-1, 1.5.4-2], or one of the control
 * characters and non-characters of which section 1.5.4 says that a receiver may refuse them: a client that did would be thrown
 * out by a message that we passed on. */
#pragma once

#include "proto/mqtt/mqtt_ack.h"
#include "proto/mqtt/mqtt_connect.h"
#include "proto/mqtt/mqtt_frame.h"
#include "proto/mqtt/mqtt_property.h"
#include "proto/mqtt/mqtt_publish.h"
#include "proto/mqtt/mqtt_reason.h"
#include "proto/mqtt/mqtt_subscribe.h"
#include "proto/mqtt/topic.h"
