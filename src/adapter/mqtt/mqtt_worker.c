#include "adapter/mqtt/mqtt_worker.h"

#include <stdio.h>

#include "adapter/mqtt/mqtt_command_out.h"
#include "adapter/mqtt/mqtt_commands.h"
#include "adapter/mqtt/mqtt_conn.h"
#include "adapter/mqtt/mqtt_connection_events.h"
#include "adapter/mqtt/mqtt_mapper.h"
#include "adapter/mqtt/mqtt_pending.h"
#include "adapter/mqtt/mqtt_reload.h"
#include "adapter/mqtt/mqtt_rules.h"
#include "base/check.h"

/* How many waiting connections try again at a time: if the first find no room, the others need not. */
enum { RESUMED_AT_ONCE = 32 };

struct mqtt_worker *mqtt_worker_of(struct mqtt_adapter *a, const struct shard *shard)
{
    unsigned id = 0;

    while (broker_shard(a->broker, id) != shard)
        id++;
    return &a->workers[id];
}

void mqtt_worker_resume(struct mqtt_worker *mw)
{
    for (int i = 0; i < RESUMED_AT_ONCE && !list_is_empty(&mw->waiting); i++)
        mqtt_conn_resume(CONTAINER_OF(mw->waiting.next, struct mqtt_conn, list));
    if (!list_is_empty(&mw->waiting))
        sink_wait(mw->adapter->settings.sink, &mw->room);
}

/* Those that have to wait on go to a list that is empty now. */
void mqtt_worker_resume_topics(struct mqtt_worker *mw)
{
    struct list all;

    list_init(&all);
    list_move(&all, &mw->waiting_topics);
    while (!list_is_empty(&all))
        mqtt_conn_resume(CONTAINER_OF(all.next, struct mqtt_conn, list));
}

/* While somebody waits for a mailbox the timer resumes all: Kafka's room, which there may be plenty of, must not make them try
 * in every turn. */
static void on_room(struct mail *m)
{
    struct mqtt_worker *mw = CONTAINER_OF(m, struct mqtt_worker, room.mail);

    if (!wheel_is_set(&mw->retry))
        mqtt_worker_resume(mw);
}

static void on_retry(struct timer *t)
{
    mqtt_worker_resume(CONTAINER_OF(t, struct mqtt_worker, retry));
}

static void check_drained(struct mqtt_worker *mw)
{
    struct mqtt_adapter *a = mw->adapter;

    if (!mw->is_draining || mw->is_drained || mw->n_connections)
        return;
    mw->is_drained = true;
    if (atomic_fetch_sub(&a->n_undrained, 1) == 1)
        mailbox_post(a->drained_home, a->drained);
}

void mqtt_worker_count_closed(struct mqtt_worker *mw)
{
    mw->n_connections--;
    atomic_fetch_sub(&mw->adapter->n_connections, 1);
    check_drained(mw);
}

static void drain_all(struct list *connections)
{
    struct list *next;

    for (struct list *link = connections->next; link != connections; link = next) {
        next = link->next;
        mqtt_conn_drain(CONTAINER_OF(link, struct mqtt_conn, list));
    }
}

static void on_drain(struct mail *m)
{
    struct mqtt_worker *mw = CONTAINER_OF(m, struct mqtt_worker, drain);

    mw->is_draining = true;
    for (size_t i = 0; i < mqtt_config(mw)->listener_count; i++)
        listener_close(&mw->listeners[i].listener);
    drain_all(&mw->connections);
    drain_all(&mw->waiting);
    drain_all(&mw->waiting_topics);
    check_drained(mw);
}

static void on_start(struct mail *m)
{
    struct mqtt_worker *mw = CONTAINER_OF(m, struct mqtt_worker, start);
    struct mqtt_adapter *a = mw->adapter;

    for (size_t i = 0; i < mqtt_config(mw)->listener_count; i++)
        ASSERT(mw->is_draining || !config_listener_mqtt(&mqtt_config(mw)->listeners[i]) ||
               listener_start(&mw->listeners[i].listener, NULL) == E_OK);
    if (atomic_fetch_sub(&a->n_unstarted, 1) == 1)
        mailbox_post(a->started_home, a->started);
}

void mqtt_worker_init(struct mqtt_worker *mw, struct mqtt_adapter *a, struct worker *w)
{
    mw->adapter = a;
    mw->worker = w;
    mqtt_reload_init(mw, a->settings.generation);
    mw->shard = broker_shard(a->broker, w->id);
    mw->tenant_topics.sink = a->settings.sink;
    list_init(&mw->connections);
    list_init(&mw->waiting);
    list_init(&mw->waiting_topics);
    list_init(&mw->commands_out);
    mw->room = (struct sink_waiter){.mail = {.on_mail = on_room}, .home = &w->loop.mailbox};
    mw->retry = (struct timer){.on_timer = on_retry};
    mw->conn_slab = (struct slab){.object_bytes = sizeof(struct mqtt_conn), .sub = MEM_ADAPTER};
    mw->pending_slab = (struct slab){.object_bytes = sizeof(struct mqtt_pending), .sub = MEM_ADAPTER};
    mw->part_slab = mqtt_rules_slab();
    mw->connection_event_slab = mqtt_connection_events_slab();
    mw->start = (struct mail){.on_mail = on_start};
    mw->drain = (struct mail){.on_mail = on_drain};
    mw->listeners = mem_alloc_zero(MEM_ADAPTER, (mqtt_config(mw)->listener_count + 1) * sizeof *mw->listeners);
    for (size_t i = 0; i < mqtt_config(mw)->listener_count; i++)
        mw->listeners[i] = (struct mqtt_listener){.mw = mw, .index = (uint8_t)i, .listener = {.io = {.fd = -1}}};
}

static void close_all(struct list *connections)
{
    struct list *next;

    for (struct list *link = connections->next; link != connections; link = next) {
        struct mqtt_conn *c = CONTAINER_OF(link, struct mqtt_conn, list);

        next = link->next;
        mqtt_conn_close(c, false);
        stream_close(&c->stream, E_OK); /* also one that lingers for its client to read */
    }
}

void mqtt_worker_close(struct mqtt_worker *mw)
{
    mw->is_draining = mw->is_drained = true; /* nobody waits for it any more */
    for (size_t i = 0; i < mqtt_config(mw)->listener_count; i++)
        listener_close(&mw->listeners[i].listener);
    close_all(&mw->connections);
    close_all(&mw->waiting);
    close_all(&mw->waiting_topics);
    mqtt_mapper_close(mw);
}

void mqtt_worker_fini(struct mqtt_worker *mw)
{
    mqtt_commands_fini(mw);
    mqtt_command_out_fini(mw);
    tenant_topics_fini(&mw->tenant_topics);
    mqtt_mapper_fini(mw);
    mqtt_topics_free(mw);
    rule_record_free_scratch(&mw->scratch);
    buf_free(&mw->event, MEM_ADAPTER);
    mem_free(MEM_ADAPTER, mw->listeners);
    mqtt_reload_fini(mw);
    slab_fini(&mw->conn_slab);
    slab_fini(&mw->pending_slab);
    slab_fini(&mw->part_slab);
    slab_fini(&mw->connection_event_slab);
}
