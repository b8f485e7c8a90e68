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
    if (e == E_OK)
        shard_tell_subscribed(shard, tenant_of(ss), filter);
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
    bool is_kept;
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
        .is_kept = d->is_kept,
    };

    if (d->options->no_local && m->publisher == d->session->number)
        return;
    outgoing_deliver(d->session, &request);
}

/* The retained messages of one filter may fill a queue beyond its limits. For a client that goes on asking and does not read,
 * they are messages like others. */
static bool may_exceed(const struct session *ss)
{
    const struct broker_limits *limits = broker_limits(ss->shard);

    return ss->n_queued / 2 <= limits->queued_messages && ss->queued_bytes / 2 <= limits->queued_bytes;
}

void session_send_retained(struct session *ss, struct str filter, const struct subscription_options *options)
{
    struct retained_delivery d = {ss, may_exceed(ss), options};

    retained_match(&ss->shard->retained, tenant_of(ss), filter, ss->shard->worker->loop.now_ms, on_retained, &d);
}
