#include "adapter/mqtt/mqtt_output.h"

#include "adapter/mqtt/mqtt_aliases_out.h"
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

/* Writes a PUBLISH, by alias if the client lets us set one. */
static err write_publish(struct mqtt_conn *c, struct mqtt_publish_out *out)
{
    struct mqtt_encoder e = mqtt_conn_encoder(c);
    struct str topic = out->topic;
    bool is_new = false;
    err result;

    if (c->aliases_out_maximum && c->state == MQTT_OPEN)
        is_new = mqtt_aliases_out_use(c, out);
    if (!has_room(c, mqtt_publish_size((enum mqtt_version)c->version, out)))
        return E_AGAIN;
    result = mqtt_publish_encode(&e, out);
    if (result == E_OK && is_new)
        mqtt_aliases_out_set(c, topic);
    mqtt_conn_sent(c, result);
    return result;
}

err mqtt_output_json(struct mqtt_conn *c, struct str topic, struct str body, uint32_t subscription_id)
{
    static const struct str content_type = STR_INIT("\x03\x00\x10"
                                                    "application/json"); /* section 3.3.2.3.9 */
    struct mqtt_encoder e = mqtt_conn_encoder(c);
    struct mqtt_publish_out out = {
        .topic = topic,
        .payload = body,
        .properties = content_type,
        .subscription_ids = &subscription_id,
        .subscription_id_count = subscription_id != 0,
    };
    err result;

    if (!has_room(c, mqtt_publish_size((enum mqtt_version)c->version, &out)))
        return E_AGAIN;
    result = mqtt_publish_encode(&e, &out);
    mqtt_conn_sent(c, result);
    return result;
}

static err publish(struct link *link, const struct link_publish *p)
{
    struct mqtt_conn *c = from_link(link);
    const struct message *m = p->message;
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
    err result = write_publish(c, &out);

    /* Without memory the connection closes, and the message stays where it is for the next one. */
    return result == E_NOMEM ? E_AGAIN : result;
}

enum mqtt_version mqtt_output_version(struct link *link)
{
    return link ? (enum mqtt_version)from_link(link)->version : MQTT_VERSION_NONE;
}

static void pubrel(struct link *link, uint16_t packet_id)
{
    mqtt_output_ack(from_link(link), MQTT_PUBREL, packet_id, MQTT_REASON_SUCCESS);
}

/* A connection that we do not read cannot be blamed for silence. */
static bool overdue(struct link *link)
{
    struct mqtt_conn *c = from_link(link);

    if (c->stream.is_paused)
        return false;
    mqtt_conn_fail(c, MQTT_REASON_IMPLEMENTATION_SPECIFIC_ERROR);
    return true;
}

static void taken_over(struct link *link)
{
    struct mqtt_conn *c = from_link(link);

    mqtt_events_tell_disconnect(c, MQTT_END_SERVER, MQTT_REASON_SESSION_TAKEN_OVER);
    mqtt_conn_count_end(c);
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
    .overdue = overdue,
    .taken_over = taken_over,
    .barred = barred,
};
