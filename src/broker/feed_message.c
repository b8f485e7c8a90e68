/* From a record to the message that subscribers get. */
#include "base/check.h"
#include "broker/feed_private.h"
#include "core/message.h"
#include "proto/mqtt/mqtt_property.h"

/* The encoded properties that every subscriber gets; false without memory. */
static bool encode_properties(struct feed_worker *fw, const struct source_record *r, const struct to_mqtt_message *m,
                              struct str *out_encoded)
{
    struct mqtt_properties props = {0};
    struct record_header property;
    size_t at = 0;

    buf_consume(&fw->properties, buf_size(&fw->properties));
    buf_consume(&fw->encoded, buf_size(&fw->encoded));
    while (to_mqtt_route_next_property(r, &at, &property))
        if (mqtt_property_append_user(&fw->properties, MEM_BROKER, property.name, property.value) != E_OK)
            return false;
    props.raw = buf_str(&fw->properties);
    if (m->content_type.p)
        mqtt_property_set_text(&props, MQTT_PROPERTY_CONTENT_TYPE, m->content_type);
    if (m->response_topic.p)
        mqtt_property_set_text(&props, MQTT_PROPERTY_RESPONSE_TOPIC, m->response_topic);
    if (m->correlation_data.p)
        mqtt_property_set_text(&props, MQTT_PROPERTY_CORRELATION_DATA, m->correlation_data);
    if (mqtt_property_encode_bare(&fw->encoded, MEM_BROKER, &props) != E_OK)
        return false;
    *out_encoded = buf_str(&fw->encoded);
    return true;
}

struct message *feed_message_new(struct feed_worker *fw, const struct source_record *r, const struct to_mqtt_message *m)
{
    const struct to_mqtt_spec *spec = &m->rule->spec;
    struct message *message;
    struct str properties;

    if (!encode_properties(fw, r, m, &properties))
        return NULL;
    message = message_new(m->tenant, m->topic, r->value, properties.n);
    if (!message)
        return NULL;
    if (properties.n)
        memcpy(message_properties(message), properties.p, properties.n);
    message->qos = spec->qos;
    message->retain = spec->is_retained;
    message->has_expiry = m->has_expiry;
    message->expiry_s = m->expiry_s;
    message->received_ms = feed_now_ms(fw);
    return message;
}
