#include "registry/generation.h"

#include <stdatomic.h>

#include "base/check.h"
#include "base/mem.h"
#include "core/rule_table.h"
#include "core/to_mqtt_rule.h"
#include "loop/tls.h"
#include "loop/tls_tickets.h"
#include "registry/registry.h"

struct counted {
    struct generation generation;
    atomic_uint refs;
};

static struct counted *counted_of(struct generation *generation)
{
    return CONTAINER_OF(generation, struct counted, generation);
}

static struct rule_table *no_rules(void)
{
    struct rule_table *rules = rule_table_new(0);

    rule_table_finish(rules);
    return rules;
}

struct generation *generation_new(uint64_t number, struct config *config, struct rule_table *rules)
{
    struct counted *counted = mem_alloc_zero(MEM_REGISTRY, sizeof *counted);

    atomic_init(&counted->refs, 1);
    counted->generation = (struct generation){
        .number = number, .config = config, .registry = registry_new(config), .rules = rules ? rules : no_rules()};
    return &counted->generation;
}

struct generation *generation_ref(struct generation *generation)
{
    atomic_fetch_add_explicit(&counted_of(generation)->refs, 1, memory_order_relaxed);
    return generation;
}

void generation_unref(struct generation *generation)
{
    if (!generation || atomic_fetch_sub_explicit(&counted_of(generation)->refs, 1, memory_order_acq_rel) != 1)
        return;
    rule_table_unref(generation->rules);
    to_mqtt_rules_unref(generation->to_mqtt);
    generation_free_tls(&generation->tls);
    registry_unref(generation->registry);
    config_unref(generation->config);
    mem_free(MEM_REGISTRY, counted_of(generation));
}

void generation_free_tls(struct generation_tls *set)
{
    for (size_t i = 0; i < set->n_listeners; i++)
        tls_unref(set->listeners[i]);
    mem_free(MEM_REGISTRY, set->listeners);
    tls_unref(set->admin);
    tls_unref(set->client);
    tls_unref(set->link_server);
    tls_unref(set->link_client);
    tls_tickets_unref(set->tickets);
    *set = (struct generation_tls){0};
}
