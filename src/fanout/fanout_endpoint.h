/* fanout_endpoint: an address that events are sent to, as one worker knows it: whether it is well, how many retries it is given, and the
 * pool of connections that belongs to it alone. Kept as long as a view of a snapshot names it. Internal to fanout/; one thread. */
#pragma once

#include "base/map.h"
#include "base/str.h"
#include "fanout/fanout_breaker.h"
#include "fanout/fanout_budget.h"

struct fanout_endpoint {
    uint32_t references;
    uint64_t idle_since_ms; /* when the last reference was given back */
    uint64_t hash;          /* of the text: the pool of the HTTP client, too */
    struct fanout_breaker breaker;
    struct fanout_budget budget;
    size_t n_text;
    char text[];
};

/* The endpoint with this address, with one more reference; made if there is none. Never NULL. */
struct fanout_endpoint *fanout_endpoint_take(struct map *endpoints, struct str text, uint64_t now_ms);

/* The same without a reference, to look at; NULL: there is none. */
const struct fanout_endpoint *fanout_endpoint_find(const struct map *endpoints, struct str text);

/* Gives the reference back; without one it is kept for a while, for the next generation. NULL is a no-op. */
void fanout_endpoint_give(struct fanout_endpoint *endpoint, uint64_t now_ms);

/* Frees those that nobody has referred to since `before_ms`. */
void fanout_endpoint_sweep(struct map *endpoints, uint64_t before_ms);
