#include "main/kafka_options.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

void kafka_options_make(struct arena *a, const struct config *config, struct kafka_settings *out_settings)
{
    const struct config_properties *given = &config->kafka.properties;
    struct kafka_property *properties = arena_alloc(a, MEM_CONFIG, given->count * sizeof *properties);
    struct kafka_time_limit *limit = arena_alloc(a, MEM_CONFIG, sizeof *limit);

    for (size_t i = 0; i < given->count; i++)
        properties[i] = (struct kafka_property){given->items[i].name, given->items[i].value};
    *limit = (struct kafka_time_limit){STR("hono."), (uint32_t)config->hono_delivery_timeout_ms};
    *out_settings = (struct kafka_settings){
        .bootstrap = config->kafka.bootstrap,
        .is_embedded = config->kafka.is_embedded,
        .topic_prefix = config->kafka.topic_prefix,
        .max_inflight_bytes = config->kafka.max_inflight_bytes,
        .properties = properties,
        .n_properties = given->count,
        .time_limits = limit,
        .n_time_limits = 1,
    };
}

static void add_limit(struct kafka_time_limit *limits, size_t *n, const struct config_rule_action *action)
{
    if (action->timeout_ms)
        limits[(*n)++] = (struct kafka_time_limit){action->topic, (uint32_t)action->timeout_ms};
}

/* The limits of rules too, which are given with their topics when those are met. */
static void add_rule_limits(struct arena *a, const struct config *config, struct kafka_settings *settings)
{
    struct kafka_time_limit *limits;
    size_t n = settings->n_time_limits, capacity = n + config->to_kafka_count;

    for (size_t i = 0; i < config->to_kafka_count; i++)
        capacity += config->to_kafka[i].action_count;
    limits = arena_alloc(a, MEM_CONFIG, capacity * sizeof *limits);
    memcpy(limits, settings->time_limits, n * sizeof *limits);
    for (size_t i = 0; i < config->to_kafka_count; i++) {
        add_limit(limits, &n, &config->to_kafka[i].single);
        for (size_t k = 0; k < config->to_kafka[i].action_count; k++)
            add_limit(limits, &n, &config->to_kafka[i].actions[k]);
    }
    settings->time_limits = limits;
    settings->n_time_limits = n;
}

err kafka_options_check(const struct config *config, struct errinfo *ei)
{
    struct kafka_settings settings;
    struct arena scratch = {0};
    err e;

    kafka_options_make(&scratch, config, &settings);
    add_rule_limits(&scratch, config, &settings);
    e = kafka_check_settings(&settings, ei);
    arena_free(&scratch, MEM_CONFIG);
    return e;
}

err kafka_options_instance(const struct config *config, char text[KAFKA_OPTIONS_INSTANCE_BYTES], struct errinfo *ei)
{
    if (config->instance.n) {
        memcpy(text, config->instance.p, config->instance.n + 1);
        return E_OK;
    }
    if (gethostname(text, KAFKA_OPTIONS_INSTANCE_BYTES) != 0)
        return errinfo_set(ei, E_IO, "the host has no usable name (%s): set instance", strerror(errno));
    text[KAFKA_OPTIONS_INSTANCE_BYTES - 1] = '\0';
    return E_OK;
}
