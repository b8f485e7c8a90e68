#include "adapter/mqtt/mqtt_reload.h"

#include "adapter/ledger.h"
#include "adapter/mqtt/mqtt_mapper.h"
#include "adapter/mqtt/mqtt_metrics.h"
#include "adapter/mqtt/mqtt_worker.h"
#include "base/check.h"

struct broker_limits mqtt_reload_broker_limits(const struct config *config)
{
    return (struct broker_limits){
        .subscriptions_per_session = (uint32_t)config->limits.subscriptions_per_session,
        .queued_messages = (uint32_t)config->limits.session_queued_messages,
        .queued_bytes = (uint32_t)config->limits.session_queued_bytes,
        .in_flight = (uint16_t)config->limits.receive_maximum,
        .sessions = (uint32_t)config->limits.sessions,
        .retained_messages = (uint32_t)config->limits.retained_messages,
        .retained_bytes = config->limits.retained_bytes,
    };
}

static void take(struct mqtt_worker *mw)
{
    mw->generation = mw->next_generation;
    mw->rule_routes = mw->next_rule_routes;
    mw->next_generation = NULL;
    mw->next_rule_routes = NULL;
}

/* One pass over the sessions serves all who have asked for one before it ended. */
static void on_refreshed(struct broker_refresh *refresh)
{
    struct mqtt_worker *mw = CONTAINER_OF(refresh, struct mqtt_worker, refresh);
    struct mqtt_adapter *a = mw->adapter;
    bool is_reloaded = mw->owes_reload, is_looked = mw->owes_look;

    mw->is_refreshing = mw->owes_reload = mw->owes_look = false;
    if (is_reloaded && atomic_fetch_sub(&a->n_unreloaded, 1) == 1)
        mailbox_post(a->reloaded_home, a->reloaded);
    if (is_looked && atomic_fetch_sub(&a->n_unlooked, 1) == 1)
        mailbox_post(a->looked_home, a->looked);
}

static void look_at_all(struct mqtt_worker *mw)
{
    if (mw->is_refreshing) {
        broker_refresh_restart(&mw->refresh, mw->generation->registry);
        return;
    }
    mw->is_refreshing = true;
    broker_refresh_start(&mw->refresh, mw->shard, mw->generation->registry, on_refreshed);
}

static void on_look(struct mail *m)
{
    struct mqtt_worker *mw = CONTAINER_OF(m, struct mqtt_worker, look);

    mw->owes_look = true;
    look_at_all(mw);
}

static void on_reload(struct mail *m)
{
    struct mqtt_worker *mw = CONTAINER_OF(m, struct mqtt_worker, reload);
    struct generation *before = mw->generation;
    uint8_t *routes_before = mw->rule_routes;
    struct broker_limits limits = mqtt_reload_broker_limits(mw->next_generation->config);

    take(mw);
    mqtt_mapper_use_tls(mw);
    broker_set_limits(mw->shard, &limits);
    mem_free(MEM_ADAPTER, routes_before);
    mw->owes_reload = true;
    look_at_all(mw);
    generation_unref(before); /* the registry lives on as long as principals need it */
}

void mqtt_reload_use(struct mqtt_adapter *a, struct generation *generation, struct mail *done, struct mailbox *home)
{
    ASSERT(atomic_load(&a->n_unreloaded) == 0);
    a->reloaded = done;
    a->reloaded_home = home;
    atomic_store(&a->n_unreloaded, a->n_workers);
    for (unsigned i = 0; i < a->n_workers; i++) {
        struct mqtt_worker *mw = &a->workers[i];

        mw->next_generation = generation_ref(generation);
        mw->next_rule_routes = ledger_make_rule_routes(generation->rules);
        mailbox_post(&mw->worker->loop.mailbox, &mw->reload);
    }
}

void mqtt_reload_look(struct mqtt_adapter *a, struct mail *done, struct mailbox *home)
{
    ASSERT(atomic_load(&a->n_unlooked) == 0);
    a->looked = done;
    a->looked_home = home;
    atomic_store(&a->n_unlooked, a->n_workers);
    for (unsigned i = 0; i < a->n_workers; i++)
        mailbox_post(&a->workers[i].worker->loop.mailbox, &a->workers[i].look);
}

void mqtt_reload_init(struct mqtt_worker *mw, struct generation *generation)
{
    mw->look = (struct mail){.on_mail = on_look};
    mw->reload = (struct mail){.on_mail = on_reload};
    mw->next_generation = generation_ref(generation);
    mw->next_rule_routes = ledger_make_rule_routes(generation->rules);
    take(mw);
}

void mqtt_reload_fini(struct mqtt_worker *mw)
{
    generation_unref(mw->generation);
    generation_unref(mw->next_generation);
    mem_free(MEM_ADAPTER, mw->rule_routes);
    mem_free(MEM_ADAPTER, mw->next_rule_routes);
}
