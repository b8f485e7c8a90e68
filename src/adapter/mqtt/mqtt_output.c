#include "adapter/mqtt/mqtt_output.h"

#include "adapter/mqtt/mqtt_events.h"
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
    mqtt_conn_sent(c, result);
    /* Without memory the connection closes, and the message stays where it is for the next one. */
    return result == E_NOMEM ? E_AGAIN : result;
}

static void pubrel(struct link *link, uint16_t packet_id)
{
    mqtt_output_ack(from_link(link), MQTT_PUBREL, packet_id, MQTT_REASON_SUCCESS);
}

static void taken_over(struct link *link)
{
    struct mqtt_conn *c = from_link(link);

    mqtt_events_tell_disconnect(c, MQTT_END_SERVER, MQTT_REASON_SESSION_TAKEN_OVER);
    c->ss = NULL;                                              /* it belongs to another link now */
    mqtt_output_disconnect(c, MQTT_REASON_SESSION_TAKEN_OVER); /* [MQTT-3.1.4-3] */
    mqtt_conn_finish(c);
}

static void barred(struct link *link)
{
    mqtt_conn_fail(from_link(link), MQTT_REASON_ADMINISTRATIVE_ACTION);
}

const struct link_ops mqtt_output_link_ops = {
    .publish = publish,
    .pubrel = pubrel,
    .taken_over = taken_over,
    .barred = barred,
};
