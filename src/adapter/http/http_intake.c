#include "adapter/http/http_intake.h"

#include "base/check.h"
#include "base/utf8.h"
#include "core/payload_field.h"

/* Headers that are read here, the last ones also as query parameters. */
enum field { FIELD_CONTENT_TYPE, FIELD_QOS, FIELD_TTL, FIELD_POINTER, FIELD_TTD, FIELD_STATUS, FIELDS };

static const struct {
    struct str name;
    bool is_parameter;
    const char *twice;
} fields[FIELDS] = {
    [FIELD_CONTENT_TYPE] = {STR_INIT("content-type"), false, "the header Content-Type is given twice"},
    [FIELD_QOS] = {STR_INIT("qos-level"), false, "the header QoS-Level is given twice"},
    [FIELD_TTL] = {STR_INIT("hono-ttl"), true, "hono-ttl is given twice"},
    [FIELD_POINTER] = {STR_INIT("device-pointer"), true, "device-pointer is given twice"},
    [FIELD_TTD] = {STR_INIT("hono-ttd"), true, "hono-ttd is given twice"},
    [FIELD_STATUS] = {STR_INIT("hono-cmd-status"), true, "hono-cmd-status is given twice"},
};

/* Percent-decodes; a view of `raw` when there is nothing to do. False: broken, too long, or no plain UTF-8. */
static bool decode(struct http_intake *in, struct str raw, bool is_query, struct str *out)
{
    char *to = in->scratch + in->used;
    size_t n = 0;

    *out = raw;
    if (!raw.n || (!memchr(raw.p, '%', raw.n) && !(is_query && memchr(raw.p, '+', raw.n))))
        return utf8_is_plain(raw);
    if (raw.n > sizeof in->scratch - in->used)
        return false;
    for (size_t i = 0; i < raw.n; i++) {
        int high, low;

        if (raw.p[i] != '%') {
            to[n++] = is_query && raw.p[i] == '+' ? ' ' : raw.p[i];
            continue;
        }
        if (raw.n - i < 3 || (high = str_hex_digit(raw.p[i + 1])) < 0 || (low = str_hex_digit(raw.p[i + 2])) < 0)
            return false;
        to[n++] = (char)(high * 16 + low);
        i += 2;
    }
    in->used += n;
    *out = (struct str){to, n};
    return utf8_is_plain(*out);
}

/* --- the path --- */

enum device_endpoint http_intake_endpoint(struct str path)
{
    if (str_starts_with(path, STR("/command")))
        return DEVICE_ENDPOINT_COMMAND;
    return str_starts_with(path, STR("/event")) ? DEVICE_ENDPOINT_EVENT : DEVICE_ENDPOINT_TELEMETRY;
}

/* What follows the endpoint and `res`: R, or T/D/R. */
static uint16_t read_response_path(struct http_intake *in, struct str path, const char **out_text)
{
    struct str parts[3];
    bool more = true;
    size_t n = 0;

    *out_text = "expected /command/res/<request id> or /command/res/<tenant>/<device>/<request id>";
    while (more && n < ARRAY_LEN(parts))
        parts[n++] = str_take(&path, '/', &more);
    if (more || n == 2 || parts[n - 1].n == 0)
        return 404;
    if (!decode(in, parts[n - 1], false, &in->request_id))
        return 400;
    if (n == 1)
        return 0;
    return decode(in, parts[0], false, &in->tenant) && decode(in, parts[1], false, &in->device) ? 0 : 400;
}

static uint16_t read_path(struct http_intake *in, struct str path, const char **out_text)
{
    bool more;

    path = str_from_offset(path, 1);
    (void)str_take(&path, '/', &more);
    if (in->endpoint == DEVICE_ENDPOINT_COMMAND) {
        (void)str_take(&path, '/', &more);
        return read_response_path(in, path, out_text);
    }
    if (!more)
        return 0;
    *out_text = "expected /<endpoint>/<tenant>/<device>";
    if (!decode(in, str_take(&path, '/', &more), false, &in->tenant))
        return more ? 400 : 404;
    if (!more || path.n == 0 || memchr(path.p, '/', path.n))
        return 404;
    return decode(in, path, false, &in->device) ? 0 : 400;
}

/* The path with its query; of an absolute target what follows the authority. */
static struct str address_of(const struct http_request *r)
{
    const char *end = r->query.n ? r->query.p + r->query.n : r->path.p + r->path.n;

    if (r->target.n && r->target.p[0] == '/')
        return r->target;
    return (struct str){r->path.p, (size_t)(end - r->path.p)};
}

/* --- headers and parameters --- */

static bool take(struct str values[FIELDS], enum field f, struct str value, const char **out_text)
{
    if (values[f].p) {
        *out_text = fields[f].twice;
        return false;
    }
    values[f] = value.p ? value : STR("");
    return true;
}

static bool read_headers(struct http_intake *in, const struct http_request *r, struct str values[FIELDS], const char **out_text)
{
    for (size_t i = 0; i < r->n_headers; i++) {
        const struct http_header *h = &r->headers[i];

        for (unsigned f = 0; f < FIELDS; f++)
            if (str_equal_nocase(h->name, fields[f].name) && !take(values, (enum field)f, h->value, out_text))
                return false;
        trace_context_take(&in->trace, h->name, h->value);
    }
    trace_context_check(&in->trace);
    return true;
}

/* Those that nobody knows may say what they want. */
static bool read_query(struct http_intake *in, struct str query, struct str values[FIELDS], const char **out_text)
{
    bool more = query.n > 0, has_value;

    while (more) {
        struct str value = str_take(&query, '&', &more), name = str_take(&value, '=', &has_value);

        for (unsigned f = 0; f < FIELDS; f++) {
            struct str text;

            if (!fields[f].is_parameter || !str_equal_nocase(name, fields[f].name))
                continue;
            *out_text = "a query parameter is not encoded correctly";
            if (!decode(in, value, true, &text) || !take(values, (enum field)f, text, out_text))
                return false;
        }
    }
    return true;
}

/* Events and responses are always of level 1. */
static bool read_qos(struct http_intake *in, struct str level, const char **out_text)
{
    bool is_event = in->endpoint != DEVICE_ENDPOINT_TELEMETRY;

    in->qos = is_event || str_equal(level, STR("1"));
    *out_text = is_event && str_equal(level, STR("0")) ? "events and responses have QoS 1" : "QoS-Level must be 0 or 1";
    return !level.p || str_equal(level, STR("1")) || (str_equal(level, STR("0")) && !is_event);
}

/* Of a batch only where the sender is the one whom all is about unless an item says otherwise: on POST. */
static enum http_intake_form form_of(const struct http_request *r, struct str content_type)
{
    static const struct {
        struct str name;
        enum http_intake_form form;
    } forms[] = {
        {STR_INIT("application/cloudevents-batch+json"), HTTP_INTAKE_CLOUDEVENTS},
        {STR_INIT("application/x-ndjson"), HTTP_INTAKE_LINES},
        {STR_INIT("application/ndjson"), HTTP_INTAKE_LINES},
    };
    bool has_parameters;
    struct str type = str_take(&content_type, ';', &has_parameters);

    while (type.n && (type.p[type.n - 1] == ' ' || type.p[type.n - 1] == '\t'))
        type.n--;
    if (http_intake_endpoint(r->path) == DEVICE_ENDPOINT_COMMAND)
        return HTTP_INTAKE_SINGLE;
    for (size_t i = 0; i < ARRAY_LEN(forms) && r->method == HTTP_METHOD_POST; i++)
        if (str_equal_nocase(type, forms[i].name))
            return forms[i].form;
    return HTTP_INTAKE_SINGLE;
}

/* How long a sender of one message, not of a batch, wants to wait, as far as it may. */
static uint32_t ttd_of(const struct http_intake *in, struct str value)
{
    uint64_t ttd_s;

    if (in->form != HTTP_INTAKE_SINGLE || in->endpoint == DEVICE_ENDPOINT_COMMAND || !str_to_u64(value, UINT32_MAX, &ttd_s))
        return 0;
    return ttd_s < HTTP_INTAKE_TTD_MAX_S ? (uint32_t)ttd_s : HTTP_INTAKE_TTD_MAX_S;
}

/* docs/wire/commands.md: 3xx is no outcome of a command. */
static int status_of(struct str value)
{
    uint64_t status;

    if (!str_to_u64(value, 599, &status) || status < 200 || (status >= 300 && status < 400))
        return 0;
    return (int)status;
}

/* A time that is no number counts as absent, as everywhere in Hono; but for the status of a response, which must be there. */
static bool use(struct http_intake *in, const struct http_request *r, const struct str values[FIELDS], const char **out_text)
{
    in->bag.has_ttl = str_to_u64(values[FIELD_TTL], INT64_MAX, &in->bag.ttl_s);
    in->status = status_of(values[FIELD_STATUS]);
    *out_text = "hono-cmd-status must be a number from 200 to 299 or 400 to 599";
    if (in->endpoint == DEVICE_ENDPOINT_COMMAND && in->status == 0)
        return false;
    in->form = form_of(r, values[FIELD_CONTENT_TYPE]);
    in->ttd_s = ttd_of(in, values[FIELD_TTD]);
    in->content_type = values[FIELD_CONTENT_TYPE];
    in->pointer = values[FIELD_POINTER];
    if (in->form == HTTP_INTAKE_CLOUDEVENTS) {
        in->content_type = STR("application/cloudevents+json");
        if (!in->pointer.p)
            in->pointer = STR("/deviceid");
    } else if (in->form == HTTP_INTAKE_LINES) {
        in->content_type = STR("application/json");
    }
    *out_text = "the content type is not plain text";
    if (!utf8_is_plain(in->content_type))
        return false;
    *out_text = "device-pointer is no JSON pointer";
    return payload_field_is_pointer(in->pointer);
}

uint16_t http_intake_read(const struct http_request *r, struct http_intake *out, const char **out_text)
{
    struct str values[FIELDS] = {{0}};
    uint16_t status;

    *out = (struct http_intake){.endpoint = http_intake_endpoint(r->path), .address = address_of(r)};
    status = read_path(out, r->path, out_text);
    if (status)
        return status;
    if (!read_headers(out, r, values, out_text) || !read_query(out, r->query, values, out_text) ||
        !read_qos(out, values[FIELD_QOS], out_text) || !use(out, r, values, out_text))
        return 400;
    return 0;
}
