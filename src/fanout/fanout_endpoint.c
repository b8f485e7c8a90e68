#include "fanout/fanout_endpoint.h"

#include <string.h>

#include "base/check.h"
#include "base/siphash.h"

static bool has_text(const void *entry, const void *key)
{
    const struct fanout_endpoint *endpoint = entry;

    return str_equal((struct str){endpoint->text, endpoint->n_text}, *(const struct str *)key);
}

struct fanout_endpoint *fanout_endpoint_take(struct map *endpoints, struct str text, uint64_t now_ms)
{
    uint64_t hash = siphash(text);
    struct fanout_endpoint *endpoint = map_find(endpoints, hash, &text, has_text);

    if (!endpoint) {
        endpoint = mem_alloc_zero(MEM_FANOUT, sizeof *endpoint + text.n);
        endpoint->hash = hash;
        endpoint->n_text = text.n;
        memcpy(endpoint->text, text.p, text.n);
        fanout_budget_init(&endpoint->budget, now_ms);
        map_add(endpoints, MEM_FANOUT, hash, endpoint);
    }
    endpoint->references++;
    return endpoint;
}

const struct fanout_endpoint *fanout_endpoint_find(const struct map *endpoints, struct str text)
{
    return map_find(endpoints, siphash(text), &text, has_text);
}

void fanout_endpoint_give(struct fanout_endpoint *endpoint, uint64_t now_ms)
{
    if (!endpoint || --endpoint->references > 0)
        return;
    endpoint->idle_since_ms = now_ms;
}

/* The map must not change while it is walked. */
static size_t collect(struct map *endpoints, uint64_t before_ms, struct fanout_endpoint **to, size_t size)
{
    uint32_t cursor = 0;
    struct fanout_endpoint *endpoint;
    size_t n = 0;

    while (n < size && (endpoint = map_next(endpoints, &cursor)))
        if (endpoint->references == 0 && endpoint->idle_since_ms < before_ms)
            to[n++] = endpoint;
    return n;
}

void fanout_endpoint_sweep(struct map *endpoints, uint64_t before_ms)
{
    struct fanout_endpoint *found[64];
    size_t n;

    while ((n = collect(endpoints, before_ms, found, ARRAY_LEN(found))))
        for (size_t i = 0; i < n; i++) {
            ASSERT(map_remove(endpoints, found[i]->hash, found[i]));
            mem_free(MEM_FANOUT, found[i]);
        }
}
