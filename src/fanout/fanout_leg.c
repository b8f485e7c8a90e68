#include "fanout/fanout_leg.h"

#include "base/check.h"
#include "base/log.h"
#include "fanout/fanout_attempt.h"
#include "fanout/fanout_message.h"
#include "fanout/fanout_retry.h"

static struct fanout_plane *plane_of(const struct fanout_leg *leg)
{
    return leg->job->home;
}

static uint64_t left_ms(const struct fanout_leg *leg)
{
    uint64_t now_ms = plane_of(leg)->worker->loop.now_ms;

    return leg->job->deadline_ms > now_ms ? leg->job->deadline_ms - now_ms : 0;
}

static bool is_abandoned(const struct fanout_leg *leg)
{
    return atomic_load_explicit(&leg->job->is_abandoned, memory_order_relaxed);
}

/* ---- the end ---- */

static void end(struct fanout_leg *leg, enum fanout_outcome outcome)
{
    struct fanout_job *job = leg->job;
    struct fanout_lane *lane = leg->slot->lane;

    wheel_stop(&leg->timer);
    leg->state = FANOUT_LEG_ENDED;
    leg->outcome = (uint8_t)outcome;
    lane->n_running--;
    lane->ended[outcome]++;
    fanout_metrics_end(outcome);
    fanout_metrics_took(FANOUT_TIME_DELIVERY, plane_of(leg)->worker->loop.now_us - leg->began_us);
    fanout_metrics_add(FANOUT_DELIVERIES_RUNNING, (uint64_t)-1);
    fanout_job_end_leg(job, outcome != FANOUT_OUTCOME_FAILED);
}

void fanout_leg_free(struct fanout_leg *leg)
{
    struct fanout_plane *plane = plane_of(leg);

    ASSERT(leg->state == FANOUT_LEG_ENDED && !leg->is_record_held && !leg->is_parcel_held);
    list_remove(&leg->link);
    fanout_message_free(leg->message);
    slab_free(&plane->legs, leg);
}

/* ---- turns: max_inflight bounds the attempts at a subscriber ---- */

static void try_now(struct fanout_leg *leg);

static bool needs_turn(const struct fanout_leg *leg)
{
    return leg->role == FANOUT_ROLE_SUBSCRIBER && leg->subscription->max_inflight > 0;
}

/* Whoever waits longest. What begins may end at once and give its turn back: this loop goes on then, not a deeper one. */
static void run_turns(struct fanout_lane *lane)
{
    while (!lane->is_giving && !list_is_empty(&lane->waiting)) {
        struct fanout_leg *leg = CONTAINER_OF(lane->waiting.next, struct fanout_leg, turn);

        if (lane->n_inflight >= leg->subscription->max_inflight)
            return;
        list_remove(&leg->turn);
        lane->n_waiting--;
        wheel_stop(&leg->timer);
        lane->is_giving = true;
        try_now(leg);
        lane->is_giving = false;
    }
}

static void give_turn(struct fanout_leg *leg)
{
    if (!leg->has_turn)
        return;
    leg->has_turn = false;
    leg->slot->lane->n_inflight--;
    run_turns(leg->slot->lane);
}

static void on_turn_late(struct timer *t)
{
    struct fanout_leg *leg = CONTAINER_OF(t, struct fanout_leg, timer);

    list_remove(&leg->turn);
    leg->slot->lane->n_waiting--;
    fanout_leg_fail(leg, FANOUT_FAULT_DEADLINE, false, (struct str){0}, (struct str){0});
}

static void wait_for_turn(struct fanout_leg *leg)
{
    struct fanout_lane *lane = leg->slot->lane;

    if (lane->n_waiting >= FANOUT_LANE_WAITING_MAX) {
        fanout_leg_fail(leg, FANOUT_FAULT_OVERLOAD, true, (struct str){0}, (struct str){0});
        return;
    }
    fanout_metrics_add(FANOUT_TURNS_WAITED, 1);
    leg->state = FANOUT_LEG_QUEUED;
    list_push(&lane->waiting, &leg->turn);
    lane->n_waiting++;
    leg->timer.on_timer = on_turn_late;
    wheel_start(&plane_of(leg)->worker->loop.wheel, &leg->timer, left_ms(leg));
}

/* ---- attempts ---- */

static const struct fanout_target *target_of(const struct fanout_leg *leg)
{
    const struct fanout_subscription *s = leg->subscription;

    if (leg->role == FANOUT_ROLE_DEAD_LETTER)
        return &s->dead_letter;
    return leg->role == FANOUT_ROLE_REPLY ? &s->reply : &s->subscriber;
}

static void try_now(struct fanout_leg *leg)
{
    uint64_t left = left_ms(leg);
    uint32_t limit_ms = leg->subscription->retry.attempt_timeout_ms;
    enum fanout_fault fault = FANOUT_FAULT_DEADLINE;

    leg->state = FANOUT_LEG_RESTING;
    leg->status = 0;
    if (needs_turn(leg)) {
        leg->has_turn = true;
        leg->slot->lane->n_inflight++;
    }
    if (left > 0)
        fault = fanout_attempt_begin(leg, target_of(leg), left < limit_ms ? (uint32_t)left : limit_ms);
    if (fault)
        fanout_leg_fail(leg, fault, fault == FANOUT_FAULT_BREAKER || fault == FANOUT_FAULT_OVERLOAD, (struct str){0},
                        (struct str){0});
}

static void attempt(struct fanout_leg *leg)
{
    struct fanout_lane *lane = leg->slot->lane;

    leg->attempts++;
    if (is_abandoned(leg))
        fanout_leg_fail(leg, FANOUT_FAULT_ABANDONED, false, (struct str){0}, (struct str){0});
    else if (needs_turn(leg) && (lane->n_inflight >= leg->subscription->max_inflight || !list_is_empty(&lane->waiting)))
        wait_for_turn(leg);
    else
        try_now(leg);
}

static void begin_role(struct fanout_leg *leg, enum fanout_role role, struct fanout_message *message)
{
    fanout_message_free(leg->message);
    leg->message = message;
    leg->role = (uint8_t)role;
    leg->attempts = 0;
    attempt(leg);
}

/* ---- what follows an attempt ---- */

static void on_retry(struct timer *t)
{
    struct fanout_leg *leg = CONTAINER_OF(t, struct fanout_leg, timer);

    fanout_metrics_add(FANOUT_RETRIES, 1);
    leg->slot->lane->retries++;
    attempt(leg);
}

/* A retry that makes no load needs no budget. */
static bool has_budget(struct fanout_leg *leg, enum fanout_fault fault)
{
    struct fanout_plane *plane = plane_of(leg);
    struct fanout_endpoint *endpoint = fanout_view_endpoint(leg->job->home_view, leg->slot, leg->role, target_of(leg));

    if (fault == FANOUT_FAULT_BREAKER || fault == FANOUT_FAULT_OVERLOAD ||
        fanout_budget_take(&endpoint->budget, plane->worker->loop.now_ms))
        return true;
    fanout_metrics_add(FANOUT_RETRIES_REFUSED, 1);
    return false;
}

/* Waits for another attempt, if there may be one and it has a chance before the time is over. */
static bool retry(struct fanout_leg *leg, enum fanout_fault fault, struct str retry_after)
{
    const struct fanout_retry *policy = &leg->subscription->retry;
    struct fanout_plane *plane = plane_of(leg);
    uint32_t wait_ms;

    if (leg->attempts > policy->retries || is_abandoned(leg))
        return false;
    wait_ms = fanout_retry_wait_ms(policy, leg->attempts, retry_after, loop_wall_ms() / 1000, fanout_plane_random(plane));
    if (wait_ms >= left_ms(leg) || !has_budget(leg, fault))
        return false;
    leg->state = FANOUT_LEG_WAITING;
    leg->timer.on_timer = on_retry;
    wheel_start(&plane->worker->loop.wheel, &leg->timer, wait_ms);
    return true;
}

static void on_parked(struct mail *m)
{
    struct fanout_message *message = CONTAINER_OF(m, struct fanout_message, parcel.mail);
    struct fanout_leg *leg = message->leg;

    if (leg->is_parcel_held) { /* the process ends and did not wait */
        leg->is_parcel_held = false;
        fanout_job_drop_hold(leg->job);
        return;
    }
    end(leg, message->parcel.result == E_OK ? FANOUT_OUTCOME_PARKED : FANOUT_OUTCOME_FAILED);
}

static void park(struct fanout_leg *leg, struct fanout_message *message)
{
    struct fanout_park *to = plane_of(leg)->fanout->settings.park;

    if (leg->message != message)
        fanout_message_free(leg->message);
    leg->message = message;
    if (!to) { /* the configuration is checked for that */
        end(leg, FANOUT_OUTCOME_FAILED);
        return;
    }
    leg->state = FANOUT_LEG_PARKING;
    message->leg = leg;
    message->parcel = (struct fanout_parcel){
        .mail = {.on_mail = on_parked},
        .home = &plane_of(leg)->worker->loop.mailbox,
        .channel = leg->job->channel->key,
        .uid = leg->subscription->uid,
        .event = message->event,
        .extras = message->extras,
        .lines = buf_str(&leg->job->event.common),
    };
    fanout_park_put(to, &message->parcel);
}

static void give_up(struct fanout_leg *leg, struct str body)
{
    const struct fanout_subscription *s = leg->subscription;
    bool is_dead_letter = leg->role == FANOUT_ROLE_DEAD_LETTER;
    enum fanout_exhausted policy = is_abandoned(leg) ? FANOUT_EXHAUSTED_NACK
                                   : is_dead_letter  ? s->on_dead_letter_failed
                                                     : s->on_exhausted;

    LOG_DEBUG(LOG_FANOUT, "fanout.delivery.failed", F_STR("channel", leg->job->channel->key), F_STR("subscription", s->uid),
              F_STR("target", target_of(leg)->text), F_TEXT("reason", fanout_metrics_fault_name(leg->fault)),
              F_INT("status", leg->status), F_INT("attempts", leg->attempts));
    if (policy == FANOUT_EXHAUSTED_DEAD_LETTER)
        begin_role(leg, FANOUT_ROLE_DEAD_LETTER, fanout_message_new_failure(leg, target_of(leg), body));
    else if (policy == FANOUT_EXHAUSTED_PARK && !leg->job->only) /* else it is parked already */
        park(leg, is_dead_letter ? leg->message
                                 : fanout_message_new_failure(leg, target_of(leg), body)); /* the first failure says why */
    else
        end(leg, policy == FANOUT_EXHAUSTED_DROP ? FANOUT_OUTCOME_DROPPED : FANOUT_OUTCOME_FAILED);
}

void fanout_leg_fail(struct fanout_leg *leg, enum fanout_fault fault, bool is_retriable, struct str retry_after,
                     struct str body)
{
    struct fanout_lane *lane = leg->slot->lane;

    leg->state = FANOUT_LEG_RESTING;
    leg->fault = lane->fault = (uint8_t)fault;
    lane->status = leg->status;
    lane->failed_at_ms = loop_wall_ms();
    if (!leg->failed_at_ms)
        leg->failed_at_ms = lane->failed_at_ms;
    fanout_metrics_fail(fault);
    give_turn(leg);
    if (!is_retriable || !retry(leg, fault, retry_after))
        give_up(leg, body);
}

/* A reply is routed only if it came with a 200, or with what the channel takes instead; what claims to be one and is not makes the delivery
 * a failure that another attempt would only repeat. */
static void take_reply(struct fanout_leg *leg, const struct http1_response_head *response, struct str body)
{
    bool may_reply = response && (response->status == 200 || leg->job->channel->is_reply_any_2xx);
    struct fanout_message *message = NULL;
    enum fanout_reply kind = FANOUT_REPLY_NONE;

    if (may_reply && leg->subscription->reply.kind != FANOUT_TARGET_NONE)
        kind = fanout_message_read_reply(leg, response, body, &message);
    else if (response && body.n)
        fanout_metrics_add(FANOUT_REPLIES_IGNORED, 1);
    if (kind == FANOUT_REPLY_EVENT)
        begin_role(leg, FANOUT_ROLE_REPLY, message);
    else if (kind == FANOUT_REPLY_MALFORMED)
        fanout_leg_fail(leg, FANOUT_FAULT_REPLY, false, (struct str){0}, body);
    else
        end(leg, FANOUT_OUTCOME_DELIVERED);
}

void fanout_leg_succeed(struct fanout_leg *leg, const struct http1_response_head *response, struct str body)
{
    give_turn(leg);
    if (leg->role == FANOUT_ROLE_SUBSCRIBER) {
        take_reply(leg, response, body);
        return;
    }
    if (leg->role == FANOUT_ROLE_REPLY)
        fanout_metrics_add(FANOUT_REPLIES_SENT, 1);
    end(leg, leg->role == FANOUT_ROLE_REPLY ? FANOUT_OUTCOME_DELIVERED : FANOUT_OUTCOME_DEAD_LETTERED);
}

/* ---- from outside ---- */

/* Without a subscriber the event itself is the reply; without both there is nothing to do. */
void fanout_leg_begin(struct fanout_job *job, const struct fanout_subscription *subscription)
{
    struct fanout_leg *leg = slab_new(&job->home->legs);

    leg->job = job;
    leg->subscription = subscription;
    leg->began_us = plane_of(leg)->worker->loop.now_us;
    leg->slot = fanout_view_slot(job->home_view, job->channel, subscription);
    list_push(&job->legs, &leg->link);
    job->n_running++;
    leg->slot->lane->n_running++;
    fanout_metrics_add(FANOUT_DELIVERIES_BEGUN, 1);
    fanout_metrics_add(FANOUT_DELIVERIES_RUNNING, 1);
    if (subscription->subscriber.kind != FANOUT_TARGET_NONE)
        begin_role(leg, FANOUT_ROLE_SUBSCRIBER, NULL);
    else if (subscription->reply.kind != FANOUT_TARGET_NONE)
        begin_role(leg, FANOUT_ROLE_REPLY, NULL);
    else
        end(leg, FANOUT_OUTCOME_DELIVERED);
}

void fanout_leg_abort(struct fanout_leg *leg)
{
    switch ((enum fanout_leg_state)leg->state) {
    case FANOUT_LEG_ENDED:
        return;
    case FANOUT_LEG_QUEUED:
        list_remove(&leg->turn);
        leg->slot->lane->n_waiting--;
        break;
    case FANOUT_LEG_PARKING:
        leg->is_parcel_held = true;
        leg->job->n_held++;
        break;
    default:
        fanout_attempt_cancel(leg);
        break;
    }
    LOG_WARN(LOG_FANOUT, "fanout.delivery.aborted", F_STR("channel", leg->job->channel->key),
             F_STR("subscription", leg->subscription->uid), F_INT("attempts", leg->attempts));
    leg->fault = FANOUT_FAULT_ABANDONED;
    fanout_metrics_fail(FANOUT_FAULT_ABANDONED);
    if (leg->has_turn) {
        leg->has_turn = false;
        leg->slot->lane->n_inflight--; /* those that wait for it are aborted, too */
    }
    end(leg, FANOUT_OUTCOME_FAILED);
}
