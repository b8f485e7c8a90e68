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
static err next_line(struct http_batch *batch, struct str *out_item)
{
    bool more;

    while (batch->rest.n) {
        struct str line = trim(str_take(&batch->rest, '\n', &more));

        if (!line.n)
            continue;
        if (batch->events.n++ == HTTP_BATCH_MAX_ITEMS)
            return E_LIMIT;
        *out_item = line;
        return E_OK;
    }
    return E_CLOSED;
}

err http_batch_begin(struct http_batch *batch, enum http_intake_form form, struct str body)
{
    *batch = (struct http_batch){.form = form, .rest = body};
    return form == HTTP_INTAKE_CLOUDEVENTS ? cloudevent_json_begin(&batch->events, body, HTTP_BATCH_MAX_ITEMS) : E_OK;
}

err http_batch_next(struct http_batch *batch, struct str *out_item)
{
    if (batch->form == HTTP_INTAKE_CLOUDEVENTS)
        return cloudevent_json_next(&batch->events, out_item);
    if (batch->form == HTTP_INTAKE_LINES)
        return next_line(batch, out_item);
    if (batch->is_done)
        return E_CLOSED;
    batch->is_done = true;
    *out_item = batch->rest;
    return E_OK;
}

static err check_line(struct str line, struct errinfo *ei)
{
    struct jsonr r = jsonr_begin(line);
    struct jsonr_value value;

    if (jsonr_take_value(&r, &value) && r.p == r.end && utf8_is_valid(line))
        return E_OK;
    return errinfo_set(ei, E_INVAL, "the line is no JSON value");
}

static err check_event(struct str document, struct errinfo *ei)
{
    struct cloudevent event;
    struct arena scratch = {0};
    err e = cloudevent_json_read(&scratch, MEM_ADAPTER, document, &event, ei);

    arena_free(&scratch, MEM_ADAPTER);
    return e;
}

err http_batch_check(enum http_intake_form form, struct str item, struct errinfo *ei)
{
    if (form == HTTP_INTAKE_SINGLE)
        return E_OK;
    return form == HTTP_INTAKE_LINES ? check_line(item, ei) : check_event(item, ei);
}

bool http_batch_device(struct str item, struct str pointer, char *scratch, struct str *out_device)
{
    struct jsonr_value field;

    *out_device = (struct str){0};
    if (!pointer.n || !payload_field_find(item, pointer, &field))
        return true;
    if (field.kind != JSONR_STRING || !field.raw.n || field.raw.n > HTTP_BATCH_DEVICE_BYTES)
        return false;
    *out_device = field.raw;
    if (field.has_escapes)
        *out_device = (struct str){scratch, jsonr_decode(field.raw, scratch)};
    return utf8_is_plain(*out_device);
}
