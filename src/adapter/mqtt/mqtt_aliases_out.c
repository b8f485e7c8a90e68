#include "adapter/mqtt/mqtt_aliases_out.h"

#include "adapter/mqtt/mqtt_extras.h"
#include "base/map.h"
#include "base/siphash.h"

enum { ALIAS_BYTES = 3 /* of the property: shorter topics go as they are */ };

struct entry {
    uint16_t alias;
    uint16_t topic_bytes;
    char topic[];
};

struct mqtt_aliases_out {
    struct map topics;
};

static bool is_topic(const void *item, const void *key)
{
    const struct entry *entry = item;

    return str_equal((struct str){entry->topic, entry->topic_bytes}, *(const struct str *)key);
}

static struct mqtt_aliases_out *aliases_of(struct mqtt_conn *c)
{
    struct mqtt_extras *extras = mqtt_extras_make(c);

    if (!extras->aliases_out)
        extras->aliases_out = mem_alloc_zero(MEM_ADAPTER, sizeof *extras->aliases_out);
    return extras->aliases_out;
}

static size_t size_of(const struct mqtt_publish_out *out)
{
    return mqtt_publish_size(MQTT_VERSION_5, out);
}

bool mqtt_aliases_out_use(struct mqtt_conn *c, struct mqtt_publish_out *out)
{
    struct map *topics;
    const struct entry *known;

    if (out->topic.n <= ALIAS_BYTES)
        return false;
    topics = &aliases_of(c)->topics;
    known = map_find(topics, siphash(out->topic), &out->topic, is_topic);
    if (known) {
        out->topic_alias = known->alias;
        out->topic = (struct str){0};
        return false;
    }
    if (topics->n_entries >= c->aliases_out_maximum)
        return false;
    out->topic_alias = (uint16_t)(topics->n_entries + 1);
    if (!c->max_packet_size || size_of(out) <= c->max_packet_size)
        return true;
    out->topic_alias = 0; /* it may fit without */
    return false;
}

void mqtt_aliases_out_set(struct mqtt_conn *c, struct str topic)
{
    struct map *topics = &aliases_of(c)->topics;
    struct entry *entry = mem_try_alloc(MEM_ADAPTER, sizeof *entry + topic.n);

    if (!entry)
        return;
    *entry = (struct entry){.alias = (uint16_t)(topics->n_entries + 1), .topic_bytes = (uint16_t)topic.n};
    memcpy(entry->topic, topic.p, topic.n);
    map_add(topics, MEM_ADAPTER, siphash(topic), entry);
}

void mqtt_aliases_out_free(struct mqtt_aliases_out *aliases)
{
    uint32_t cursor = 0;
    void *entry;

    if (!aliases)
        return;
    while ((entry = map_next(&aliases->topics, &cursor)))
        mem_free(MEM_ADAPTER, entry);
    map_free(&aliases->topics, MEM_ADAPTER);
    mem_free(MEM_ADAPTER, aliases);
}
