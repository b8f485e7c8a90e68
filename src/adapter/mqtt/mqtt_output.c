#include "adapter/mqtt/mqtt_output.h"

#include "base/check.h"
#include "core/message.h"

static struct mqtt_conn *from_link(struct link *link)
{
    return CONTAINER_OF(link, struct mqtt_conn, link);
}

void mqtt_output_disconnect(struct mqtt_conn *c, enum mqtt_reason reason)
{
    struct mqtt_encoder e = mqtt_conn_encoder(c);

    ERR_IGNORE(mqtt_ack_encode_disconnect(&e, reason, NULL)); /* the connection closes in any case */
}

void mqtt_output_ack(struct mqtt_conn *c, enum mqtt_type type, uint16_t packet_id, enum mqtt_reason reason)
{
    struct mqtt_encoder e = mqtt_conn_encoder(c);

    mqtt_conn_sent(c, mqtt_ack_encode(&e, type, packet_id, reason, NULL));
}

/* One packet always finds room in an empty output, however large it is. */
static bool has_room(const struct mqtt_conn *c, size_t bytes)
{
    size_t pending = stream_pending(&c->stream);

    return pending == 0 || pending + bytes <= mqtt_limits(c->mw)->output_bytes;
}

static err publish(struct link *link, const struct link_publish *p)
{
    struct mqtt_conn *c = from_link(link);
    const struct message *m = p->message;
    struct mqtt_encoder e = mqtt_conn_encoder(c);
    struct mqtt_publish_out out = {
        .topic = m->topic,
        .payload = m->payload,
        .properties = m->properties,
        .subscription_ids = p->subscription_ids,
        .subscription_id_count = p->n_subscription_ids,
        .message_expiry_interval = p->expiry_left_s,
        .has_message_expiry = m->has_expiry,
        .packet_id = p->packet_id,
        .qos = p->qos,
        .dup = p->dup,
        .retain = p->retain,
    };
    err result;

    if (!has_room(c, mqtt_publish_size((enum mqtt_version)c->version, &out)))
        return E_AGAIN;
    result = mqtt_publish_encode(&e, &out);
    if (result == E_OK)
        stream_flush(&c->stream);
    return result;
}

static void pubrel(struct link *link, uint16_t packet_id)
{
    mqtt_output_ack(from_link(link), MQTT_PUBREL, packet_id, MQTT_REASON_SUCCESS);
}

/* Refused after the connection it came on had gone: 3.1.1 has no other word for it than closing. */
static void pubrec(struct link *link, uint16_t packet_id, bool is_stored)
{
    struct mqtt_conn *c = from_link(link);

    if (is_stored)
        mqtt_output_ack(c, MQTT_PUBREC, packet_id, MQTT_REASON_SUCCESS);
    else if (c->version == MQTT_VERSION_5)
        mqtt_output_ack(c, MQTT_PUBREC, packet_id, MQTT_REASON_UNSPECIFIED_ERROR);
    else
        mqtt_conn_close(c, true);
}

static void taken_over(struct link *link)
{
    struct mqtt_conn *c = from_link(link);

    c->ss = NULL;                                              /* it belongs to another link now */
    mqtt_output_disconnect(c, MQTT_REASON_SESSION_TAKEN_OVER); /* [MQTT-3.1.4-3] */
    mqtt_conn_finish(c);
}

const struct link_ops mqtt_output_link_ops = {
    .publish = publish,
    .pubrel = pubrel,
    .pubrec = pubrec,
    .taken_over = taken_over,
};
