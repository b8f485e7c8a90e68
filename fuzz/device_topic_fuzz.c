/* device_topic_fuzz: what a device controls on its way to a record or an error message: publish topic with property bag, content
 * type, payload size, and the filter of a subscription to errors. Input: a byte of flags, a byte for the length of the second
 * text, that text (filter and content type), and the topic. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/utf8.h"
#include "core/device_error.h"
#include "core/device_record.h"
#include "core/device_topic.h"
#include "core/property_bag.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_within(struct str part, struct str whole)
{
    return part.n == 0 || (part.p >= whole.p && part.p + part.n <= whole.p + whole.n);
}

static void check_topic(const struct device_topic *t, struct str topic, enum device_fault fault)
{
    ASSERT(is_within(t->tenant, topic) && is_within(t->device, topic) && is_within(t->bag, topic) && is_within(t->path, topic));
    ASSERT(t->endpoint == DEVICE_ENDPOINT_NONE || device_topic_may_match(topic));
    if (fault || t->endpoint == DEVICE_ENDPOINT_NONE)
        return;
    ASSERT(t->tenant.n == 0 || t->device.n > 0);
    ASSERT((t->endpoint == DEVICE_ENDPOINT_COMMAND) == (t->status != 0));
}

/* An own block of exactly the right size, so that the sanitizer sees a write past its end. */
static bool read_bag(struct str raw, size_t scratch_bytes, char **out_scratch, struct property_bag *out_bag)
{
    enum device_fault fault;

    *out_scratch = malloc(scratch_bytes ? scratch_bytes : 1);
    ASSERT(*out_scratch);
    fault = property_bag_parse(raw, *out_scratch, scratch_bytes, out_bag);
    ASSERT(fault != DEVICE_FAULT_BAG_SIZE || scratch_bytes < raw.n);
    if (!fault)
        ASSERT(utf8_is_plain(out_bag->content_type) && utf8_is_plain(out_bag->correlation_id));
    return !fault;
}

static void build(struct device_message *m)
{
    const struct str defaults[] = {STR("ttl"), STR("60"), STR("site"), m->content_type, m->device_id, STR("x")};
    const struct device_limits limits = {m->creation_time_ms % 100, -1, 5};
    struct device_record r;

    m->device_defaults = (struct device_defaults){defaults, 2};
    m->tenant_defaults = (struct device_defaults){defaults, 3};
    m->limits = &limits;
    if (device_record_build(m, &r))
        return;
    ASSERT(r.record.n_headers >= 6 && r.record.n_headers <= DEVICE_RECORD_MAX_HEADERS);
    for (size_t i = 0; i < r.record.n_headers; i++)
        for (size_t j = 0; j < i; j++)
            ASSERT(!str_equal(r.headers[i].name, r.headers[j].name));
}

static void report(const struct device_topic *t, const struct property_bag *bag, struct str filter, unsigned flags)
{
    struct device_error e = {
        .endpoint = t->endpoint,
        .is_short = t->is_short,
        .device = t->device,
        .sender = flags & 1 ? STR("g1") : STR(""),
        .tenant = t->tenant,
        .correlation_id = bag->correlation_id,
        .packet_id = (uint16_t)flags,
        .status = 400,
        .message = filter,
        .time_ms = flags,
    };
    struct device_error_filter f;
    char out[256];
    size_t n = 0;

    if (!device_error_format_body(&e, out, sizeof(out), &n))
        ASSERT(n < sizeof(out) && out[n] == '\0');
    if (device_error_parse_filter(filter, &f))
        return;
    ASSERT(is_within(f.tenant, filter) && is_within(f.device, filter));
    if (device_error_matches(&f, &e) && !device_error_format_topic(&f, &e, out, sizeof(out), &n))
        ASSERT(n < sizeof(out) && out[n] == '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str input = {(const char *)data, size};
    unsigned flags = size > 0 ? data[0] : 0;
    size_t text_bytes = size > 1 ? data[1] : 0;
    struct str text = str_from_offset(input, 2);
    struct str topic = str_from_offset(text, text_bytes);
    struct device_topic t;
    struct property_bag bag = {0};
    enum device_fault fault = device_topic_parse(topic, flags & 2 ? DEVICE_TOPIC_LONG_NAMES : 0, &t);
    char *scratch;
    bool has_bag = read_bag(t.bag, flags & 4 ? t.bag.n : t.bag.n / 4, &scratch, &bag);

    if (text.n > text_bytes)
        text.n = text_bytes;
    check_topic(&t, topic, fault);
    if (!fault && has_bag && (t.endpoint == DEVICE_ENDPOINT_TELEMETRY || t.endpoint == DEVICE_ENDPOINT_EVENT)) {
        struct device_message m = {
            .endpoint = t.endpoint,
            .qos = flags >> 3 & 1,
            .is_retained = flags >> 4 & 1,
            .has_ttd = flags >> 5 & 1,
            .ttd_s = (int32_t)flags - 128,
            .device_id = t.device,
            .payload = flags >> 6 & 1 ? text : (struct str){0},
            .address = topic,
            .adapter = STR("hono-mqtt"),
            .content_type = text,
            .bag = &bag,
            .creation_time_ms = flags,
        };

        build(&m);
    }
    report(&t, &bag, text, flags);
    free(scratch);
    return 0;
}
