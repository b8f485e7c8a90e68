#include "broker/broker_refresh.h"

#include "base/check.h"
#include "broker/session.h"
#include "broker/shard.h"

/* The table changes between two turns. It is walked from its last slot to its first, because closing the gap of a removed entry moves
 * others to lower slots, where the walk still comes by; twice looked at is as good as once. Only those at the very beginning
 * may move to the end, past the walk, so they are looked at before it. When the table grows everything is somewhere else, and the
 * walk begins again. */

/* By this call the session may be ended, and no other. */
static void bar(struct session *ss, bool is_gone)
{
    if (is_gone)
        session_set_expiry(ss, 0); /* it ends with its connection */
    if (ss->link)
        ss->link->ops->barred(ss->link);
    else if (is_gone)
        session_end(ss);
}

static void look_at(const struct broker_refresh *refresh, struct session *ss)
{
    enum registry_standing standing = registry_refresh(refresh->registry, CONFIG_ADAPTER_MQTT, &ss->principal);

    if (standing == REGISTRY_GONE || (standing == REGISTRY_BARRED && ss->link))
        bar(ss, standing == REGISTRY_GONE);
}

/* The run of entries at the beginning, which may have begun at the end. An entry that is removed draws the next one into its slot. */
static void look_at_first(const struct broker_refresh *refresh)
{
    const struct map *sessions = &refresh->shard->sessions;
    uint32_t i = 0;

    while (i < sessions->n_slots && sessions->slots[i].entry) {
        struct session *ss = sessions->slots[i].entry;

        look_at(refresh, ss);
        if (sessions->slots[i].entry == ss)
            i++;
    }
}

static void begin(struct broker_refresh *refresh)
{
    refresh->n_slots = refresh->left = refresh->shard->sessions.n_slots;
    look_at_first(refresh);
}

static void go_on(struct broker_refresh *refresh)
{
    const struct map *sessions = &refresh->shard->sessions;

    if (sessions->n_slots != refresh->n_slots)
        begin(refresh);
    for (unsigned n = 0; n < BROKER_REFRESH_AT_ONCE && refresh->left > 0; n++) {
        struct session *ss = sessions->slots[refresh->left - 1].entry;

        if (ss)
            look_at(refresh, ss);
        /* What was drawn into the slot has been looked at, coming from a higher one; or from the first. */
        refresh->left--;
    }
    if (refresh->left > 0)
        loop_defer(&refresh->shard->worker->loop, &refresh->task);
    else
        refresh->on_done(refresh);
}

static void on_task(struct task *t)
{
    go_on(CONTAINER_OF(t, struct broker_refresh, task));
}

void broker_refresh_start(struct broker_refresh *refresh, struct shard *shard, struct registry *registry,
                          void (*on_done)(struct broker_refresh *refresh))
{
    ASSERT_ON(shard->worker);
    *refresh = (struct broker_refresh){.task = {.run = on_task}, .shard = shard, .registry = registry, .on_done = on_done};
    begin(refresh);
    go_on(refresh);
}

void broker_refresh_restart(struct broker_refresh *refresh, struct registry *registry)
{
    ASSERT_ON(refresh->shard->worker);
    ASSERT(loop_is_deferred(&refresh->task));
    refresh->registry = registry;
    begin(refresh); /* the rest follows in later turns, as before */
}
