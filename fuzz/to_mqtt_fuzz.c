/* What strangers can put into a record, and into the metadata of a commit. Lines: a key, a header's value, metadata. Whatever they
 * are, a message has a topic that MQTT allows, and metadata is taken for what was written or for nothing. */
#include <stdint.h>

#include "base/check.h"
#include "base/mem.h"
#include "core/to_mqtt_route.h"
#include "kafka/kafka_consumer_window.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_LEVELS = 8, OFFSET = 1000 };

static const struct to_mqtt_spec specs[] = {
    {.topic = STR_INIT("t.{tenant}"), .key = STR_INIT("^(?<d>[^.]+)\\.(?<rest>.*)$"), .mqtt = STR_INIT("in/{d}/{rest#}")},
    {.topic = STR_INIT("^t"),
     .key = STR_INIT("^((a|b)*)+(?<x>.)$"),
     .mqtt = STR_INIT("{x}-{header.h}"),
     .tenant = STR_INIT("{header.h}")},
    {.topic = STR_INIT("^t"), .mqtt = STR_INIT("{key#}"), .tenant = STR_INIT("a")},
};

static void check_topic(struct str topic)
{
    uint32_t levels = 1;

    ASSERT(topic.n > 0 && topic.n <= TO_MQTT_TOPIC_MAX_BYTES);
    for (size_t i = 0; i < topic.n; i++) {
        ASSERT(topic.p[i] != '+' && topic.p[i] != '#' && topic.p[i] != '\0');
        levels += topic.p[i] == '/';
    }
    ASSERT(levels <= MAX_LEVELS);
}

static void map(struct str key, struct str value)
{
    struct source_partition partition = {.topic = STR("t.acme")};
    const struct record_header headers[] = {
        {STR("h"), value}, {STR("mqtt.hops"), value}, {STR("mqtt.expiry_s"), value}, {STR("mqtt.response_topic"), value}};
    struct source_record r = {
        .partition = &partition, .key = key, .headers = headers, .n_headers = ARRAY_LEN(headers), .timestamp_ms = 1000};
    struct to_mqtt_rules *rules = to_mqtt_rules_new(MAX_LEVELS);
    struct to_mqtt_route *route;
    struct to_mqtt_message m;
    struct record_header property;
    struct to_mqtt_fault fault;
    size_t at = 0;

    for (size_t i = 0; i < ARRAY_LEN(specs); i++)
        ASSERT(to_mqtt_rules_add(rules, &specs[i], &fault) == E_OK);
    route = to_mqtt_route_new(rules, partition.topic);
    if (to_mqtt_route_map(route, &r, 60000, &m) == TO_MQTT_REFUSED_NOTHING) {
        check_topic(m.topic);
        ASSERT(m.tenant.n > 0);
        if (m.response_topic.p)
            ASSERT(m.response_topic.n > 0 && !memchr(m.response_topic.p, '#', m.response_topic.n));
    }
    while (to_mqtt_route_next_property(&r, &at, &property))
        ASSERT(property.value.n <= TO_MQTT_TOPIC_MAX_BYTES);
    to_mqtt_route_free(route);
    to_mqtt_rules_unref(rules);
}

/* What a window makes of metadata it writes again, and the next one understands it in the same way. */
static void check_metadata(struct str metadata)
{
    static char text[KAFKA_WINDOW_METADATA_BYTES];
    struct kafka_window w, again;
    struct list stale;
    int64_t point;

    list_init(&stale);
    kafka_window_start(&w, OFFSET, metadata);
    point = kafka_window_commit_point(&w);
    ASSERT(point >= OFFSET);
    kafka_window_start(&again, point, (struct str){text, kafka_window_format(&w, text, sizeof text)});
    for (int64_t offset = point; offset < again.done_end && offset < point + 2000; offset++) {
        bool wants = kafka_window_wants(&again, offset);

        ASSERT(wants == kafka_window_wants(&w, offset));
        if (wants)
            w.next_offset = again.next_offset = offset + 1;
    }
    kafka_window_clear(&w, &stale);
    kafka_window_clear(&again, &stale);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = {(const char *)data, size};
    bool more;
    struct str key = str_take(&rest, '\n', &more), value = str_take(&rest, '\n', &more);

    map(key, value);
    check_metadata(rest);
    return 0;
}
