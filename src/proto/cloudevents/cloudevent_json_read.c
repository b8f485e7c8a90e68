#include "base/base64.h"
#include "base/check.h"
#include "base/utf8.h"
#include "proto/cloudevents/cloudevent_build.h"
#include "proto/cloudevents/cloudevent_json.h"

enum {
    MEMBERS_MAX = CLOUDEVENT_ATTRIBUTES_MAX + 2, /* with data and data_base64 */
    NAME_ESCAPED_MAX = 6 * CLOUDEVENT_NAME_MAX,  /* each character as \uXXXX */
};

/* One document while it is read. */
struct reading {
    struct arena *arena;
    enum mem_sub sub;
    struct errinfo *ei;
    struct cloudevent event;
    struct str names[MEMBERS_MAX]; /* also of those that are null */
    size_t n_names;
    struct jsonr_value data, data_base64;
    bool has_data, has_data_base64;
    struct cloudevent_attribute attributes[CLOUDEVENT_ATTRIBUTES_MAX];
};

/* The characters of a string. */
static struct str decode(struct reading *g, const struct jsonr_value *string)
{
    char *text;

    if (!string->has_escapes)
        return string->raw;
    text = arena_alloc(g->arena, g->sub, string->raw.n);
    return (struct str){text, jsonr_decode(string->raw, text)};
}

/* --- attributes --- */

/* Integers are 32 bits wide (section 3.2 of the specification); JSON's fractions and exponents are none. */
static err check_integer(struct reading *g, struct str name, struct str *number)
{
    struct str digits = *number;
    bool is_negative = digits.p[0] == '-';
    uint64_t value;

    digits = str_from_offset(digits, is_negative);
    if (!str_to_u64(digits, (uint64_t)INT32_MAX + is_negative, &value))
        return errinfo_set(g->ei, E_INVAL, "attribute \"%.*s\" is a number other than an integer of 32 bits",
                           CLOUDEVENT_SHOWN(name));
    if (value == 0)
        *number = STR("0");
    return E_OK;
}

/* Those of the specification are strings, all of them. */
static bool is_always_string(struct str name)
{
    static const struct str names[] = {STR_INIT("specversion"),
                                       STR_INIT("id"),
                                       STR_INIT("source"),
                                       STR_INIT("type"),
                                       STR_INIT("subject"),
                                       STR_INIT("time"),
                                       STR_INIT("datacontenttype"),
                                       STR_INIT("dataschema"),
                                       STR_INIT("datacontentencoding")};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (str_equal(name, names[i]))
            return true;
    return false;
}

static err read_string(struct reading *g, struct str name, const struct jsonr_value *value, struct str *out_text)
{
    if (value->has_lone_surrogate)
        return errinfo_set(g->ei, E_INVAL, "attribute \"%.*s\" has half of a surrogate pair", CLOUDEVENT_SHOWN(name));
    *out_text = decode(g, value);
    return cloudevent_build_check_value(name, *out_text, g->ei);
}

static err read_attribute(struct reading *g, struct str name, const struct jsonr_value *value)
{
    struct cloudevent_attribute attribute = {.value = value->raw};
    err e = cloudevent_build_name(g->arena, g->sub, name, &attribute.name, g->ei);

    if (e != E_OK)
        return e;
    if (!str_equal(name, attribute.name))
        return errinfo_set(g->ei, E_INVAL, "\"%.*s\" cannot be the name of an attribute: they are lower-case",
                           CLOUDEVENT_SHOWN(name));
    if (value->kind == JSONR_NULL)
        return E_OK;
    if (value->kind == JSONR_STRING) {
        e = read_string(g, name, value, &attribute.value);
    } else if (value->kind == JSONR_ARRAY || value->kind == JSONR_OBJECT || is_always_string(name)) {
        e = errinfo_set(g->ei, E_INVAL, "attribute \"%.*s\" is %s", CLOUDEVENT_SHOWN(name),
                        is_always_string(name)       ? "not a string"
                        : value->kind == JSONR_ARRAY ? "an array"
                                                     : "an object");
    } else {
        attribute.type = value->kind == JSONR_NUMBER ? CLOUDEVENT_INTEGER : CLOUDEVENT_BOOLEAN;
        if (value->kind == JSONR_NUMBER)
            e = check_integer(g, name, &attribute.value);
    }
    if (e == E_OK && g->event.n_attributes == CLOUDEVENT_ATTRIBUTES_MAX)
        e = errinfo_set(g->ei, E_INVAL, "the event has more than %d attributes", CLOUDEVENT_ATTRIBUTES_MAX);
    if (e == E_OK)
        cloudevent_add(&g->event, &attribute);
    return e;
}

/* --- members --- */

static err take_name(struct reading *g, struct jsonr *r, struct str *out_name)
{
    struct jsonr_value name;

    if (!jsonr_take_name(r, &name))
        return E_PROTO;
    if (name.raw.n > NAME_ESCAPED_MAX)
        return errinfo_set(g->ei, E_INVAL, "an attribute's name is longer than %d characters: %.*s...", CLOUDEVENT_NAME_MAX,
                           CLOUDEVENT_SHOWN(name.raw));
    *out_name = decode(g, &name);
    for (size_t i = 0; i < g->n_names; i++)
        if (str_equal(g->names[i], *out_name))
            return errinfo_set(g->ei, E_INVAL, "\"%.*s\" is there twice", CLOUDEVENT_SHOWN(*out_name));
    if (g->n_names == MEMBERS_MAX)
        return errinfo_set(g->ei, E_INVAL, "the event has more than %d attributes", CLOUDEVENT_ATTRIBUTES_MAX);
    g->names[g->n_names++] = *out_name;
    return E_OK;
}

static err take_member(struct reading *g, struct jsonr *r)
{
    struct jsonr_value value;
    struct str name;
    err e = take_name(g, r, &name);

    if (e != E_OK)
        return e;
    if (!jsonr_take_value(r, &value))
        return E_PROTO;
    if (str_equal(name, STR("data"))) {
        g->data = value;
        g->has_data = true;
        return E_OK;
    }
    if (str_equal(name, STR("data_base64"))) {
        g->data_base64 = value;
        g->has_data_base64 = value.kind != JSONR_NULL;
        return E_OK;
    }
    return read_attribute(g, name, &value);
}

static err take_members(struct reading *g, struct str document)
{
    struct jsonr r = jsonr_begin(document);
    bool is_first = true, is_ok = false;
    err e = E_OK;

    if (!jsonr_enter(&r, '{'))
        return errinfo_set(g->ei, E_INVAL, "the event is not a JSON object");
    while (e == E_OK && jsonr_has_next(&r, '}', &is_first, &is_ok))
        e = take_member(g, &r);
    if (e == E_PROTO || (e == E_OK && (!is_ok || r.p != r.end)))
        return errinfo_set(g->ei, E_INVAL, "the JSON is wrong, or nested too deep, at byte %zu", (size_t)(r.p - document.p));
    return e;
}

/* --- data --- */

static err read_base64(struct reading *g, const char *member, const struct jsonr_value *value)
{
    struct str text;
    char *bytes;
    size_t n;

    if (value->kind != JSONR_STRING)
        return errinfo_set(g->ei, E_INVAL, "%s is not a string", member);
    text = decode(g, value);
    bytes = arena_alloc(g->arena, g->sub, BASE64_DECODED_BYTES(text.n));
    if (!base64_decode(text, bytes, &n))
        return errinfo_set(g->ei, E_INVAL, "%s is not base64", member);
    g->event.data = (struct str){bytes, n};
    g->event.data_kind = CLOUDEVENT_BYTES;
    return E_OK;
}

/* Version 0.3 says with an attribute what 1.0 says with the name of the member. */
static bool take_encoding(struct cloudevent *event)
{
    for (size_t i = 0; i < event->n_attributes; i++) {
        const struct cloudevent_attribute *attribute = &event->attributes[i];

        if (!str_equal(attribute->name, STR("datacontentencoding")) || !str_equal_nocase(attribute->value, STR("base64")))
            continue;
        memmove(&event->attributes[i], &event->attributes[i + 1], (event->n_attributes - i - 1) * sizeof *event->attributes);
        event->n_attributes--;
        return true;
    }
    return false;
}

/* Section 3.1. */
static err read_data(struct reading *g)
{
    struct cloudevent *event = &g->event;
    bool is_old = str_equal(event->specversion, STR("0.3"));

    if (g->has_data && g->has_data_base64)
        return errinfo_set(g->ei, E_INVAL, "there are both data and data_base64");
    if (g->has_data_base64) {
        (void)(is_old && take_encoding(event));
        return read_base64(g, "data_base64", &g->data_base64);
    }
    if (!g->has_data)
        return E_OK;
    if (is_old && g->data.kind == JSONR_STRING && take_encoding(event))
        return read_base64(g, "data", &g->data);
    event->data_kind = CLOUDEVENT_JSON;
    event->data = g->data.raw;
    if (g->data.kind != JSONR_STRING)
        return E_OK;
    if (!event->datacontenttype.n || cloudevent_is_json(event->datacontenttype)) {
        event->data = (struct str){g->data.raw.p - 1, g->data.raw.n + 2}; /* with its quotes */
        return E_OK;
    }
    if (g->data.has_lone_surrogate)
        return errinfo_set(g->ei, E_INVAL, "data has half of a surrogate pair");
    event->data = decode(g, &g->data);
    event->data_kind = CLOUDEVENT_TEXT;
    return E_OK;
}

err cloudevent_json_read(struct arena *a, enum mem_sub sub, struct str document, struct cloudevent *out_event,
                         struct errinfo *ei)
{
    struct reading g = {.arena = a, .sub = sub, .ei = ei};
    size_t bytes;
    err e;

    g.event.attributes = g.attributes;
    if (!utf8_is_valid(document))
        return errinfo_set(ei, E_INVAL, "the event is not UTF-8");
    e = take_members(&g, document);
    if (e == E_OK)
        e = cloudevent_build_check(&g.event, ei);
    if (e == E_OK)
        e = read_data(&g);
    if (e != E_OK)
        return e;
    bytes = g.event.n_attributes * sizeof *g.event.attributes;
    g.event.attributes = arena_alloc(a, sub, bytes);
    memcpy(g.event.attributes, g.attributes, bytes);
    *out_event = g.event;
    return E_OK;
}

/* --- batches --- */

err cloudevent_json_begin(struct cloudevent_batch *batch, struct str body, size_t max)
{
    *batch = (struct cloudevent_batch){.rest = jsonr_begin(body), .max = max, .is_first = true};
    return jsonr_enter(&batch->rest, '[') ? E_OK : E_INVAL;
}

err cloudevent_json_next(struct cloudevent_batch *batch, struct str *out_document)
{
    struct jsonr_value value;
    bool is_ok;

    if (!jsonr_has_next(&batch->rest, ']', &batch->is_first, &is_ok))
        return is_ok && batch->rest.p == batch->rest.end ? E_CLOSED : E_INVAL;
    if (batch->n == batch->max)
        return E_LIMIT;
    if (!jsonr_take_value(&batch->rest, &value))
        return E_INVAL;
    batch->n++;
    *out_document = value.raw;
    if (value.kind == JSONR_STRING) /* with its quotes, that it is taken for what it is */
        *out_document = (struct str){value.raw.p - 1, value.raw.n + 2};
    return E_OK;
}
