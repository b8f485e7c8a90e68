/* generation: one state of everything that a reload can change: the configuration, the registry made of it, and the compiled
 * rules. Immutable and shared by reference count, any thread. Each worker holds one and uses nothing else while it handles a
 * packet, so that every publish sees exactly one generation; a reload gives it the next (adapter/mqtt/mqtt_reload.h). */
#pragma once

#include <stdint.h>

#include "config/config.h"

struct registry;
struct rule_table;
struct to_mqtt_rules;

struct generation {
    uint64_t number; /* from 1 */
    struct config *config;
    struct registry *registry;
    struct rule_table *rules;      /* never NULL */
    struct to_mqtt_rules *to_mqtt; /* NULL: whoever made it has nothing read from Kafka; set before it is shared, and owned */
};

/* Takes the caller's references to `config` and `rules` and builds the registry. `rules` NULL: none. The caller owns one
 * reference. Never fails. */
struct generation *generation_new(uint64_t number, struct config *config, struct rule_table *rules);

/* Takes and gives back a reference. The last generation_unref() frees; NULL is a no-op. */
struct generation *generation_ref(struct generation *generation);
void generation_unref(struct generation *generation);
