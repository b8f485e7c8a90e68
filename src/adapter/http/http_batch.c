#include "adapter/http/http_batch.h"

#include "base/check.h"
#include "base/utf8.h"
#include "core/payload_field.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct str trim(struct str s)
{
    while (s.n && is_space(s.p[0]))
        s = str_from_offset(s, 1);
    while (s.n && is_space(s.p[s.n - 1]))
        s.n--;
    return s;
}

/* Lines with nothing on them are none. */
static err next_line(struct str *rest, struct str *out_item)
{
    bool more;

    while (rest->n) {
        struct str line = trim(str_take(rest, '\n', &more));

        if (line.n) {
            *out_item = line;
            return E_OK;
        }
    }
    return E_CLOSED;
}

err http_batch_next(enum http_intake_form form, struct str *rest, bool *is_first, struct str *out_item)
{
    struct payload_field field;
    err e;

    if (form == HTTP_INTAKE_LINES)
        return next_line(rest, out_item);
    if (form == HTTP_INTAKE_SINGLE) {
        *out_item = *rest;
        e = *is_first ? E_OK : E_CLOSED;
        *is_first = false;
        return e;
    }
    e = payload_field_next_element(rest, is_first, &field);
    if (e == E_OK) /* a text with its quotes, too, that it is taken for what it is */
        *out_item = (struct str){field.raw.p - field.is_string, field.raw.n + 2 * (size_t)field.is_string};
    return e;
}

static bool has_text(struct str item, struct str pointer, struct str wanted)
{
    struct payload_field field;

    return payload_field_find(item, pointer, &field) && field.is_string && field.raw.n &&
           (!wanted.n || str_equal(field.raw, wanted));
}

const char *http_batch_fault(enum http_intake_form form, struct str item)
{
    struct str rest = item;
    struct payload_field field;

    if (form == HTTP_INTAKE_SINGLE)
        return NULL;
    if (form == HTTP_INTAKE_LINES)
        return payload_field_take(&rest, &field) && rest.n == 0 && utf8_is_valid(item) ? NULL : "the line is no JSON value";
    if (!utf8_is_valid(item) || !has_text(item, STR("/specversion"), STR("1.0")) ||
        !has_text(item, STR("/id"), (struct str){0}) || !has_text(item, STR("/source"), (struct str){0}) ||
        !has_text(item, STR("/type"), (struct str){0}))
        return "a CloudEvent needs specversion 1.0, id, source and type";
    return NULL;
}

bool http_batch_device(struct str item, struct str pointer, char *scratch, struct str *out_device)
{
    struct payload_field field;

    *out_device = (struct str){0};
    if (!pointer.n || !payload_field_find(item, pointer, &field))
        return true;
    if (!field.is_string || !field.raw.n || field.raw.n > HTTP_BATCH_DEVICE_BYTES)
        return false;
    *out_device = field.raw;
    if (field.has_escapes)
        *out_device = (struct str){scratch, payload_field_decode(field.raw, scratch)};
    return utf8_is_plain(*out_device);
}
