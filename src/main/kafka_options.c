#include "main/kafka_options.h"

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

err kafka_options_check(const struct config *config, struct errinfo *ei)
{
    struct kafka_settings settings;
    struct arena scratch = {0};
    err e;

    kafka_options_make(&scratch, config, &settings);
    e = kafka_check_settings(&settings, ei);
    arena_free(&scratch, MEM_CONFIG);
    return e;
}
