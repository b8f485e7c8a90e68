#include "fanout/fanout_carrier.h"

#include "base/check.h"
#include "base/siphash.h"
#include "fanout/fanout_job.h"

/* The plane that a parcel goes to: always the same of a subscription, so that max_inflight bounds its attempts. */
static struct fanout_plane *plane_for(struct fanout *f, const struct fanout_park_record *record)
{
    return &f->planes[siphash_pair(record->channel, record->uid) % f->n_planes];
}

static const struct fanout_subscription *find(const struct fanout_channel *channel, struct str uid)
{
    for (size_t i = 0; channel && i < channel->n_subscriptions; i++)
        if (str_equal(channel->subscriptions[i].uid, uid))
            return &channel->subscriptions[i];
    return NULL;
}

static void on_settled(struct fanout_job *job)
{
    static const err results[] = {
        [FANOUT_VERDICT_TAKEN] = E_OK, [FANOUT_VERDICT_FAILED] = E_IO, [FANOUT_VERDICT_ENDED] = E_AGAIN};
    struct fanout_park_attempt *attempt = job->user;

    attempt->result = results[job->verdict];
}

static void on_finished(struct fanout_job *job)
{
    struct fanout_park_attempt *attempt = job->user;

    fanout_job_free(job);
    fanout_park_disk_answer(attempt);
}

/* The header lines are those of its first coming. E_LIMIT of the hops was told to its sender, so it is not parked. */
static err take_event(struct fanout_job *job, const struct fanout_park_record *record)
{
    struct fanout_event *event = &job->event;
    err e;

    event->ce = record->event;
    e = fanout_event_begin(event, job->channel, NULL, 0);
    if (e != E_OK)
        return e;
    event->common.head = event->common.tail = 0;
    return buf_append(&event->common, MEM_FANOUT, record->lines);
}

/* E_OK: the job answers. */
static err begin(struct fanout_plane *plane, struct fanout_park_attempt *attempt)
{
    const struct fanout_park_record *record = attempt->record;
    const struct fanout_channel *channel;
    const struct fanout_subscription *subscription;
    struct fanout_job *job;
    err e;

    if (plane->is_draining || !plane->view)
        return E_AGAIN;
    channel = fanout_snapshot_find_key(plane->view->snapshot, record->channel);
    subscription = find(channel, record->uid);
    if (!subscription)
        return E_NOTFOUND; /* perhaps a later configuration has it again */
    job = fanout_job_new(plane);
    job->view = fanout_view_ref(plane->view);
    job->channel = channel;
    job->only = subscription;
    job->came_us = plane->worker->loop.now_us;
    job->deadline_ms = plane->worker->loop.now_ms + channel->timeout_ms;
    job->on_settled = on_settled;
    job->on_finished = on_finished;
    job->user = attempt;
    e = take_event(job, record);
    if (e == E_OK)
        fanout_job_run(job);
    else
        fanout_job_free(job);
    return e;
}

static void on_attempt(struct mail *m)
{
    struct fanout_park_attempt *attempt = CONTAINER_OF(m, struct fanout_park_attempt, mail);
    err e = begin(attempt->user, attempt);

    if (e == E_OK)
        return;
    attempt->result = e;
    fanout_park_disk_answer(attempt);
}

static void carry(struct fanout_park_carrier *carrier, struct fanout_park_attempt *attempt)
{
    struct fanout_plane *plane = plane_for(CONTAINER_OF(carrier, struct fanout, carrier), attempt->record);

    attempt->user = plane;
    attempt->mail.on_mail = on_attempt;
    mailbox_post(&plane->worker->loop.mailbox, &attempt->mail);
}

void fanout_carrier_init(struct fanout *f)
{
    f->carrier.carry = carry;
}
