#include "core/device_topic.h"

#include <assert.h>
#include <string.h>

#include "base/check.h"

enum { MIN_STATUS = 200, MAX_STATUS = 599 };

static const struct {
    struct str name;
    enum device_endpoint endpoint;
    bool is_short;
} endpoint_names[] = {
    {STR_INIT("telemetry"), DEVICE_ENDPOINT_TELEMETRY, false},
    {STR_INIT("t"), DEVICE_ENDPOINT_TELEMETRY, true},
    {STR_INIT("event"), DEVICE_ENDPOINT_EVENT, false},
    {STR_INIT("e"), DEVICE_ENDPOINT_EVENT, true}, /* only in filters is `e` the error endpoint */
    {STR_INIT("command"), DEVICE_ENDPOINT_COMMAND, false},
    {STR_INIT("c"), DEVICE_ENDPOINT_COMMAND, true},
    {STR_INIT("error"), DEVICE_ENDPOINT_ERROR, false},
};

static const char *const long_names[] = {
    [DEVICE_ENDPOINT_NONE] = "none",       [DEVICE_ENDPOINT_TELEMETRY] = "telemetry", [DEVICE_ENDPOINT_EVENT] = "event",
    [DEVICE_ENDPOINT_COMMAND] = "command", [DEVICE_ENDPOINT_ERROR] = "error",
};
static_assert(ARRAY_LEN(long_names) == DEVICE_ENDPOINTS, "every endpoint has a name");

static struct str next_level(struct str *rest)
{
    bool found;

    return str_take(rest, '/', &found);
}

static bool find_endpoint(struct str name, unsigned flags, struct device_topic *out_topic)
{
    for (size_t i = 0; i < ARRAY_LEN(endpoint_names); i++) {
        if (!str_equal(name, endpoint_names[i].name))
            continue;
        if (endpoint_names[i].is_short && (flags & DEVICE_TOPIC_LONG_NAMES))
            return false;
        out_topic->endpoint = endpoint_names[i].endpoint;
        out_topic->is_short = endpoint_names[i].is_short;
        return true;
    }
    return false;
}

/* The bag begins at the last `/?`; a `?` elsewhere is part of a level. */
static void split_bag(struct str topic, struct device_topic *out_topic)
{
    size_t n = topic.n;
    const char *mark;

    out_topic->path = topic;
    while ((mark = memrchr(topic.p, '?', n)) != NULL) {
        n = (size_t)(mark - topic.p);
        if (n > 0 && topic.p[n - 1] == '/') {
            out_topic->path.n = n - 1;
            out_topic->bag = str_from_offset(topic, n + 1);
            return;
        }
    }
}

static enum device_fault parse_response(struct str rest, struct device_topic *out_topic)
{
    uint64_t status;

    (void)next_level(&rest); /* `res` or `s`, which Hono does not look at either */
    out_topic->request_id = next_level(&rest);
    out_topic->status_text = next_level(&rest);
    if (out_topic->status_text.n == 0)
        return DEVICE_FAULT_FEW_SEGMENTS;
    if (out_topic->request_id.n == 0)
        return DEVICE_FAULT_REQUEST_ID;
    /* docs/wire/device-data.md: 3xx is no outcome of a command. */
    if (!str_to_u64(out_topic->status_text, MAX_STATUS, &status) || status < MIN_STATUS || (status >= 300 && status < 400))
        return DEVICE_FAULT_STATUS;
    out_topic->status = (uint16_t)status;
    return DEVICE_FAULT_NONE;
}

enum device_fault device_topic_parse(struct str topic, unsigned flags, struct device_topic *out_topic)
{
    struct str rest = topic;

    *out_topic = (struct device_topic){0};
    if (!device_topic_may_match(topic) || !find_endpoint(next_level(&rest), flags, out_topic))
        return DEVICE_FAULT_NONE;
    split_bag(topic, out_topic);
    if (out_topic->endpoint == DEVICE_ENDPOINT_ERROR)
        return DEVICE_FAULT_ENDPOINT;
    rest = out_topic->path;
    (void)next_level(&rest); /* the endpoint */
    out_topic->tenant = next_level(&rest);
    out_topic->device = next_level(&rest);
    if (out_topic->tenant.n > 0 && out_topic->device.n == 0)
        return DEVICE_FAULT_NO_DEVICE;
    return out_topic->endpoint == DEVICE_ENDPOINT_COMMAND ? parse_response(rest, out_topic) : DEVICE_FAULT_NONE;
}

const char *device_topic_endpoint_name(enum device_endpoint endpoint)
{
    ASSERT((unsigned)endpoint < DEVICE_ENDPOINTS);
    return long_names[endpoint];
}
