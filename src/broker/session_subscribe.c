#include "broker/broker_metrics.h"
#include "broker/outgoing.h"
#include "broker/session.h"
#include "broker/shard.h"
#include "core/message.h"

static struct str tenant_of(const struct session *ss)
{
    return ss->principal.tenant->id;
}

bool session_is_subscribed(const struct session *ss, struct str filter)
{
    return subscriptions_has(&ss->shard->subscriptions, ss, tenant_of(ss), filter);
}

err session_subscribe(struct session *ss, struct str filter, const struct subscription_options *options, bool *out_existed)
{
    struct shard *shard = ss->shard;
    err e;

    /* At the limit only a replacement is possible. */
    if (ss->n_subscriptions >= broker_limits(shard)->subscriptions_per_session && !session_is_subscribed(ss, filter))
        return E_LIMIT;
    e = subscriptions_add(&shard->subscriptions, ss, tenant_of(ss), filter, options, out_existed);
    if (e == E_OK && !*out_existed)
        broker_count(BROKER_SUBSCRIPTIONS, 1);
    return e;
}

bool session_unsubscribe(struct session *ss, struct str filter)
{
    bool found = subscriptions_remove(&ss->shard->subscriptions, ss, tenant_of(ss), filter);

    if (found)
        broker_count(BROKER_SUBSCRIPTIONS, -1);
    return found;
}

struct retained_delivery {
    struct session *session;
    const struct subscription_options *options;
};

static void on_retained(void *context, struct message *m)
{
    struct retained_delivery *d = context;
    struct outgoing_request request = {
        .message = m,
        .ids = &d->options->id,
        .n_ids = d->options->id != 0,
        .qos = m->qos < d->options->qos ? m->qos : d->options->qos,
        .retain = true, /* [MQTT-3.3.1-8 of 3.1.1] */
        .is_kept = true,
    };

    if (d->options->no_local && m->publisher == d->session->number)
        return;
    outgoing_deliver(d->session, &request);
}

void session_send_retained(struct session *ss, struct str filter, const struct subscription_options *options)
{
    struct retained_delivery d = {ss, options};

    retained_match(&ss->shard->retained, tenant_of(ss), filter, ss->shard->worker->loop.now_ms, on_retained, &d);
}
