#include "adapter/tenant_topics.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/siphash.h"

enum { TOPIC_BYTES = 300 };

struct tenant {
    struct sink_topic *topics[DEVICE_ENDPOINTS];
    size_t id_bytes;
    char id[];
};

static bool has_id(const void *entry, const void *key)
{
    const struct tenant *ten = entry;

    return str_equal((struct str){ten->id, ten->id_bytes}, *(const struct str *)key);
}

static struct sink_topic *topic_of(struct tenant_topics *topics, const char *kind, struct str tenant)
{
    char name[TOPIC_BYTES];
    int n = snprintf(name, sizeof name, "hono.%s.%.*s", kind, STR_ARG(tenant));

    return sink_find_topic(topics->sink, (struct str){name, (size_t)n});
}

static struct tenant *tenant_new(struct tenant_topics *topics, struct str id)
{
    struct tenant *ten = mem_alloc_zero(MEM_ADAPTER, sizeof *ten + id.n);

    ten->id_bytes = id.n;
    memcpy(ten->id, id.p, id.n);
    ten->topics[DEVICE_ENDPOINT_TELEMETRY] = topic_of(topics, "telemetry", id);
    ten->topics[DEVICE_ENDPOINT_EVENT] = topic_of(topics, "event", id);
    ten->topics[DEVICE_ENDPOINT_COMMAND] = topic_of(topics, "command_response", id);
    map_add(&topics->map, MEM_ADAPTER, siphash(id), ten);
    return ten;
}

struct sink_topic *tenant_topics_find(struct tenant_topics *topics, struct str tenant, enum device_endpoint endpoint)
{
    struct tenant *ten = map_find(&topics->map, siphash(tenant), &tenant, has_id);

    if (!ten)
        ten = tenant_new(topics, tenant);
    return ten->topics[endpoint];
}

void tenant_topics_fini(struct tenant_topics *topics)
{
    uint32_t cursor = 0;
    void *tenant;

    while ((tenant = map_next(&topics->map, &cursor)))
        mem_free(MEM_ADAPTER, tenant);
    map_free(&topics->map, MEM_ADAPTER);
}
