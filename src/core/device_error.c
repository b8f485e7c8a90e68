#include "core/device_error.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/utf8.h"

/* The <kind> level of the topic, by the endpoint of the failed publish and the length of the name it used. */
static const struct str kinds[][2] = {
    [DEVICE_ENDPOINT_NONE] = {STR_INIT("unknown"), STR_INIT("unknown")},
    [DEVICE_ENDPOINT_TELEMETRY] = {STR_INIT("telemetry"), STR_INIT("t")},
    [DEVICE_ENDPOINT_EVENT] = {STR_INIT("event"), STR_INIT("e")},
    [DEVICE_ENDPOINT_COMMAND] = {STR_INIT("command-response"), STR_INIT("c-s")},
    [DEVICE_ENDPOINT_ERROR] = {STR_INIT("unknown"), STR_INIT("unknown")},
};
static_assert(ARRAY_LEN(kinds) == DEVICE_ENDPOINTS, "every endpoint has its kinds");

/* Text being written. Past the end nothing is stored, but counted. */
struct writer {
    char *p;
    size_t size;
    size_t n;
};

static void put(struct writer *w, struct str text)
{
    if (text.n > 0 && w->n < w->size && text.n <= w->size - w->n)
        memcpy(w->p + w->n, text.p, text.n);
    w->n += text.n;
}

static void put_number(struct writer *w, int number)
{
    char text[16];
    int n = snprintf(text, sizeof(text), "%d", number);

    put(w, (struct str){text, (size_t)n});
}

/* Ends the text with a NUL that is not counted. */
static err finish(struct writer *w, size_t *out_n)
{
    if (w->n >= w->size)
        return E_LIMIT;
    w->p[w->n] = '\0';
    *out_n = w->n;
    return E_OK;
}

/* The inside of a JSON string (RFC 8259 section 7). */
static void put_json(struct writer *w, struct str text)
{
    for (size_t i = 0; i < text.n; i++) {
        char escape[8];
        unsigned char c = (unsigned char)text.p[i];

        if (c == '"' || c == '\\')
            put(w, STR("\\"));
        if (c >= 0x20) {
            put(w, (struct str){text.p + i, 1});
        } else {
            snprintf(escape, sizeof(escape), "\\u%04x", c);
            put(w, (struct str){escape, 6});
        }
    }
}

static void put_time(struct writer *w, uint64_t time_ms)
{
    time_t seconds = (time_t)(time_ms / 1000);
    struct tm tm = {0};
    char text[32];
    size_t n;

    gmtime_r(&seconds, &tm); /* fails only after the year 2^31 */
    n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
    put(w, (struct str){text, n});
    n = (size_t)snprintf(text, sizeof(text), ".%03uZ", (unsigned)(time_ms % 1000));
    put(w, (struct str){text, n});
}

static void put_packet_id(struct writer *w, uint16_t packet_id)
{
    put_number(w, packet_id ? packet_id : -1);
}

static bool is_topic_level(struct str text)
{
    return text.n > 0 && utf8_is_plain(text) && !memchr(text.p, '/', text.n) && !memchr(text.p, '+', text.n) &&
           !memchr(text.p, '#', text.n);
}

/* The id of the device whose errors the filter is for: by name, else the subscriber's own. */
static struct str subscribed_device(const struct device_error_filter *filter, const struct device_error *error)
{
    return filter->device.n > 0 ? filter->device : error->sender;
}

static struct str failed_device(const struct device_error *error)
{
    return error->device.n > 0 ? error->device : error->sender;
}

err device_error_parse_filter(struct str filter, struct device_error_filter *out_filter)
{
    struct device_error_filter f = {0};
    bool found;
    struct str first = str_take(&filter, '/', &found);

    f.is_short = str_equal(first, STR("e"));
    if (!f.is_short && !str_equal(first, STR("error")))
        return E_NOTFOUND;
    f.tenant = str_take(&filter, '/', &found);
    f.device = str_take(&filter, '/', &found);
    if (!str_equal(filter, STR("#")) || str_equal(f.tenant, STR("+")))
        return E_INVAL;
    if (str_equal(f.device, STR("+"))) {
        f.is_for_all = true;
        f.device = (struct str){0};
    }
    *out_filter = f;
    return E_OK;
}

bool device_error_matches(const struct device_error_filter *filter, const struct device_error *error)
{
    struct str device = subscribed_device(filter, error);

    if (filter->tenant.n > 0 && !str_equal(filter->tenant, error->tenant))
        return false;
    return device.n > 0 && (str_equal(device, error->sender) || str_equal(device, failed_device(error)));
}

err device_error_format_topic(const struct device_error_filter *filter, const struct device_error *error, char *out,
                              size_t size, size_t *out_n)
{
    struct writer w = {out, size, 0};
    struct str failed = failed_device(error);
    bool is_other = failed.n > 0 && !str_equal(failed, subscribed_device(filter, error));

    ASSERT((unsigned)error->endpoint < DEVICE_ENDPOINTS);
    put(&w, filter->is_short ? STR("e") : STR("error"));
    put(&w, STR("/"));
    put(&w, filter->tenant);
    put(&w, STR("/"));
    put(&w, is_other ? failed : filter->device);
    put(&w, STR("/"));
    put(&w, kinds[error->endpoint][error->is_short]);
    put(&w, STR("/"));
    if (is_topic_level(error->correlation_id))
        put(&w, error->correlation_id);
    else
        put_packet_id(&w, error->packet_id);
    put(&w, STR("/"));
    put_number(&w, error->status);
    return finish(&w, out_n);
}

err device_error_format_body(const struct device_error *error, char *out, size_t size, size_t *out_n)
{
    struct writer w = {out, size, 0};

    put(&w, STR("{\"code\":"));
    put_number(&w, error->status);
    put(&w, STR(",\"message\":\""));
    put_json(&w, error->message);
    put(&w, STR("\",\"timestamp\":\""));
    put_time(&w, error->time_ms);
    put(&w, STR("\",\"correlation-id\":\""));
    if (error->correlation_id.n > 0)
        put_json(&w, error->correlation_id);
    else
        put_packet_id(&w, error->packet_id);
    put(&w, STR("\"}"));
    return finish(&w, out_n);
}
