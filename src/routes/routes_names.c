/* Names of devices, and what is found by them. */
#include <stdio.h>
#include <string.h>

#include "base/siphash.h"
#include "routes/routes_private.h"

enum { PARTITION_TEXT_BYTES = 12 };

struct pair {
    struct str tenant, device;
};

static bool has_names(const void *entry, const void *key)
{
    const struct routes_names *names = entry;
    const struct pair *pair = key;

    return str_equal(routes_names_device(names), pair->device) && str_equal(routes_names_tenant(names), pair->tenant);
}

static uint64_t hash_of(const struct routes_names *names)
{
    return siphash_pair(routes_names_tenant(names), routes_names_device(names));
}

void *routes_names_new(size_t object_bytes, struct str tenant, struct str device, struct str gateway)
{
    struct routes_names *names = mem_alloc(MEM_ROUTES, object_bytes + tenant.n + device.n + gateway.n);
    char *at = (char *)names + object_bytes;

    ASSERT(object_bytes <= UINT8_MAX && tenant.n <= UINT16_MAX && device.n <= UINT16_MAX && gateway.n <= UINT16_MAX);
    memset(names, 0, object_bytes);
    names->text_at = (uint8_t)object_bytes;
    names->tenant_n = (uint16_t)tenant.n;
    names->device_n = (uint16_t)device.n;
    names->gateway_n = (uint16_t)gateway.n;
    memcpy(at, tenant.n ? tenant.p : "", tenant.n);
    memcpy(at + tenant.n, device.n ? device.p : "", device.n);
    memcpy(at + tenant.n + device.n, gateway.n ? gateway.p : "", gateway.n);
    return names;
}

void *routes_names_find(const struct map *map, struct str tenant, struct str device)
{
    struct pair pair = {tenant, device};

    return map_find(map, siphash_pair(tenant, device), &pair, has_names);
}

void routes_names_add(struct map *map, struct routes_names *names)
{
    map_add(map, MEM_ROUTES, hash_of(names), names);
}

void routes_names_remove(struct map *map, struct routes_names *names)
{
    ASSERT(map_remove(map, hash_of(names), names));
}

void routes_names_clear(struct map *map)
{
    uint32_t cursor = 0;
    void *names;

    while ((names = map_next(map, &cursor)))
        mem_free(MEM_ROUTES, names);
    map_free(map, MEM_ROUTES);
}

/* --- partitions of topics --- */

struct topic_key {
    char text[PARTITION_TEXT_BYTES];
    struct str partition;
};

static void make_topic_key(int32_t partition, struct topic_key *out)
{
    out->partition = (struct str){out->text, (size_t)snprintf(out->text, sizeof out->text, "%d", partition)};
}

struct routes_topic *routes_topic_find(const struct map *topics, struct str topic, int32_t partition)
{
    struct topic_key key;

    make_topic_key(partition, &key);
    return routes_names_find(topics, topic, key.partition);
}

struct routes_topic *routes_topic_add(struct map *topics, struct str topic, int32_t partition)
{
    struct routes_topic *t;
    struct topic_key key;

    make_topic_key(partition, &key);
    t = routes_names_new(sizeof *t, topic, key.partition, (struct str){0});
    t->partition = partition;
    routes_names_add(topics, &t->names);
    return t;
}

void routes_topic_clear(struct map *topics)
{
    uint32_t cursor = 0;
    struct routes_topic *t;

    while ((t = map_next(topics, &cursor)))
        routes_done_free(&t->done);
    routes_names_clear(topics);
}
