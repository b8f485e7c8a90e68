/* Events that tell applications who takes commands (docs/wire/commands.md). */
#include <stdio.h>

#include "base/check.h"
#include "command/command_router.h"
#include "core/device_record.h"
#include "loop/loop.h"

enum { TOPIC_BYTES = 300 };

/* One on its way to Kafka that nobody waits for. */
struct told {
    struct delivery delivery;
};

static struct device_defaults defaults_of(const struct config_properties *properties)
{
    return (struct device_defaults){(const struct str *)(const void *)properties->items, properties->count};
}

err command_event_submit(struct command_router *r, struct str tenant, struct str device, enum config_adapter_type adapter,
                         int32_t ttd_s, struct delivery *delivery)
{
    static const struct str adapters[CONFIG_ADAPTER_TYPES] = {
        [CONFIG_ADAPTER_MQTT] = STR_INIT("hono-mqtt"), [CONFIG_ADAPTER_HTTP] = STR_INIT("hono-http")};
    struct sink *sink = r->plane->settings.sink;
    struct device_message message = {
        .endpoint = DEVICE_ENDPOINT_EVENT,
        .qos = 1,
        .has_ttd = true,
        .ttd_s = ttd_s,
        .device_id = device,
        .address = STR("command"),
        .adapter = adapters[adapter],
        .content_type = STR("application/vnd.eclipse-hono-empty-notification"),
        .creation_time_ms = loop_wall_ms(),
    };
    struct registration registration;
    struct device_limits limits;
    struct device_record record;
    char topic[TOPIC_BYTES];
    int n = snprintf(topic, sizeof topic, "hono.event.%.*s", STR_ARG(tenant));

    if (registry_assert(r->generation->registry, tenant, device, (struct str){0}, &registration) == REGISTRY_ASSERTED) {
        message.tenant_defaults = defaults_of(registration.tenant->defaults);
        message.device_defaults = defaults_of(registration.device->defaults);
        limits = (struct device_limits){.max_ttl_s = registration.tenant->limits->max_ttl_s};
        message.limits = &limits;
    }
    if (n >= TOPIC_BYTES || device_record_build(&message, &record) != DEVICE_FAULT_NONE)
        return E_INVAL;
    record.record.topic = sink_find_topic(sink, (struct str){topic, (size_t)n});
    return record.record.topic ? sink_submit(sink, &record.record, delivery) : E_INVAL;
}

static void on_told(struct mail *m)
{
    struct told *told = CONTAINER_OF(m, struct told, delivery.mail);

    if (told->delivery.outcome != OUTCOME_STORED)
        command_count(COMMAND_COUNT_EVENTS_LOST, 1);
    mem_free(MEM_COMMAND, told);
}

void command_event_tell(struct command_router *r, struct str tenant, struct str device, enum config_adapter_type adapter,
                        int32_t ttd_s)
{
    struct told *told = mem_alloc(MEM_COMMAND, sizeof *told);

    *told = (struct told){.delivery = {.mail = {.on_mail = on_told}, .home = &r->worker->loop.mailbox}};
    if (command_event_submit(r, tenant, device, adapter, ttd_s, &told->delivery) == E_OK)
        return;
    command_count(COMMAND_COUNT_EVENTS_LOST, 1);
    mem_free(MEM_COMMAND, told);
}
