#include "proto/cloudevents/cloudevent_http.h"

#include "base/check.h"
#include "base/utf8.h"
#include "proto/cloudevents/cloudevent_build.h"
#include "proto/cloudevents/cloudevent_json.h"

enum { PREFIX_BYTES = 3 }; /* "ce-" */

static bool is_ce(struct str name)
{
    return name.n >= PREFIX_BYTES && (name.p[0] | 0x20) == 'c' && (name.p[1] | 0x20) == 'e' && name.p[2] == '-';
}

static bool starts_with_nocase(struct str s, struct str prefix)
{
    return s.n >= prefix.n && str_equal_nocase((struct str){s.p, prefix.n}, prefix);
}

enum cloudevent_mode cloudevent_http_mode(struct str content_type)
{
    bool has_parameters;
    struct str media_type = str_take(&content_type, ';', &has_parameters);

    while (media_type.n && (media_type.p[media_type.n - 1] == ' ' || media_type.p[media_type.n - 1] == '\t'))
        media_type.n--;
    if (!starts_with_nocase(media_type, STR("application/cloudevents")))
        return CLOUDEVENT_MODE_BINARY;
    if (str_equal_nocase(media_type, STR("application/cloudevents+json")))
        return CLOUDEVENT_MODE_STRUCTURED;
    return str_equal_nocase(media_type, STR("application/cloudevents-batch+json")) ? CLOUDEVENT_MODE_BATCH
                                                                                   : CLOUDEVENT_MODE_OTHER;
}

/* --- values of headers --- */

/* Whether a value stands for itself: printable ASCII without `%` and `"`. */
static bool is_verbatim(struct str value)
{
    const char *p = value.n ? value.p : "", *end = p + value.n;

    for (; end - p >= (ptrdiff_t)sizeof(uint64_t); p += sizeof(uint64_t)) {
        uint64_t w = utf8_word_load(p);

        if (utf8_word_high(w) || utf8_word_control(w) || utf8_word_equal(w, '%') || utf8_word_equal(w, '"'))
            return false;
    }
    for (; p < end; p++)
        if (*p < ' ' || *p > '~' || *p == '%' || *p == '"')
            return false;
    return true;
}

/* The inside of a quoted string without its backslashes (RFC 9110 section 5.6.4), to `to`. False, and nothing of use written, when
 * the value is not one such string as a whole. */
static bool unquote(struct str value, char *to, size_t *out_n)
{
    size_t n = 0;

    if (value.n < 2 || value.p[0] != '"' || value.p[value.n - 1] != '"')
        return false;
    for (size_t i = 1; i < value.n - 1; i++) {
        if (value.p[i] == '"')
            return false;
        if (value.p[i] == '\\' && ++i == value.n - 1)
            return false;
        to[n++] = value.p[i];
    }
    *out_n = n;
    return true;
}

/* One round, in place. A `%` without two digits was not encoded, and stays. */
static size_t percent_decode(char *text, size_t n)
{
    size_t to = 0;

    for (size_t i = 0; i < n; i++) {
        int high = text[i] == '%' && n - i > 2 ? str_hex_digit(text[i + 1]) : -1;
        int low = high >= 0 ? str_hex_digit(text[i + 2]) : -1;

        if (low >= 0) {
            text[to++] = (char)(high << 4 | low);
            i += 2;
        } else {
            text[to++] = text[i];
        }
    }
    return to;
}

static err decode_value(struct arena *a, enum mem_sub sub, struct str name, struct str *value, struct errinfo *ei)
{
    char *text;
    size_t n;

    if (is_verbatim(*value))
        return E_OK;
    text = arena_alloc(a, sub, value->n);
    if (!unquote(*value, text, &n)) {
        n = value->n;
        memcpy(text, value->p, n);
    }
    *value = (struct str){text, percent_decode(text, n)};
    return cloudevent_build_check_value(name, *value, ei);
}

/* --- reading --- */

static err add_header(struct arena *a, enum mem_sub sub, const struct http_header *header, struct cloudevent *event,
                      struct errinfo *ei)
{
    struct cloudevent_attribute attribute = {.value = header->value};
    struct str ignored;
    err e = cloudevent_build_name(a, sub, str_from_offset(header->name, PREFIX_BYTES), &attribute.name, ei);

    if (e != E_OK || cloudevent_find(event, attribute.name, &ignored))
        return e;
    if (str_equal(attribute.name, STR("datacontenttype")))
        return errinfo_set(ei, E_INVAL, "there is a header ce-datacontenttype: Content-Type is the place for that");
    e = decode_value(a, sub, attribute.name, &attribute.value, ei);
    if (e == E_OK)
        cloudevent_add(event, &attribute);
    return e;
}

static err read_binary(struct arena *a, enum mem_sub sub, const struct http_header *headers, size_t n_headers, size_t n_ce,
                       const struct http_header *content_type, struct cloudevent *event, struct errinfo *ei)
{
    struct cloudevent_attribute type = {.name = STR("datacontenttype")};
    err e = E_OK;

    event->attributes = arena_alloc(a, sub, (n_ce + 1) * sizeof *event->attributes);
    for (size_t i = 0; i < n_headers && e == E_OK; i++)
        if (is_ce(headers[i].name))
            e = add_header(a, sub, &headers[i], event, ei);
    if (e == E_OK && content_type && content_type->value.n) {
        type.value = content_type->value;
        e = cloudevent_build_check_value(type.name, type.value, ei);
        if (e == E_OK)
            cloudevent_add(event, &type);
    }
    return e == E_OK ? cloudevent_build_check(event, ei) : e;
}

err cloudevent_http_read(struct arena *a, enum mem_sub sub, const struct http_header *headers, size_t n_headers,
                         struct str body, struct cloudevent *out_event, struct errinfo *ei)
{
    struct cloudevent event = {.data = body, .data_kind = body.n ? CLOUDEVENT_BYTES : CLOUDEVENT_NO_DATA};
    const struct http_header *content_type = NULL;
    enum cloudevent_mode mode;
    size_t n_ce = 0;
    err e;

    for (size_t i = 0; i < n_headers; i++) {
        if (is_ce(headers[i].name))
            n_ce++;
        else if (!content_type && str_equal_nocase(headers[i].name, STR("content-type")))
            content_type = &headers[i];
    }
    mode = content_type ? cloudevent_http_mode(content_type->value) : CLOUDEVENT_MODE_BINARY;
    if (mode == CLOUDEVENT_MODE_STRUCTURED)
        return cloudevent_json_read(a, sub, body, out_event, ei);
    if (mode != CLOUDEVENT_MODE_BINARY && n_ce == 0)
        return errinfo_set(ei, E_INVAL, "Content-Type \"%.*s\" is none that is understood here as one event",
                           CLOUDEVENT_SHOWN(content_type->value));
    if (n_ce == 0)
        return errinfo_set(ei, E_INVAL,
                           "this is no event: there are neither ce- headers nor Content-Type "
                           "application/cloudevents+json");
    if (n_ce >= CLOUDEVENT_ATTRIBUTES_MAX)
        return errinfo_set(ei, E_INVAL, "the event has more than %d attributes", CLOUDEVENT_ATTRIBUTES_MAX);
    e = read_binary(a, sub, headers, n_headers, n_ce, content_type, &event, ei);
    if (e == E_OK)
        *out_event = event;
    return e;
}

/* --- writing --- */

static bool is_encoded(char c)
{
    return c <= ' ' || c > '~' || c == '"' || c == '%';
}

static size_t encoded_bytes(struct str value, enum cloudevent_encoding encoding)
{
    size_t n = value.n;

    if (encoding == CLOUDEVENT_ENCODING_PERCENT)
        for (size_t i = 0; i < value.n; i++)
            n += is_encoded(value.p[i]) ? 2 : 0;
    return n;
}

static char *put(char *to, struct str s)
{
    if (s.n)
        memcpy(to, s.p, s.n);
    return to + s.n;
}

static char *put_value(char *to, struct str value, enum cloudevent_encoding encoding)
{
    static const char digits[] = "0123456789ABCDEF";

    if (encoding == CLOUDEVENT_ENCODING_NONE)
        return put(to, value);
    for (size_t i = 0; i < value.n; i++) {
        unsigned char c = (unsigned char)value.p[i];

        if (is_encoded(value.p[i])) {
            *to++ = '%';
            *to++ = digits[c >> 4];
            *to++ = digits[c & 0xf];
        } else {
            *to++ = value.p[i];
        }
    }
    return to;
}

/* What Content-Type says in binary mode. */
static bool is_header(const struct cloudevent_attribute *attribute)
{
    return !str_equal(attribute->name, STR("datacontenttype"));
}

err cloudevent_http_write(struct buf *out, enum mem_sub sub, const struct cloudevent *event,
                          const struct cloudevent_extras *extras, enum cloudevent_encoding encoding)
{
    const struct cloudevent_attribute *attribute;
    const size_t frame = PREFIX_BYTES + sizeof ": \r\n" - 1;
    size_t n = 0, at = 0;
    char *to;

    while (cloudevent_build_next(event, extras, &at, &attribute))
        n += is_header(attribute) ? frame + attribute->name.n + encoded_bytes(attribute->value, encoding) : 0;
    to = buf_reserve(out, sub, n);
    if (!to)
        return E_NOMEM;
    buf_commit(out, n);
    for (at = 0; cloudevent_build_next(event, extras, &at, &attribute);) {
        if (!is_header(attribute))
            continue;
        to = put(put(put(to, STR("ce-")), attribute->name), STR(": "));
        to = put(put_value(to, attribute->value, encoding), STR("\r\n"));
    }
    return E_OK;
}
