#include "adapter/mqtt/mqtt_connection_events.h"

#include "adapter/mqtt/mqtt_metrics.h"
#include "base/check.h"
#include "base/jsonw.h"
#include "core/device_record.h"
#include "core/sink.h"

/* On its way to Kafka. */
struct notice {
    struct delivery delivery;
    struct mqtt_worker *mw;
};

struct slab mqtt_connection_events_slab(void)
{
    return (struct slab){.object_bytes = sizeof(struct notice), .sub = MEM_ADAPTER};
}

static void finish(struct notice *n, bool is_stored)
{
    mqtt_metrics_count(is_stored ? MQTT_COUNT_CONNECTION_EVENTS : MQTT_COUNT_CONNECTION_EVENTS_LOST, 1);
    slab_free(&n->mw->connection_event_slab, n);
}

static void on_stored(struct mail *m)
{
    struct notice *n = CONTAINER_OF(m, struct notice, delivery.mail);

    finish(n, n->delivery.outcome == OUTCOME_STORED);
}

/* Into the worker's text for events. */
static err write_text(struct buf *text, struct str client_id, bool is_connected)
{
    err e;

    buf_consume(text, buf_size(text));
    e = buf_printf(text, MEM_ADAPTER, "{\"cause\":\"%s\",\"remote-id\":", is_connected ? "connected" : "disconnected");
    if (e == E_OK)
        e = jsonw_string(text, MEM_ADAPTER, client_id);
    return e == E_OK ? buf_append(text, MEM_ADAPTER, STR(",\"source\":\"hono-mqtt\"}")) : e;
}

/* As Hono has it: with the tenant's defaults, and without `orig_adapter` and `orig_address`. */
static err submit(struct notice *n, const struct registry_device *device, struct str text)
{
    struct mqtt_worker *mw = n->mw;
    const struct config_properties *defaults = device->tenant->defaults;
    struct device_limits limits = {.max_ttl_s = device->tenant->limits->max_ttl_s};
    struct device_message message = {
        .endpoint = DEVICE_ENDPOINT_EVENT,
        .qos = 1,
        .device_id = device->id,
        .payload = text,
        .content_type = STR("application/vnd.eclipse-hono-dc-notification+json"),
        .tenant_defaults = {(const struct str *)(const void *)defaults->items, defaults->count},
        .limits = &limits,
        .creation_time_ms = loop_wall_ms(),
    };
    struct device_record record;

    if (device_record_build(&message, &record) != DEVICE_FAULT_NONE)
        return E_INVAL;
    record.record.topic = tenant_topics_find(&mw->tenant_topics, device->tenant->id, DEVICE_ENDPOINT_EVENT);
    return sink_submit(mw->adapter->settings.sink, &record.record, &n->delivery);
}

void mqtt_connection_events_tell(struct mqtt_conn *c, bool is_connected)
{
    struct mqtt_worker *mw = c->mw;
    const struct registry_device *device = c->ss->principal.device;
    struct notice *n;

    if (!mqtt_config(mw)->hono_connection_events || !mqtt_conn_listener(c)->is_hono || !device)
        return;
    n = slab_new_raw(&mw->connection_event_slab);
    *n = (struct notice){.delivery = {.mail = {.on_mail = on_stored}, .home = &mw->worker->loop.mailbox}, .mw = mw};
    if (write_text(&mw->event, session_client_id(c->ss), is_connected) != E_OK ||
        submit(n, device, buf_str(&mw->event)) != E_OK)
        finish(n, false);
}
