#include "adapter/mqtt/mqtt_events.h"
#include "adapter/mqtt/mqtt_handlers.h"
#include "adapter/mqtt/mqtt_output.h"
#include "broker/outgoing.h"

/* The client has the message, or refuses it: either way it is settled (sections 3.4, 3.5). A packet identifier that is not in
 * flight has been settled before, so PUBREL, and PUBCOMP below, say Success and not 0x92, which the client can do nothing
 * about. */
static enum outgoing_answer on_pubrec(struct mqtt_conn *c, const struct mqtt_ack *ack)
{
    bool is_error = ack->reason >= MQTT_REASON_UNSPECIFIED_ERROR;
    enum outgoing_answer answer = outgoing_on_pubrec(c->ss, ack->packet_id, is_error);

    if (answer != OUTGOING_MISMATCH && !is_error)
        mqtt_output_ack(c, MQTT_PUBREL, ack->packet_id, MQTT_REASON_SUCCESS);
    return answer;
}

/* A PUBREL for a message whose PUBREC was not sent yet is no answer to it. */
static void on_pubrel(struct mqtt_conn *c, const struct mqtt_ack *ack)
{
    struct incoming *incoming = session_find_incoming(c->ss, ack->packet_id);

    if (incoming && !incoming->is_stored) {
        mqtt_conn_fail(c, MQTT_REASON_PROTOCOL_ERROR);
        return;
    }
    (void)session_remove_incoming(c->ss, ack->packet_id);
    mqtt_output_ack(c, MQTT_PUBCOMP, ack->packet_id, MQTT_REASON_SUCCESS);
}

enum handle mqtt_handle_ack(struct mqtt_conn *c, const struct mqtt_frame *frame)
{
    struct mqtt_ack ack;
    enum mqtt_reason reason = mqtt_ack_decode(frame, (enum mqtt_version)c->version, &ack);
    enum outgoing_answer answer = OUTGOING_ANSWERED;

    if (reason != MQTT_REASON_SUCCESS) {
        mqtt_conn_fail(c, reason);
        return HANDLE_DONE;
    }
    if (frame->type == MQTT_PUBREC)
        answer = on_pubrec(c, &ack);
    else if (frame->type == MQTT_PUBREL)
        on_pubrel(c, &ack);
    else if (frame->type == MQTT_PUBACK)
        answer = outgoing_on_puback(c->ss, ack.packet_id);
    else
        answer = outgoing_on_pubcomp(c->ss, ack.packet_id);
    if (answer == OUTGOING_MISMATCH) /* a QoS 2 message answered by PUBACK and the like */
        mqtt_conn_fail(c, MQTT_REASON_PROTOCOL_ERROR);
    return HANDLE_DONE;
}

enum handle mqtt_handle_pingreq(struct mqtt_conn *c, const struct mqtt_frame *frame)
{
    struct mqtt_encoder e = mqtt_conn_encoder(c);

    (void)frame;
    mqtt_conn_sent(c, mqtt_frame_encode_empty(&e, MQTT_PINGRESP)); /* [MQTT-3.12.4-1] */
    return HANDLE_DONE;
}

enum handle mqtt_handle_disconnect(struct mqtt_conn *c, const struct mqtt_frame *frame)
{
    struct mqtt_ack ack;
    enum mqtt_reason reason = mqtt_ack_decode(frame, (enum mqtt_version)c->version, &ack);
    bool has_expiry;

    if (reason != MQTT_REASON_SUCCESS) {
        mqtt_conn_fail(c, reason);
        return HANDLE_DONE;
    }
    has_expiry = c->version == MQTT_VERSION_5 && mqtt_property_has(&ack.properties, MQTT_PROPERTY_SESSION_EXPIRY_INTERVAL);
    if (has_expiry && ack.properties.session_expiry_interval && !c->has_expiry) {
        mqtt_conn_fail(c, MQTT_REASON_PROTOCOL_ERROR); /* section 3.14.2.2.2 */
        return HANDLE_DONE;
    }
    if (has_expiry)
        session_set_expiry(c->ss, ack.properties.session_expiry_interval);
    mqtt_events_tell_disconnect(c, MQTT_END_CLIENT, ack.reason);
    mqtt_conn_close(c, ack.reason != MQTT_REASON_SUCCESS); /* [MQTT-3.14.4-3] */
    return HANDLE_DONE;
}

/* No authentication method is offered, so no client may have begun an exchange (section 4.12). */
enum handle mqtt_handle_auth(struct mqtt_conn *c, const struct mqtt_frame *frame)
{
    (void)frame;
    mqtt_conn_fail(c, MQTT_REASON_PROTOCOL_ERROR);
    return HANDLE_DONE;
}
