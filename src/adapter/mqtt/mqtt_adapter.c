#include "adapter/mqtt/mqtt_adapter.h"

#include <stdio.h>

#include "adapter/ledger.h"
#include "adapter/mqtt/mqtt_commands.h"
#include "adapter/mqtt/mqtt_conn.h"
#include "adapter/mqtt/mqtt_events.h"
#include "adapter/mqtt/mqtt_mapper.h"
#include "adapter/mqtt/mqtt_metrics.h"
#include "adapter/mqtt/mqtt_publish_in.h"
#include "adapter/mqtt/mqtt_reload.h"
#include "adapter/mqtt/mqtt_worker.h"
#include "base/check.h"

static void on_accept(struct listener *ln, int fd)
{
    struct mqtt_listener *listener = CONTAINER_OF(ln, struct mqtt_listener, listener);

    mqtt_conn_accept(listener->mw, listener->index, fd);
}

/* The first worker's socket settles the port when the configuration leaves it open; the others join it there. */
static err bind_listener(struct mqtt_adapter *a, size_t index, struct errinfo *ei)
{
    const struct config_listener *config = &mqtt_config(&a->workers[0])->listeners[index];
    const struct config_address *where = config_listener_mqtt(config);
    struct sockaddr_storage address;
    socklen_t size;
    struct errinfo why = {0};
    err e;

    if (!where)
        return E_OK; /* another adapter's */
    e = listener_parse(where->text, &address, &size, &why);
    for (unsigned i = 0; i < a->n_workers && e == E_OK; i++) {
        struct mqtt_worker *mw = &a->workers[i];
        struct listener *ln = &mw->listeners[index].listener;

        ln->on_accept = on_accept;
        e = listener_open(ln, &mw->worker->loop, &address, size, true, &why);
        if (e == E_OK && i == 0)
            e = listener_address(ln, &address, &size);
    }
    if (e == E_OK)
        return E_OK;
    return errinfo_set(ei, e, "cannot listen for MQTT on %.*s (%.*s): %s", STR_ARG(where->text), STR_ARG(config->id), why.text);
}

static void on_session_end(void *context, struct shard *shard, const struct session *ss, bool is_replaced)
{
    mqtt_commands_forget(mqtt_worker_of(context, shard), ss);
    mqtt_events_tell_session_end(context, shard, ss, is_replaced);
}

err mqtt_adapter_open(const struct mqtt_adapter_settings *settings, struct mqtt_adapter **out_adapter, struct errinfo *ei)
{
    struct mqtt_adapter *a = mem_alloc_zero(MEM_ADAPTER, sizeof *a);
    struct broker_limits limits = mqtt_reload_broker_limits(settings->generation->config);
    struct broker_hooks hooks = {.context = a, .publish_will = mqtt_publish_in_will, .session_ended = on_session_end};
    err e = E_OK;

    ledger_register();
    mqtt_metrics_register();
    mqtt_mapper_register();
    a->settings = *settings;
    mqtt_topics_init_names(&a->names);
    resolver_init(&a->resolver);
    a->n_workers = settings->workers->n;
    atomic_init(&a->n_unstarted, a->n_workers);
    atomic_init(&a->n_undrained, a->n_workers);
    atomic_init(&a->n_unreloaded, 0);
    atomic_init(&a->n_unlooked, 0);
    a->broker = broker_new(settings->workers, &limits, &hooks);
    a->workers = mem_alloc_zero(MEM_ADAPTER, a->n_workers * sizeof *a->workers);
    for (unsigned i = 0; i < a->n_workers; i++)
        mqtt_worker_init(&a->workers[i], a, &settings->workers->list[i]);
    for (size_t i = 0; i < settings->generation->config->listener_count && e == E_OK; i++)
        e = bind_listener(a, i, ei);
    if (e != E_OK) {
        mqtt_adapter_free(a);
        return e;
    }
    *out_adapter = a;
    return E_OK;
}

void mqtt_adapter_start(struct mqtt_adapter *a, struct mail *done, struct mailbox *home)
{
    a->started = done;
    a->started_home = home;
    for (unsigned i = 0; i < a->n_workers; i++)
        mailbox_post(&a->workers[i].worker->loop.mailbox, &a->workers[i].start);
}

void mqtt_adapter_name(const struct mqtt_adapter *a, size_t index, char *text, size_t size)
{
    listener_name(&a->workers[0].listeners[index].listener, text, size);
}

void mqtt_adapter_drain(struct mqtt_adapter *a, struct mail *done, struct mailbox *home)
{
    a->drained = done;
    a->drained_home = home;
    for (unsigned i = 0; i < a->n_workers; i++)
        mailbox_post(&a->workers[i].worker->loop.mailbox, &a->workers[i].drain);
}

/* Connections end in turns of their loops; mail that is still on its way holds descriptors and memory. A connection that was
 * being handed over arrives in the first round and is closed in the second. */
static void close_connections(struct mqtt_adapter *a)
{
    enum { ROUNDS = 4 };

    for (unsigned i = 0; i < ROUNDS * a->n_workers; i++) {
        struct mqtt_worker *mw = &a->workers[i % a->n_workers];

        mqtt_worker_close(mw);
        loop_turn(&mw->worker->loop, 0);
    }
}

struct broker *mqtt_adapter_broker(const struct mqtt_adapter *a)
{
    return a->broker;
}

void mqtt_adapter_free(struct mqtt_adapter *a)
{
    if (!a)
        return;
    close_connections(a);
    resolver_fini(&a->resolver);
    broker_free(a->broker);
    for (unsigned i = 0; i < a->n_workers; i++)
        mqtt_worker_fini(&a->workers[i]);
    mem_free(MEM_ADAPTER, a->workers);
    mqtt_topics_fini_names(&a->names);
    mem_free(MEM_ADAPTER, a);
}
