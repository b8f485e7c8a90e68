#include "fanout/fanout_event.h"

#include <string.h>

#include "base/check.h"
#include "core/trace_context.h"
#include "proto/cloudevents/cloudevent_http.h"
#include "proto/cloudevents/cloudevent_json.h"

/* A buffer larger than this is not kept for the next event. */
enum { KEPT_BYTES = 4096, HEX_DIGITS = 16 };

/* RFC 9110 section 7.6.1, what frames a message, and what is ours to say. */
static const struct str never[] = {
    STR_INIT("connection"),
    STR_INIT("content-encoding"),
    STR_INIT("content-length"),
    STR_INIT("content-type"),
    STR_INIT("expect"),
    STR_INIT("host"),
    STR_INIT("http2-settings"),
    STR_INIT("keep-alive"),
    STR_INIT("kn-namespace"),
    STR_INIT("prefer"),
    STR_INIT("te"),
    STR_INIT("trailer"),
    STR_INIT("proxy-connection"),
    STR_INIT("traceparent"),
    STR_INIT("tracestate"),
    STR_INIT("transfer-encoding"),
    STR_INIT("upgrade"),
};

static void reset(struct buf *b)
{
    if (b->cap > KEPT_BYTES)
        buf_free(b, MEM_FANOUT);
    b->head = b->tail = 0;
}

void fanout_event_clear(struct fanout_event *event)
{
    reset(&event->common);
    reset(&event->binary);
    reset(&event->json);
    reset(&event->json_lines);
    event->traceparent = (struct str){0};
}

void fanout_event_free(struct fanout_event *event)
{
    buf_free(&event->common, MEM_FANOUT);
    buf_free(&event->binary, MEM_FANOUT);
    buf_free(&event->json, MEM_FANOUT);
    buf_free(&event->json_lines, MEM_FANOUT);
}

/* ---- header lines ---- */

static err put_line(struct buf *lines, struct str name, struct str value)
{
    size_t n = name.n + value.n + 4;
    char *to = buf_reserve(lines, MEM_FANOUT, n);

    if (!to)
        return E_NOMEM;
    memcpy(to, name.p, name.n);
    memcpy(to + name.n, ": ", 2);
    if (value.n)
        memcpy(to + name.n + 2, value.p, value.n);
    memcpy(to + n - 2, "\r\n", 2);
    buf_commit(lines, n);
    return E_OK;
}

static bool begins_with_nocase(struct str s, struct str prefix)
{
    return s.n >= prefix.n && str_equal_nocase((struct str){s.p, prefix.n}, prefix);
}

static bool is_wanted(const struct fanout_channel *channel, struct str name)
{
    for (size_t i = 0; i < channel->n_forward_headers; i++)
        if (str_equal_nocase(name, channel->forward_headers[i]))
            return true;
    for (size_t i = 0; i < channel->n_forward_prefixes; i++)
        if (begins_with_nocase(name, channel->forward_prefixes[i]))
            return true;
    return false;
}

/* What a connection's own headers name belongs to it as they do. */
static bool is_named_by_connection(const struct http_header *headers, size_t n_headers, struct str name)
{
    for (size_t i = 0; i < n_headers; i++) {
        struct str rest = headers[i].value;
        bool has_more = str_equal_nocase(headers[i].name, STR("connection"));

        while (has_more) {
            struct str word = str_take(&rest, ',', &has_more);

            while (word.n && (word.p[0] == ' ' || word.p[0] == '\t'))
                word = str_from_offset(word, 1);
            while (word.n && (word.p[word.n - 1] == ' ' || word.p[word.n - 1] == '\t'))
                word.n--;
            if (str_equal_nocase(word, name))
                return true;
        }
    }
    return false;
}

static bool may_go_on(const struct http_header *headers, size_t n_headers, const struct http_header *header)
{
    for (size_t i = 0; i < ARRAY_LEN(never); i++)
        if (str_equal_nocase(header->name, never[i]))
            return false;
    return !begins_with_nocase(header->name, STR("ce-")) && !begins_with_nocase(header->name, STR("proxy-auth")) &&
           !is_named_by_connection(headers, n_headers, header->name);
}

err fanout_event_forward(struct buf *lines, const struct fanout_channel *channel, const struct http_header *headers,
                         size_t n_headers)
{
    for (size_t i = 0; i < n_headers; i++)
        if (is_wanted(channel, headers[i].name) && may_go_on(headers, n_headers, &headers[i]) &&
            put_line(lines, headers[i].name, headers[i].value) != E_OK)
            return E_NOMEM;
    return E_OK;
}

/* ---- traces ---- */

static err take_trace(struct fanout_event *event, const struct http_header *headers, size_t n_headers)
{
    struct trace_context trace = {0};
    err e = E_OK;

    for (size_t i = 0; i < n_headers; i++)
        trace_context_take(&trace, headers[i].name, headers[i].value);
    trace_context_check(&trace);
    event->traceparent = trace.parent;
    if (trace.state.n)
        e = put_line(&event->common, STR("tracestate"), trace.state);
    for (size_t i = 0; i < n_headers && e == E_OK && trace.parent.n; i++)
        if (str_equal_nocase(headers[i].name, STR("baggage")))
            e = put_line(&event->common, STR("baggage"), headers[i].value);
    return e;
}

/* https://www.w3.org/TR/trace-context/ section 3.2.2: version 00 is what we know to write. */
size_t fanout_event_trace_line(const struct fanout_event *event, uint64_t random, char to[FANOUT_EVENT_TRACE_LINE_BYTES])
{
    static const struct str name = STR_INIT("traceparent: ");
    static const char digits[] = "0123456789abcdef";
    enum { PARENT_AT = 36 };
    char *value = to + name.n;

    if (!event->traceparent.n)
        return 0;
    memcpy(to, name.p, name.n);
    memcpy(value, event->traceparent.p, FANOUT_EVENT_TRACE_BYTES);
    memcpy(value, "00", 2);
    random |= 1; /* not all zeros */
    for (int i = 0; i < HEX_DIGITS; i++)
        value[PARENT_AT + i] = digits[random >> (4 * i) & 0xf];
    memcpy(value + FANOUT_EVENT_TRACE_BYTES, "\r\n", 2);
    return FANOUT_EVENT_TRACE_LINE_BYTES;
}

/* ---- the event ---- */

/* For every event, so not by snprintf(). */
static struct str print_hops(struct fanout_event *event, uint32_t n)
{
    size_t at = sizeof event->hops_text;

    do
        event->hops_text[--at] = (char)('0' + n % 10);
    while (n /= 10);
    return (struct str){event->hops_text + at, sizeof event->hops_text - at};
}

static err count_hop(struct fanout_event *event, uint32_t max_hops)
{
    struct str text;
    uint64_t hops = 0;

    if (cloudevent_find(&event->ce, STR(FANOUT_EVENT_HOPS), &text) && !str_to_u64(text, UINT32_MAX, &hops))
        hops = 0;
    if (hops >= max_hops)
        return E_LIMIT;
    event->hops =
        (struct cloudevent_attribute){STR(FANOUT_EVENT_HOPS), print_hops(event, (uint32_t)hops + 1), CLOUDEVENT_INTEGER};
    return E_OK;
}

err fanout_event_begin(struct fanout_event *event, const struct fanout_channel *channel, const struct http_header *headers,
                       size_t n_headers)
{
    err e = count_hop(event, channel->max_hops);

    if (e == E_OK)
        e = put_line(&event->common, STR("Kn-Namespace"), channel->ns);
    if (e == E_OK)
        e = fanout_event_forward(&event->common, channel, headers, n_headers);
    return e == E_OK ? take_trace(event, headers, n_headers) : e;
}

static err write_binary(struct buf *lines, const struct cloudevent *ce, const struct cloudevent_extras *extras, bool is_raw)
{
    struct str type = cloudevent_content_type(ce);
    err e = type.n ? put_line(lines, STR("Content-Type"), type) : E_OK;

    return e == E_OK ? cloudevent_http_write(lines, MEM_FANOUT, ce, extras,
                                             is_raw ? CLOUDEVENT_ENCODING_NONE : CLOUDEVENT_ENCODING_PERCENT)
                     : e;
}

err fanout_event_write(struct buf *lines, struct buf *document, const struct cloudevent *ce,
                       const struct cloudevent_extras *extras, const struct fanout_channel *channel, enum fanout_format format,
                       struct str common, struct fanout_text *out_text)
{
    err e;

    if (format == FANOUT_FORMAT_JSON)
        e = put_line(lines, STR("Content-Type"), STR(CLOUDEVENT_HTTP_JSON));
    else
        e = write_binary(lines, ce, extras, channel->is_header_raw);
    if (e == E_OK)
        e = buf_append(lines, MEM_FANOUT, common);
    if (e == E_OK && format == FANOUT_FORMAT_JSON)
        e = cloudevent_json_write(document, MEM_FANOUT, ce, extras);
    *out_text = (struct fanout_text){buf_str(lines), format == FANOUT_FORMAT_JSON ? buf_str(document) : ce->data};
    return e;
}

err fanout_event_text(struct fanout_event *event, const struct fanout_channel *channel, enum fanout_format format,
                      struct fanout_text *out_text)
{
    const struct cloudevent_extras extras = {&event->hops, 1};
    bool is_json = format == FANOUT_FORMAT_JSON;
    struct buf *lines = is_json ? &event->json_lines : &event->binary;

    if (buf_size(lines) == 0)
        return fanout_event_write(lines, &event->json, &event->ce, &extras, channel, format, buf_str(&event->common), out_text);
    *out_text = (struct fanout_text){buf_str(lines), is_json ? buf_str(&event->json) : event->ce.data};
    return E_OK;
}
