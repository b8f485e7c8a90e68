#include "fanout/fanout_park_record.h"

#include "base/siphash.h"

/* The layout, numbers with their lowest byte first, texts behind their length (4 bytes):
 *
 *   version (1), parked_at_ms (8), kind of data (1), channel, uid, lines,
 *   number of attributes (2), each: type (1), name, value,
 *   number of extras (2), each the same,
 *   data
 */
enum { VERSION = 1, EXTRAS_MAX = 64 };

/* ---- writing ---- */

static err put_number(struct buf *out, uint64_t value, size_t n)
{
    char bytes[sizeof value];

    for (size_t i = 0; i < n; i++)
        bytes[i] = (char)(unsigned char)(value >> 8 * i);
    return buf_append(out, MEM_FANOUT, (struct str){bytes, n});
}

static err put_text(struct buf *out, struct str text)
{
    err e = put_number(out, text.n, 4);

    return e == E_OK ? buf_append(out, MEM_FANOUT, text) : e;
}

static err put_attributes(struct buf *out, const struct cloudevent_attribute *attributes, size_t n)
{
    err e = put_number(out, n, 2);

    for (size_t i = 0; i < n && e == E_OK; i++) {
        e = put_number(out, attributes[i].type, 1);
        if (e == E_OK)
            e = put_text(out, attributes[i].name);
        if (e == E_OK)
            e = put_text(out, attributes[i].value);
    }
    return e;
}

static err put_head(struct buf *out, const struct fanout_park_record *record)
{
    const struct str texts[] = {record->channel, record->uid, record->lines};
    err e = put_number(out, VERSION, 1);

    if (e == E_OK)
        e = put_number(out, record->parked_at_ms, 8);
    if (e == E_OK)
        e = put_number(out, record->event.data_kind, 1);
    for (size_t i = 0; i < sizeof texts / sizeof *texts && e == E_OK; i++)
        e = put_text(out, texts[i]);
    return e;
}

err fanout_park_record_write(struct buf *out, const struct fanout_park_record *record)
{
    err e = put_head(out, record);

    if (e == E_OK)
        e = put_attributes(out, record->event.attributes, record->event.n_attributes);
    if (e == E_OK)
        e = put_attributes(out, record->extras.attributes, record->extras.n);
    return e == E_OK ? put_text(out, record->event.data) : e;
}

/* ---- reading ---- */

static bool take_number(struct str *rest, size_t n, uint64_t *out_value)
{
    uint64_t value = 0;

    if (rest->n < n)
        return false;
    for (size_t i = 0; i < n; i++)
        value |= (uint64_t)(unsigned char)rest->p[i] << 8 * i;
    *rest = str_from_offset(*rest, n);
    *out_value = value;
    return true;
}

static bool take_text(struct str *rest, struct str *out_text)
{
    uint64_t n;

    if (!take_number(rest, 4, &n) || rest->n < n)
        return false;
    *out_text = (struct str){n ? rest->p : "", n};
    *rest = str_from_offset(*rest, n);
    return true;
}

static bool take_attribute(struct str *rest, struct cloudevent_attribute *out_attribute)
{
    uint64_t type;

    if (!take_number(rest, 1, &type) || type > CLOUDEVENT_BOOLEAN)
        return false;
    out_attribute->type = (enum cloudevent_type)type;
    return take_text(rest, &out_attribute->name) && take_text(rest, &out_attribute->value) &&
           cloudevent_is_name(out_attribute->name);
}

static bool take_attributes(struct arena *a, struct str *rest, size_t max, struct cloudevent *event)
{
    struct cloudevent_attribute attribute;
    uint64_t n;

    if (!take_number(rest, 2, &n) || n > max)
        return false;
    event->attributes = arena_alloc(a, MEM_FANOUT, n * sizeof *event->attributes);
    for (uint64_t i = 0; i < n; i++) {
        if (!take_attribute(rest, &attribute))
            return false;
        cloudevent_add(event, &attribute);
    }
    return true;
}

static bool take_record(struct arena *a, struct str rest, struct fanout_park_record *record)
{
    struct cloudevent *event = &record->event, extras = {0};
    uint64_t version, kind;

    if (!take_number(&rest, 1, &version) || version != VERSION || !take_number(&rest, 8, &record->parked_at_ms) ||
        !take_number(&rest, 1, &kind) || kind > CLOUDEVENT_TEXT)
        return false;
    event->data_kind = (enum cloudevent_data)kind;
    if (!take_text(&rest, &record->channel) || !take_text(&rest, &record->uid) || !take_text(&rest, &record->lines) ||
        !take_attributes(a, &rest, CLOUDEVENT_ATTRIBUTES_MAX, event) || !take_attributes(a, &rest, EXTRAS_MAX, &extras) ||
        !take_text(&rest, &event->data) || rest.n)
        return false;
    record->extras = (struct cloudevent_extras){extras.attributes, extras.n_attributes};
    return event->id.n && event->source.n && event->type.n && event->specversion.n;
}

err fanout_park_record_read(struct arena *a, struct str value, struct fanout_park_record *out_record)
{
    struct fanout_park_record record = {0};

    if (!take_record(a, value, &record))
        return E_PROTO;
    *out_record = record;
    return E_OK;
}

uint64_t fanout_park_record_lane(struct str channel, struct str uid)
{
    static const struct siphash_key key = {0x7061726b, 0x6c616e65};

    return siphash_with(key, channel) ^ (siphash_with(key, uid) << 1);
}
