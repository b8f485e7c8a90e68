#include "core/device_record.h"

#include <assert.h>

#include "base/check.h"

static const struct str empty_notification = STR_INIT("application/vnd.eclipse-hono-empty-notification");

/* A record carries milliseconds as a signed number of 64 bits. */
static const uint64_t max_ttl_s = INT64_MAX / 1000;

/* Defaults that are no headers of their own, each the index of its value in struct specials. */
enum special { SPECIAL_CONTENT_TYPE, SPECIAL_TTL, SPECIAL_TTL_QOS0, SPECIAL_TTL_QOS1, SPECIALS, SPECIAL_IGNORED = SPECIALS };

static const struct {
    struct str name;
    enum special special;
} reserved[] = {
    {STR_INIT("content-type"), SPECIAL_CONTENT_TYPE},
    {STR_INIT("ttl"), SPECIAL_TTL},
    {STR_INIT("ttl-telemetry-qos0"), SPECIAL_TTL_QOS0},
    {STR_INIT("ttl-telemetry-qos1"), SPECIAL_TTL_QOS1},
    {STR_INIT("ttl-command-response"), SPECIAL_IGNORED},
    {STR_INIT("creation-time"), SPECIAL_IGNORED},
    {STR_INIT("device_id"), SPECIAL_IGNORED},
    {STR_INIT("gateway_id"), SPECIAL_IGNORED},
    {STR_INIT("orig_adapter"), SPECIAL_IGNORED},
    {STR_INIT("orig_address"), SPECIAL_IGNORED},
    {STR_INIT("qos"), SPECIAL_IGNORED},
    {STR_INIT("tenant_id"), SPECIAL_IGNORED},
    {STR_INIT("traceparent"), SPECIAL_IGNORED},
    {STR_INIT("tracestate"), SPECIAL_IGNORED},
    {STR_INIT("ttd"), SPECIAL_IGNORED},
    {STR_INIT("x-opt-retain"), SPECIAL_IGNORED},
};

/* A record being built. */
struct builder {
    struct device_record *out;
    size_t n_headers;
    size_t n_text;
    struct str specials[SPECIALS];
};

static void add(struct builder *b, struct str name, struct str value)
{
    ASSERT(b->n_headers < DEVICE_RECORD_MAX_HEADERS);
    b->out->headers[b->n_headers++] = (struct record_header){name, value};
}

static void add_if_given(struct builder *b, struct str name, struct str value)
{
    if (value.n > 0)
        add(b, name, value);
}

/* A number in its JSON form, which is plain decimal (docs/wire/device-data.md). */
static void add_number(struct builder *b, struct str name, bool is_negative, uint64_t magnitude)
{
    char digits[21];
    size_t at = sizeof(digits);
    struct str value;

    do
        digits[--at] = (char)('0' + magnitude % 10);
    while ((magnitude /= 10) > 0);
    if (is_negative)
        digits[--at] = '-';
    value = (struct str){b->out->text + b->n_text, sizeof(digits) - at};
    ASSERT(b->n_text + value.n <= sizeof(b->out->text));
    memcpy(b->out->text + b->n_text, digits + at, value.n);
    b->n_text += value.n;
    add(b, name, value);
}

static bool names(const struct device_defaults *defaults, struct str name)
{
    for (size_t i = 0; i < defaults->count; i++)
        if (str_equal(defaults->pairs[2 * i], name))
            return true;
    return false;
}

/* True when the default is none of the record's other headers; keeps those that have a special meaning. */
static bool is_free(struct builder *b, struct str name, struct str value)
{
    for (size_t i = 0; i < ARRAY_LEN(reserved); i++) {
        if (!str_equal(name, reserved[i].name))
            continue;
        if (reserved[i].special != SPECIAL_IGNORED)
            b->specials[reserved[i].special] = value;
        return false;
    }
    return true;
}

/* Adds the headers of `defaults` that `stronger` does not name. */
static enum device_fault add_defaults(struct builder *b, const struct device_defaults *defaults,
                                      const struct device_defaults *stronger, size_t *n_added)
{
    for (size_t i = 0; i < defaults->count; i++) {
        struct str name = defaults->pairs[2 * i];
        struct str value = defaults->pairs[2 * i + 1];

        if (names(stronger, name) || !is_free(b, name, value))
            continue;
        if (*n_added == DEVICE_RECORD_MAX_DEFAULTS)
            return DEVICE_FAULT_DEFAULTS;
        ++*n_added;
        add(b, name, value);
    }
    return DEVICE_FAULT_NONE;
}

static enum device_fault merge_defaults(struct builder *b, const struct device_message *m)
{
    static const struct device_defaults none;
    size_t n_added = 0;
    enum device_fault fault = add_defaults(b, &m->device_defaults, &none, &n_added);

    return fault ? fault : add_defaults(b, &m->tenant_defaults, &m->device_defaults, &n_added);
}

/* docs/wire/device-data.md: the candidate is capped by the tenant's bound, which stands in when there is none. */
static void add_ttl(struct builder *b, const struct device_message *m)
{
    bool is_event = m->endpoint == DEVICE_ENDPOINT_EVENT;
    enum special special = is_event ? SPECIAL_TTL : m->qos ? SPECIAL_TTL_QOS1 : SPECIAL_TTL_QOS0;
    int64_t bound_s = -1;
    uint64_t ttl_s = 0;
    bool has_ttl;

    if (m->limits)
        bound_s = is_event ? m->limits->max_ttl_s
                  : m->qos ? m->limits->max_ttl_telemetry_qos1_s
                           : m->limits->max_ttl_telemetry_qos0_s;
    if (is_event && m->bag && m->bag->has_ttl) {
        has_ttl = true;
        ttl_s = m->bag->ttl_s;
    } else {
        has_ttl = str_to_u64(b->specials[special], max_ttl_s, &ttl_s);
    }
    if (bound_s >= 0 && (!has_ttl || ttl_s > (uint64_t)bound_s)) {
        has_ttl = true;
        ttl_s = (uint64_t)bound_s;
    }
    if (has_ttl)
        add_number(b, STR("ttl"), false, (ttl_s < max_ttl_s ? ttl_s : max_ttl_s) * 1000);
}

static void add_trace(struct builder *b, const struct device_message *m)
{
    if (m->traceparent.n > 0) {
        add(b, STR("traceparent"), m->traceparent);
        add_if_given(b, STR("tracestate"), m->tracestate);
    } else if (m->bag && m->bag->traceparent.n > 0) {
        add(b, STR("traceparent"), m->bag->traceparent);
        add_if_given(b, STR("tracestate"), m->bag->tracestate);
    }
}

/* What the device itself said about its payload; defaults come later. */
static struct str given_content_type(const struct device_message *m)
{
    return m->bag && m->bag->content_type.n > 0 ? m->bag->content_type : m->content_type;
}

static enum device_fault check(const struct device_message *m, struct str content_type, bool *out_is_notification)
{
    *out_is_notification = str_equal(content_type, empty_notification);
    if (m->endpoint == DEVICE_ENDPOINT_EVENT && m->qos == 0)
        return DEVICE_FAULT_EVENT_QOS;
    if (m->payload.n == 0 && content_type.n == 0)
        return DEVICE_FAULT_EMPTY_PAYLOAD;
    if (m->payload.n > 0 && *out_is_notification)
        return DEVICE_FAULT_NOTIFICATION_PAYLOAD;
    return DEVICE_FAULT_NONE;
}

enum device_fault device_record_build(const struct device_message *message, struct device_record *out_record)
{
    const struct device_message *m = message;
    struct builder b = {.out = out_record};
    struct str content_type = given_content_type(m);
    bool is_notification;
    enum device_fault fault = check(m, content_type, &is_notification);

    ASSERT(m->endpoint == DEVICE_ENDPOINT_TELEMETRY || m->endpoint == DEVICE_ENDPOINT_EVENT);
    if (!fault && (m->device_defaults.count || m->tenant_defaults.count))
        fault = merge_defaults(&b, m);
    if (fault)
        return fault;
    if (content_type.n == 0)
        content_type = b.specials[SPECIAL_CONTENT_TYPE];
    add(&b, STR("device_id"), m->device_id);
    add(&b, STR("qos"), m->qos ? STR("1") : STR("0"));
    add(&b, STR("content-type"), content_type.n > 0 ? content_type : STR("application/octet-stream"));
    add_number(&b, STR("creation-time"), false, m->creation_time_ms);
    add_if_given(&b, STR("orig_adapter"), m->adapter);
    add_if_given(&b, STR("orig_address"), m->address);
    add_ttl(&b, m);
    if (m->has_ttd)
        add_number(&b, STR("ttd"), m->ttd_s < 0, m->ttd_s < 0 ? (uint64_t) - (int64_t)m->ttd_s : (uint64_t)m->ttd_s);
    if (m->is_retained)
        add(&b, STR("x-opt-retain"), STR("true"));
    add_trace(&b, m);
    add_if_given(&b, STR("tenant_id"), m->tenant_id);
    add_if_given(&b, STR("gateway_id"), m->gateway_id);
    out_record->record = (struct record){
        .key = m->device_id,
        .value = is_notification    ? (struct str){0}
                 : m->payload.n > 0 ? m->payload
                                    : STR(""),
        .headers = out_record->headers,
        .n_headers = b.n_headers,
    };
    return DEVICE_FAULT_NONE;
}

enum device_fault device_record_add(struct device_record *record, struct str name, struct str value)
{
    for (size_t i = 0; i < ARRAY_LEN(reserved); i++)
        if (str_equal_nocase(name, reserved[i].name))
            return DEVICE_FAULT_NONE;
    for (size_t i = 0; i < record->record.n_headers; i++) {
        if (!str_equal(record->headers[i].name, name))
            continue;
        record->headers[i].value = value;
        return DEVICE_FAULT_NONE;
    }
    if (record->record.n_headers == DEVICE_RECORD_MAX_HEADERS)
        return DEVICE_FAULT_DEFAULTS;
    record->headers[record->record.n_headers++] = (struct record_header){name, value};
    return DEVICE_FAULT_NONE;
}
