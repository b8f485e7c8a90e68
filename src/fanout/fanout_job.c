#include "fanout/fanout_job.h"

#include "base/check.h"
#include "base/log.h"
#include "base/siphash.h"
#include "fanout/fanout_answer.h"
#include "fanout/fanout_leg.h"
#include "fanout/fanout_queue.h"

/* POOLED_MAX jobs with their buffers stay for the next events. OVERHEAD_BYTES: of one that is kept after its answer, besides the data. */
enum { POOLED_MAX = 128, OVERHEAD_BYTES = 2048, KEPT_PROBLEM_BYTES = 1024 };

static void enter(struct fanout_job *job);

static void on_travel(struct mail *m)
{
    enter(CONTAINER_OF(m, struct fanout_job, travel));
}

static void on_settle(struct mail *m)
{
    struct fanout_job *job = CONTAINER_OF(m, struct fanout_job, settle);

    job->on_settled(job);
}

static void on_finish(struct mail *m)
{
    struct fanout_job *job = CONTAINER_OF(m, struct fanout_job, finish);

    job->on_finished(job);
}

/* ---- the pool ---- */

struct fanout_job *fanout_job_new(struct fanout_plane *origin)
{
    struct list *link = list_pop(&origin->idle_jobs);
    struct fanout_job *job;

    origin->n_jobs++;
    if (link) {
        origin->n_idle_jobs--;
        return CONTAINER_OF(link, struct fanout_job, link);
    }
    job = mem_alloc_zero(MEM_FANOUT, sizeof *job);
    job->origin = job->home = origin;
    job->travel.on_mail = on_travel;
    job->settle.on_mail = on_settle;
    job->finish.on_mail = on_finish;
    list_init(&job->legs);
    return job;
}

static void job_delete(struct fanout_job *job)
{
    fanout_event_free(&job->event);
    buf_free(&job->problem, MEM_FANOUT);
    mem_free(MEM_FANOUT, job);
}

/* All but the buffers and what a job of this plane always has. */
static void clear(struct fanout_job *job)
{
    fanout_event_clear(&job->event);
    if (job->problem.cap > KEPT_PROBLEM_BYTES)
        buf_free(&job->problem, MEM_FANOUT);
    job->problem.head = job->problem.tail = 0;
    job->home = job->origin;
    job->view = job->home_view = NULL;
    job->only = NULL;
    job->queue = NULL;
    job->verdict = FANOUT_VERDICT_NONE;
    job->is_early = job->is_owned = job->is_ending = false;
    atomic_store_explicit(&job->is_abandoned, false, memory_order_relaxed);
    job->n_running = job->n_held = job->n_done = job->n_failed = 0;
}

static uint64_t size_of(const struct fanout_job *job)
{
    return job->event.ce.data.n + OVERHEAD_BYTES;
}

void fanout_job_free(struct fanout_job *job)
{
    struct fanout_plane *origin = job->origin;

    if (job->is_owned) {
        fanout_view_strand(job->view, job->channel)->owned_bytes -= size_of(job);
        fanout_metrics_add(FANOUT_EVENTS_OWNED, (uint64_t)-1);
    }
    fanout_view_unref(job->view);
    clear(job);
    if (origin->n_idle_jobs == POOLED_MAX) {
        job_delete(job);
    } else {
        list_push(origin->idle_jobs.next, &job->link); /* the one whose memory is warm is taken first */
        origin->n_idle_jobs++;
    }
    fanout_plane_finish_job(origin);
}

void fanout_job_free_pool(struct fanout_plane *plane)
{
    struct list *link;

    while ((link = list_pop(&plane->idle_jobs)))
        job_delete(CONTAINER_OF(link, struct fanout_job, link));
    plane->n_idle_jobs = 0;
}

/* ---- the answer and the end ---- */

/* The sender's answer may come before the end only while there is room for what is kept then; else it waits for the end. */
static bool may_be_early(const struct fanout_job *job)
{
    const struct fanout_strand *strand = fanout_view_strand(job->home_view, job->channel);

    return strand->owned_bytes + size_of(job) <= job->channel->max_queued_bytes;
}

/* How many subscriptions must be done for the event to be taken. */
static uint32_t quorum_of(const struct fanout_job *job)
{
    const struct fanout_channel *channel = job->channel;

    if (job->only)
        return 1;
    if (channel->ack == FANOUT_ACK_QUORUM)
        return channel->quorum;
    return channel->ack == FANOUT_ACK_FIRST && channel->n_subscriptions ? 1 : (uint32_t)channel->n_subscriptions;
}

static enum fanout_verdict judge(const struct fanout_job *job)
{
    bool is_taken = job->n_done >= quorum_of(job);

    if (job->n_running == 0)
        return is_taken ? FANOUT_VERDICT_TAKEN : job->is_ending ? FANOUT_VERDICT_ENDED : FANOUT_VERDICT_FAILED;
    if (job->is_ending)
        return FANOUT_VERDICT_NONE;
    if (is_taken && may_be_early(job))
        return FANOUT_VERDICT_TAKEN;
    if (job->n_failed && job->channel->nack == FANOUT_NACK_FIRST && quorum_of(job) == job->channel->n_subscriptions &&
        may_be_early(job))
        return FANOUT_VERDICT_FAILED;
    return FANOUT_VERDICT_NONE;
}

/* For those that come after it. */
static void note_verdict(const struct fanout_job *job)
{
    struct fanout_plane *home = job->home;

    if (job->channel->repeats == FANOUT_REPEATS_DELIVER || job->only)
        return;
    if (job->verdict == FANOUT_VERDICT_TAKEN)
        fanout_memory_note(&home->seen, job->channel, &job->event.ce, NULL, home->worker->loop.now_ms);
    else
        fanout_memory_drop(&home->seen, job->channel, &job->event.ce);
}

static void settle(struct fanout_job *job)
{
    job->is_early = job->n_running + job->n_held > 0;
    if (job->is_early) {
        fanout_view_strand(job->home_view, job->channel)->owned_bytes += size_of(job);
        fanout_metrics_add(FANOUT_EVENTS_OWNED, 1);
    }
    if (job->verdict == FANOUT_VERDICT_FAILED)
        fanout_answer_write_problem(job);
    if (job->home == job->origin)
        job->on_settled(job);
    else
        mailbox_post(&job->origin->worker->loop.mailbox, &job->settle);
}

/* Remembers who had the event, for redeliver: failed-only. */
static void remember(struct fanout_job *job)
{
    struct fanout_plane *home = job->home;

    for (struct list *link = job->legs.next; link != &job->legs; link = link->next) {
        const struct fanout_leg *leg = CONTAINER_OF(link, struct fanout_leg, link);

        if (leg->outcome != FANOUT_OUTCOME_FAILED)
            fanout_memory_note(&home->memory, job->channel, &job->event.ce, leg->subscription, home->worker->loop.now_ms);
    }
}

/* Its sender was told that it was taken, and cannot know. */
static void tell_loss(const struct fanout_job *job)
{
    fanout_metrics_add(FANOUT_EVENTS_LOST, 1);
    LOG_WARN(LOG_FANOUT, "fanout.event.lost", F_STR("channel", job->channel->key), F_INT("subscriptions", job->n_failed));
}

static void finish(struct fanout_job *job)
{
    struct fanout_plane *home = job->home;
    struct fanout_queue *queue = job->queue;

    if (job->channel->redeliver == FANOUT_REDELIVER_FAILED_ONLY && !job->only)
        remember(job);
    if (job->is_owned && (job->n_failed || job->is_ending))
        tell_loss(job);
    if (job->is_early && !job->is_owned) {
        fanout_view_strand(job->home_view, job->channel)->owned_bytes -= size_of(job);
        fanout_metrics_add(FANOUT_EVENTS_OWNED, (uint64_t)-1);
    }
    while (!list_is_empty(&job->legs))
        fanout_leg_free(CONTAINER_OF(job->legs.next, struct fanout_leg, link));
    list_remove(&job->link);
    if (home != job->origin) {
        fanout_view_unref(job->home_view);
        mailbox_post(&job->origin->worker->loop.mailbox, &job->finish);
    } else {
        job->on_finished(job);
    }
    fanout_queue_leave(queue); /* the job is gone */
}

/* Something has changed. */
static void check(struct fanout_job *job)
{
    if (!job->verdict) {
        job->verdict = judge(job);
        if (job->verdict) {
            note_verdict(job);
            settle(job);
        }
    }
    if (job->n_running + job->n_held == 0)
        finish(job);
}

void fanout_job_end_leg(struct fanout_job *job, bool is_well)
{
    job->n_running--;
    if (is_well)
        job->n_done++;
    else
        job->n_failed++;
    check(job);
}

void fanout_job_drop_hold(struct fanout_job *job)
{
    job->n_held--;
    check(job);
}

/* ---- the beginning ---- */

/* ack: async-memory. The sender is answered now: what it sent is ours, or there is no room for it. */
static bool take_over(struct fanout_job *job)
{
    struct fanout_strand *strand = fanout_view_strand(job->view, job->channel);

    if (strand->owned_bytes + size_of(job) > job->channel->max_queued_bytes) {
        job->verdict = FANOUT_VERDICT_FULL;
        job->on_settled(job);
        job->on_finished(job);
        return false;
    }
    strand->owned_bytes += size_of(job);
    fanout_metrics_add(FANOUT_EVENTS_OWNED, 1);
    job->is_owned = job->is_early = true;
    job->verdict = FANOUT_VERDICT_TAKEN;
    job->on_settled(job);
    return true;
}

/* Where it runs: events of one sequence, and those that are the same event sent again, meet on one worker. */
static struct fanout_plane *home_of(const struct fanout_job *job)
{
    struct fanout *f = job->origin->fanout;
    struct str ignored;
    uint64_t hash;

    if (!fanout_queue_key(job, &ignored, &hash)) {
        if (job->channel->redeliver == FANOUT_REDELIVER_ALL && job->channel->repeats == FANOUT_REPEATS_DELIVER)
            return job->origin;
        hash = siphash_pair(job->event.ce.source, job->event.ce.id);
    }
    return &f->planes[(hash >> 32) % f->n_planes];
}

void fanout_job_start(struct fanout_job *job)
{
    if (job->channel->ack == FANOUT_ACK_ASYNC_MEMORY && !take_over(job))
        return;
    job->home = home_of(job);
    if (job->home == job->origin)
        enter(job);
    else
        mailbox_post(&job->home->worker->loop.mailbox, &job->travel);
}

/* repeats: suppress. It ends before it has begun, and before it would wait in a queue for the one that it repeats. One that is the process's
 * own (ack: async-memory) has its answer. */
static void suppress(struct fanout_job *job, bool was_taken)
{
    fanout_metrics_add(was_taken ? FANOUT_REPEATS_ACKNOWLEDGED : FANOUT_REPEATS_REFUSED, 1);
    if (!job->verdict) {
        job->verdict = was_taken ? FANOUT_VERDICT_TAKEN : FANOUT_VERDICT_REPEATED;
        settle(job);
    }
    finish(job);
}

/* At its home, where those that are the same meet. */
static void enter(struct fanout_job *job)
{
    const struct fanout_channel *channel = job->channel;
    struct fanout_memory *seen = &job->home->seen;
    uint64_t now_ms = job->home->worker->loop.now_ms;
    const struct fanout_memory_entry *entry;

    if (channel->repeats != FANOUT_REPEATS_DELIVER) {
        entry = fanout_memory_find(seen, channel, &job->event.ce, now_ms);
        if (entry && channel->repeats == FANOUT_REPEATS_SUPPRESS) {
            suppress(job, fanout_memory_has(entry, NULL));
            return;
        }
        if (entry)
            fanout_metrics_add(FANOUT_REPEATS_DELIVERED, 1);
        fanout_memory_begin(seen, channel, &job->event.ce, now_ms);
        if (job->verdict) /* as it is for the sender (ack: async-memory) */
            note_verdict(job);
    }
    fanout_queue_enter(job);
}

static bool has_had(const struct fanout_job *job, const struct fanout_subscription *s)
{
    const struct fanout_plane *home = job->home;

    return job->channel->redeliver == FANOUT_REDELIVER_FAILED_ONLY &&
           fanout_memory_has(fanout_memory_find(&home->memory, job->channel, &job->event.ce, home->worker->loop.now_ms), s);
}

/* A subscription that does not want the event, or has had it, is done with it. */
static void begin_leg(struct fanout_job *job, const struct fanout_subscription *s)
{
    struct fanout_plane *home = job->home;

    if (s->filter && !event_filter_matches(s->filter, &job->event.ce, &home->scratch)) {
        fanout_metrics_add(FANOUT_DELIVERIES_FILTERED, 1);
        fanout_view_slot(job->home_view, job->channel, s)->lane->filtered++;
        job->n_done++;
    } else if (has_had(job, s)) {
        fanout_metrics_add(FANOUT_DELIVERIES_REMEMBERED, 1);
        job->n_done++;
    } else {
        fanout_leg_begin(job, s);
    }
}

void fanout_job_run(struct fanout_job *job)
{
    struct fanout_plane *home = job->home;
    const struct fanout_channel *channel = job->channel;

    job->home_view = home == job->origin ? job->view : fanout_view_take(home, job->view->snapshot);
    list_push(&home->jobs, &job->link);
    job->n_running++; /* until all have begun */
    job->is_ending = home->is_ending;
    if (job->only && !job->is_ending)
        fanout_leg_begin(job, job->only);
    for (size_t i = 0; i < channel->n_subscriptions && !job->only && !job->is_ending; i++)
        begin_leg(job, &channel->subscriptions[i]);
    arena_free(&home->scratch, MEM_FANOUT);
    job->n_running--;
    check(job);
}

void fanout_job_abort(struct fanout_job *job)
{
    job->is_ending = true;
    job->n_running++;
    for (struct list *link = job->legs.next; link != &job->legs; link = link->next)
        fanout_leg_abort(CONTAINER_OF(link, struct fanout_leg, link));
    job->n_running--;
    check(job);
}
