#include "proto/cloudevents/cloudevent_json.h"

#include "base/base64.h"
#include "base/jsonw.h"
#include "base/utf8.h"
#include "proto/cloudevents/cloudevent_build.h"

/* How data goes into a document. */
enum form { FORM_NONE, FORM_VALUE, FORM_STRING, FORM_BASE64 };

static bool is_json_text(struct str text)
{
    struct jsonr r = jsonr_begin(text);
    struct jsonr_value value;

    return utf8_is_valid(text) && jsonr_take_value(&r, &value) && r.p == r.end;
}

static bool starts_with_nocase(struct str s, struct str prefix)
{
    return s.n >= prefix.n && str_equal_nocase((struct str){s.p, prefix.n}, prefix);
}

/* Types of text, if in UTF-8: a string of JSON has no other encoding. */
static bool is_text_type(struct str type)
{
    bool has_parameters;
    struct str media_type = str_trim(str_take(&type, ';', &has_parameters)), parameters = str_trim(type);

    if (parameters.n && !str_equal_nocase(parameters, STR("charset=utf-8")) &&
        !str_equal_nocase(parameters, STR("charset=\"utf-8\"")))
        return false;
    return starts_with_nocase(media_type, STR("text/")) || str_equal_nocase(media_type, STR("application/xml"));
}

static bool is_old(const struct cloudevent *event)
{
    return str_equal(event->specversion, STR("0.3"));
}

/* What came in binary mode with version 0.3's ce-datacontentencoding: the text of the bytes. */
static bool is_base64_already(const struct cloudevent *event)
{
    struct str encoding;

    return is_old(event) && cloudevent_find(event, STR("datacontentencoding"), &encoding) &&
           str_equal_nocase(encoding, STR("base64")) && utf8_is_valid(event->data);
}

static enum form form_of(const struct cloudevent *event)
{
    switch (event->data_kind) {
    case CLOUDEVENT_NO_DATA:
        return FORM_NONE;
    case CLOUDEVENT_JSON:
        return FORM_VALUE;
    case CLOUDEVENT_TEXT:
        return FORM_STRING;
    case CLOUDEVENT_BYTES:
        break;
    }
    if (is_base64_already(event))
        return FORM_STRING;
    if (cloudevent_is_json(event->datacontenttype) && is_json_text(event->data))
        return FORM_VALUE;
    return is_text_type(event->datacontenttype) && utf8_is_valid(event->data) ? FORM_STRING : FORM_BASE64;
}

static err put_attribute(struct buf *out, enum mem_sub sub, const struct cloudevent_attribute *attribute, bool is_first)
{
    err e = buf_append(out, sub, is_first ? STR("{\"") : STR(",\""));

    if (e == E_OK)
        e = buf_append(out, sub, attribute->name);
    if (e == E_OK)
        e = buf_append(out, sub, STR("\":"));
    if (e != E_OK)
        return e;
    if (attribute->type != CLOUDEVENT_STRING)
        return buf_append(out, sub, attribute->value);
    return jsonw_string(out, sub, attribute->value);
}

static err put_base64(struct buf *out, enum mem_sub sub, const struct cloudevent *event)
{
    struct str ignored;
    /* 0.3 has no data_base64; with an encoding of its own that is not one, there is no better place. */
    bool is_said_so = is_old(event) && !cloudevent_find(event, STR("datacontentencoding"), &ignored);
    err e =
        buf_append(out, sub, is_said_so ? STR(",\"datacontentencoding\":\"base64\",\"data\":\"") : STR(",\"data_base64\":\""));
    char *to = e == E_OK ? buf_reserve(out, sub, BASE64_ENCODED_BYTES(event->data.n)) : NULL;

    if (!to)
        return E_NOMEM;
    buf_commit(out, base64_encode(event->data, to));
    return buf_append(out, sub, STR("\""));
}

static err put_data(struct buf *out, enum mem_sub sub, const struct cloudevent *event)
{
    enum form form = form_of(event);
    err e;

    if (form == FORM_NONE)
        return E_OK;
    if (form == FORM_BASE64)
        return put_base64(out, sub, event);
    e = buf_append(out, sub, STR(",\"data\":"));
    if (e != E_OK)
        return e;
    return form == FORM_VALUE ? buf_append(out, sub, event->data) : jsonw_string(out, sub, event->data);
}

err cloudevent_json_write(struct buf *out, enum mem_sub sub, const struct cloudevent *event,
                          const struct cloudevent_extras *extras)
{
    const struct cloudevent_attribute *attribute;
    bool is_first = true;
    size_t at = 0;
    err e = E_OK;

    while (e == E_OK && cloudevent_build_next(event, extras, &at, &attribute)) {
        e = put_attribute(out, sub, attribute, is_first);
        is_first = false;
    }
    if (e == E_OK)
        e = put_data(out, sub, event);
    return e == E_OK ? buf_append(out, sub, STR("}")) : e;
}
