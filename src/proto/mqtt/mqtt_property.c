#include "proto/mqtt/mqtt_property.h"

#include "base/check.h"
#include "proto/mqtt/mqtt_wire.h"
#include "proto/mqtt/topic.h"

enum { ID_USER_PROPERTY = 0x26, TEXT_MAX = 65535 };

/* A value of any type, between wire and field. */
struct value {
    uint32_t number;
    struct str text;
    struct str name; /* of a User Property */
};

static bool is_number(uint8_t type)
{
    return type <= MQTT_TYPE_VARIABLE_BYTE_INTEGER;
}

static struct value read_value(struct mqtt_wire *r, uint8_t type)
{
    struct value v = {0};

    switch ((enum mqtt_property_type)type) {
    case MQTT_TYPE_BYTE:
        v.number = mqtt_wire_u8(r);
        break;
    case MQTT_TYPE_TWO_BYTE_INTEGER:
        v.number = mqtt_wire_u16(r);
        break;
    case MQTT_TYPE_FOUR_BYTE_INTEGER:
        v.number = mqtt_wire_u32(r);
        break;
    case MQTT_TYPE_VARIABLE_BYTE_INTEGER:
        v.number = mqtt_wire_varint(r);
        break;
    case MQTT_TYPE_UTF8_STRING_PAIR:
        v.name = mqtt_wire_binary(r);
        v.text = mqtt_wire_binary(r);
        break;
    case MQTT_TYPE_BINARY_DATA:
    case MQTT_TYPE_UTF8_STRING:
        v.text = mqtt_wire_binary(r);
        break;
    }
    return v;
}

static size_t value_size(const struct value *v, uint8_t type)
{
    static const uint8_t fixed[] = {[MQTT_TYPE_BYTE] = 1, [MQTT_TYPE_TWO_BYTE_INTEGER] = 2, [MQTT_TYPE_FOUR_BYTE_INTEGER] = 4};

    if (type < ARRAY_LEN(fixed))
        return fixed[type];
    if (type == MQTT_TYPE_VARIABLE_BYTE_INTEGER)
        return mqtt_wire_varint_size(v->number);
    return 2 + v->text.n + (type == MQTT_TYPE_UTF8_STRING_PAIR ? 2 + v->name.n : 0);
}

static char *write_value(char *p, const struct value *v, uint8_t type)
{
    switch ((enum mqtt_property_type)type) {
    case MQTT_TYPE_BYTE:
        return mqtt_wire_put_u8(p, v->number);
    case MQTT_TYPE_TWO_BYTE_INTEGER:
        return mqtt_wire_put_u16(p, v->number);
    case MQTT_TYPE_FOUR_BYTE_INTEGER:
        return mqtt_wire_put_u32(p, v->number);
    case MQTT_TYPE_VARIABLE_BYTE_INTEGER:
        return mqtt_wire_put_varint(p, v->number);
    case MQTT_TYPE_UTF8_STRING_PAIR:
        return mqtt_wire_put_binary(mqtt_wire_put_binary(p, v->name), v->text);
    case MQTT_TYPE_BINARY_DATA:
    case MQTT_TYPE_UTF8_STRING:
        return mqtt_wire_put_binary(p, v->text);
    }
    return p;
}

/* The field of a row. memcpy() instead of pointers of four types: the compiler makes the same code of it. */
static void set_field(struct mqtt_properties *props, const struct mqtt_property_row *row, const struct value *v)
{
    char *field = (char *)props + row->offset;
    uint8_t byte = (uint8_t)v->number;
    uint16_t two = (uint16_t)v->number;

    if (row->type == MQTT_TYPE_BYTE)
        memcpy(field, &byte, sizeof byte);
    else if (row->type == MQTT_TYPE_TWO_BYTE_INTEGER)
        memcpy(field, &two, sizeof two);
    else if (is_number(row->type))
        memcpy(field, &v->number, sizeof v->number);
    else
        memcpy(field, &v->text, sizeof v->text);
}

static struct value get_field(const struct mqtt_properties *props, const struct mqtt_property_row *row)
{
    const char *field = (const char *)props + row->offset;
    struct value v = {0};
    uint8_t byte;
    uint16_t two;

    if (row->type == MQTT_TYPE_BYTE) {
        memcpy(&byte, field, sizeof byte);
        v.number = byte;
    } else if (row->type == MQTT_TYPE_TWO_BYTE_INTEGER) {
        memcpy(&two, field, sizeof two);
        v.number = two;
    } else if (is_number(row->type)) {
        memcpy(&v.number, field, sizeof v.number);
    } else {
        memcpy(&v.text, field, sizeof v.text);
    }
    return v;
}

void mqtt_property_set_number(struct mqtt_properties *props, enum mqtt_property which, uint32_t value)
{
    const struct mqtt_property_row *row = &mqtt_property_table[which];

    ASSERT(is_number(row->type));
    set_field(props, row, &(struct value){.number = value});
    props->has |= 1u << which;
}

void mqtt_property_set_text(struct mqtt_properties *props, enum mqtt_property which, struct str value)
{
    const struct mqtt_property_row *row = &mqtt_property_table[which];

    ASSERT(row->type == MQTT_TYPE_UTF8_STRING || row->type == MQTT_TYPE_BINARY_DATA);
    ASSERT(value.n <= TEXT_MAX);
    set_field(props, row, &(struct value){.text = value});
    props->has |= 1u << which;
}

/* What is wrong with a value that was there in full. */
static enum mqtt_reason check_value(const struct mqtt_property_row *row, const struct value *v)
{
    if (is_number(row->type))
        return v->number < row->minimum || v->number > row->maximum ? row->reason : MQTT_REASON_SUCCESS;
    if (row->type == MQTT_TYPE_BINARY_DATA || (utf8_is_plain(v->text) && utf8_is_plain(v->name)))
        return MQTT_REASON_SUCCESS;
    return MQTT_REASON_MALFORMED_PACKET; /* [MQTT-1.5.4-1, 1.5.4-2, 1.5.7-1] */
}

/* Rules between properties. */
static enum mqtt_reason check_whole(const struct mqtt_properties *props)
{
    uint32_t levels;

    if (mqtt_property_has(props, MQTT_PROPERTY_RESPONSE_TOPIC) && topic_check_name(props->response_topic, &levels) != E_OK)
        return MQTT_REASON_PROTOCOL_ERROR; /* [MQTT-3.3.2-14, 4.7.3-1] */
    if (mqtt_property_has(props, MQTT_PROPERTY_AUTHENTICATION_DATA) &&
        !mqtt_property_has(props, MQTT_PROPERTY_AUTHENTICATION_METHOD))
        return MQTT_REASON_PROTOCOL_ERROR; /* section 3.1.2.11.10 */
    return MQTT_REASON_SUCCESS;
}

enum mqtt_reason mqtt_property_decode(struct str raw, unsigned type, struct mqtt_properties *out)
{
    struct mqtt_wire r = mqtt_wire_reader(raw);
    const uint32_t packet = 1u << type;

    out->has = 0;
    out->raw = raw;
    while (mqtt_wire_left(&r)) {
        enum mqtt_property which;

        if (!mqtt_property_find(mqtt_wire_varint(&r), &which) || r.is_short)
            return MQTT_REASON_MALFORMED_PACKET; /* section 2.2.2.2 */
        const struct mqtt_property_row *row = &mqtt_property_table[which];
        struct value v = read_value(&r, row->type);
        bool is_first = !(out->has >> which & 1u);

        if (r.is_short)
            return MQTT_REASON_MALFORMED_PACKET;
        if (!(row->packets & packet))
            return MQTT_REASON_MALFORMED_PACKET; /* section 2.2.2.2: "not valid for its packet type" */
        if (!is_first && !(row->repeatable & packet))
            return MQTT_REASON_PROTOCOL_ERROR; /* "a Protocol Error to include ... more than once", at each property */
        enum mqtt_reason reason = check_value(row, &v);

        if (reason)
            return reason;
        out->has |= 1u << which;
        if (is_first && row->type != MQTT_TYPE_UTF8_STRING_PAIR)
            set_field(out, row, &v);
    }
    return check_whole(out);
}

enum mqtt_reason mqtt_property_read(struct mqtt_wire *r, unsigned type, struct mqtt_properties *out)
{
    struct str raw = mqtt_wire_bytes(r, mqtt_wire_varint(r));

    out->has = 0;
    out->raw = (struct str){0};
    if (r->is_short)
        return MQTT_REASON_MALFORMED_PACKET;
    return raw.n ? mqtt_property_decode(raw, type, out) : MQTT_REASON_SUCCESS;
}

/* Takes one property from `*rest`, which has been checked. */
static bool take(struct str *rest, enum mqtt_property *out_which, struct value *out)
{
    struct mqtt_wire r = mqtt_wire_reader(*rest);

    if (rest->n == 0 || !mqtt_property_find(mqtt_wire_varint(&r), out_which))
        return false;
    *out = read_value(&r, mqtt_property_table[*out_which].type);
    *rest = mqtt_wire_rest(&r);
    return !r.is_short;
}

/* The next one of a kind. */
static bool take_next(struct str *rest, enum mqtt_property wanted, struct value *out)
{
    enum mqtt_property which;

    while (take(rest, &which, out))
        if (which == wanted)
            return true;
    return false;
}

bool mqtt_property_next(struct str *rest, enum mqtt_property *out_which, struct str *out_encoded)
{
    const char *start = rest->p;
    struct value v;

    if (!take(rest, out_which, &v))
        return false;
    *out_encoded = (struct str){start, (size_t)(rest->p - start)};
    return true;
}

bool mqtt_property_next_user(struct str *rest, struct mqtt_user_property *out)
{
    struct value v;

    if (!take_next(rest, MQTT_PROPERTY_USER_PROPERTY, &v))
        return false;
    *out = (struct mqtt_user_property){v.name, v.text};
    return true;
}

bool mqtt_property_next_subscription(struct str *rest, uint32_t *out_identifier)
{
    struct value v;

    if (!take_next(rest, MQTT_PROPERTY_SUBSCRIPTION_IDENTIFIER, &v))
        return false;
    *out_identifier = v.number;
    return true;
}

err mqtt_property_append_user(struct buf *out, enum mem_sub sub, struct str name, struct str value)
{
    struct value v = {.name = name, .text = value};

    if (name.n > TEXT_MAX || value.n > TEXT_MAX)
        return E_INVAL;
    size_t size = 1 + value_size(&v, MQTT_TYPE_UTF8_STRING_PAIR);
    char *p = buf_reserve(out, sub, size);
    if (!p)
        return E_NOMEM;
    write_value(mqtt_wire_put_u8(p, ID_USER_PROPERTY), &v, MQTT_TYPE_UTF8_STRING_PAIR);
    buf_commit(out, size);
    return E_OK;
}

/* Takes the next property to encode, in the order of the table; `*left` starts as props->has. User Properties come from
 * `raw` instead. */
static bool next_field(const struct mqtt_properties *props, uint32_t *left, const struct mqtt_property_row **out_row,
                       struct value *out)
{
    *left &= ~(1u << MQTT_PROPERTY_USER_PROPERTY);
    if (*left == 0)
        return false;
    *out_row = &mqtt_property_table[__builtin_ctz(*left)];
    *out = get_field(props, *out_row);
    *left &= *left - 1;
    return true;
}

/* Without the length before them. */
static size_t content_size(const struct mqtt_properties *props)
{
    const struct mqtt_property_row *row;
    struct value v;
    size_t size = 0;

    for (uint32_t left = props->has; next_field(props, &left, &row, &v);)
        size += 1 + value_size(&v, row->type);
    for (struct str rest = props->raw; take_next(&rest, MQTT_PROPERTY_USER_PROPERTY, &v);)
        size += 1 + value_size(&v, MQTT_TYPE_UTF8_STRING_PAIR);
    return size;
}

size_t mqtt_property_size(const struct mqtt_properties *props)
{
    size_t size = content_size(props);

    return mqtt_wire_varint_size(size) + size;
}

static char *write_content(char *p, const struct mqtt_properties *props)
{
    const struct mqtt_property_row *row;
    struct value v;

    for (uint32_t left = props->has; next_field(props, &left, &row, &v);)
        p = write_value(mqtt_wire_put_u8(p, row->id), &v, row->type);
    for (struct str rest = props->raw; take_next(&rest, MQTT_PROPERTY_USER_PROPERTY, &v);)
        p = write_value(mqtt_wire_put_u8(p, ID_USER_PROPERTY), &v, MQTT_TYPE_UTF8_STRING_PAIR);
    return p;
}

char *mqtt_property_write(char *p, const struct mqtt_properties *props)
{
    return write_content(mqtt_wire_put_varint(p, content_size(props)), props);
}

err mqtt_property_encode_bare(struct buf *out, enum mem_sub sub, const struct mqtt_properties *props)
{
    size_t size = content_size(props);
    char *to = buf_reserve(out, sub, size);

    if (!to)
        return E_NOMEM;
    write_content(to, props);
    buf_commit(out, size);
    return E_OK;
}

struct mqtt_properties mqtt_property_trim(const struct mqtt_encoder *e, size_t other, const struct mqtt_properties *props)
{
    struct mqtt_properties kept = {0};

    if (!props || e->version < MQTT_VERSION_5)
        return kept;
    kept = *props;
    if (e->max_packet_size == 0)
        return kept;
    if (mqtt_frame_size(other + mqtt_property_size(&kept)) > e->max_packet_size)
        kept.raw = (struct str){0};
    if (mqtt_frame_size(other + mqtt_property_size(&kept)) > e->max_packet_size)
        kept.has &= ~(1u << MQTT_PROPERTY_REASON_STRING);
    return kept;
}
