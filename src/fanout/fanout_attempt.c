#include "fanout/fanout_attempt.h"

#include "base/check.h"
#include "base/log.h"
#include "fanout/fanout_message.h"
#include "fanout/fanout_retry.h"
#include "proto/cloudevents/cloudevent_kafka.h"

static uint64_t now_of(const struct fanout_leg *leg)
{
    return leg->job->home->worker->loop.now_ms;
}

/* Tells the breaker and the histogram, once for each attempt. */
static void report(struct fanout_leg *leg, bool has_failed)
{
    struct fanout_endpoint *endpoint = leg->endpoint;

    leg->endpoint = NULL;
    fanout_metrics_took(FANOUT_TIME_ATTEMPT, leg->job->home->worker->loop.now_us - leg->attempted_us);
    if (!fanout_breaker_report(&endpoint->breaker, leg->is_probe, has_failed, now_of(leg)))
        return;
    fanout_metrics_add(FANOUT_BREAKERS_OPENED, 1);
    LOG_WARN(LOG_FANOUT, "fanout.breaker.open", F_STR("endpoint", ((struct str){endpoint->text, endpoint->n_text})),
             F_INT("for_ms", endpoint->breaker.open_ms));
}

/* ---- HTTP ---- */

static enum fanout_fault fault_of(err result)
{
    static const uint8_t faults[] = {
        [E_NOTFOUND] = FANOUT_FAULT_NAME,  [E_IO] = FANOUT_FAULT_CONNECT,     [E_TIMEOUT] = FANOUT_FAULT_TIMEOUT,
        [E_CLOSED] = FANOUT_FAULT_CLOSED,  [E_PROTO] = FANOUT_FAULT_PROTOCOL, [E_LIMIT] = FANOUT_FAULT_TOO_LARGE,
        [E_NOMEM] = FANOUT_FAULT_OVERLOAD,
    };

    return (unsigned)result < ARRAY_LEN(faults) && faults[result] ? faults[result] : FANOUT_FAULT_CLOSED;
}

static void on_response(struct http_call *call)
{
    struct fanout_leg *leg = CONTAINER_OF(call, struct fanout_leg, call);
    const struct http1_response_head *response = call->response;
    enum fanout_fault fault;

    leg->state = FANOUT_LEG_RESTING;
    if (call->result != E_OK) {
        fault = fault_of(call->result);
        leg->status = 0;
        report(leg, fault != FANOUT_FAULT_TOO_LARGE);
        fanout_leg_fail(leg, fault, fault != FANOUT_FAULT_TOO_LARGE, (struct str){0}, (struct str){0});
        return;
    }
    leg->status = response->status;
    report(leg, response->status >= 500);
    if (response->status >= 200 && response->status < 300)
        fanout_leg_succeed(leg, response, call->body);
    else
        fanout_leg_fail(leg, FANOUT_FAULT_STATUS, fanout_retry_is_useful(response->status),
                        http1_response_header(response, STR("retry-after")), call->body);
}

static err text_of(struct fanout_leg *leg, struct fanout_text *out_text)
{
    if (leg->message)
        return fanout_message_text(leg->message, leg, out_text);
    return fanout_event_text(&leg->job->event, leg->job->channel, leg->subscription->format, out_text);
}

static enum fanout_fault call(struct fanout_leg *leg, const struct fanout_target *target, uint32_t timeout_ms)
{
    static const struct str prefer = STR_INIT("Prefer: reply\r\n");
    struct fanout_plane *plane = leg->job->home;
    struct fanout_text text;
    char trace[FANOUT_EVENT_TRACE_LINE_BYTES];
    struct str lines[3];
    struct http_client_request request = {
        .url = &target->url,
        .method = HTTP_METHOD_POST,
        .lines = lines,
        .n_lines = ARRAY_LEN(lines),
        .timeout_ms = timeout_ms,
        .max_response_bytes = leg->job->channel->max_body_bytes,
        .pool = leg->endpoint->hash,
        .is_http2 = target->is_h2c,
    };
    err e = text_of(leg, &text);

    if (e != E_OK)
        return FANOUT_FAULT_OVERLOAD;
    lines[0] = leg->role == FANOUT_ROLE_SUBSCRIBER ? prefer : (struct str){0};
    lines[1] = (struct str){trace, fanout_event_trace_line(&leg->job->event, fanout_plane_random(plane), trace)};
    lines[2] = text.lines;
    request.body = text.body;
    leg->call.on_done = on_response;
    leg->state = FANOUT_LEG_CALLING;
    e = http_client_send(&plane->client, &leg->call, &request);
    if (e == E_OK)
        return FANOUT_FAULT_NONE;
    leg->state = FANOUT_LEG_RESTING;
    return e == E_INVAL ? FANOUT_FAULT_REQUEST : FANOUT_FAULT_OVERLOAD;
}

/* ---- Kafka ---- */

/* What will not go better another time. */
static bool is_final(enum outcome outcome)
{
    return outcome == OUTCOME_TOO_LARGE || outcome == OUTCOME_DENIED || outcome == OUTCOME_INVALID;
}

static void on_delivered(struct mail *m)
{
    struct fanout_leg *leg = CONTAINER_OF(m, struct fanout_leg, delivery.mail);
    enum outcome outcome = leg->delivery.outcome;

    if (leg->is_record_held) { /* too late */
        leg->is_record_held = false;
        fanout_job_drop_hold(leg->job);
        return;
    }
    wheel_stop(&leg->timer);
    leg->state = FANOUT_LEG_RESTING;
    report(leg, outcome != OUTCOME_STORED && !is_final(outcome));
    if (outcome == OUTCOME_STORED)
        fanout_leg_succeed(leg, NULL, (struct str){0});
    else
        fanout_leg_fail(leg, FANOUT_FAULT_KAFKA, !is_final(outcome), (struct str){0}, str_from(sink_outcome_name(outcome)));
}

/* The record may still be stored: the attempt's time is over, not the record's. */
static void on_kafka_late(struct timer *t)
{
    struct fanout_leg *leg = CONTAINER_OF(t, struct fanout_leg, timer);

    fanout_attempt_cancel(leg);
    fanout_leg_fail(leg, FANOUT_FAULT_TIMEOUT, false, (struct str){0}, (struct str){0});
}

/* CloudEvents Kafka binding section 3.1: the key is that of the Partitioning extension. */
static err submit(struct fanout_leg *leg, struct sink_topic *topic)
{
    const struct fanout_message *message = leg->message;
    const struct cloudevent *event = message ? message->event : &leg->job->event.ce;
    const struct cloudevent_extras extras = message ? message->extras : (struct cloudevent_extras){&leg->job->event.hops, 1};
    const struct cloudevent_kafka_header *headers;
    struct arena *scratch = &leg->job->home->scratch;
    size_t n = cloudevent_kafka_headers(scratch, MEM_FANOUT, event, &extras, &headers);
    struct record_header *record_headers = arena_alloc(scratch, MEM_FANOUT, (n + 1) * sizeof *record_headers);
    struct record record = {.topic = topic, .value = cloudevent_kafka_value(event), .headers = record_headers, .n_headers = n};
    err e;

    for (size_t i = 0; i < n; i++)
        record_headers[i] = (struct record_header){headers[i].name, headers[i].value};
    (void)cloudevent_find(event, STR("partitionkey"), &record.key);
    e = sink_submit(leg->job->home->fanout->settings.sink, &record, &leg->delivery);
    arena_free(scratch, MEM_FANOUT);
    return e;
}

static enum fanout_fault produce(struct fanout_leg *leg, const struct fanout_target *target, uint32_t timeout_ms)
{
    struct fanout_plane *plane = leg->job->home;
    struct sink *sink = plane->fanout->settings.sink;
    struct sink_topic **topic = &leg->slot->topics[leg->role];

    if (!sink)
        return FANOUT_FAULT_REQUEST;
    if (leg->is_record_held) /* an earlier record of this leg is still on its way, and there is one delivery */
        return FANOUT_FAULT_KAFKA;
    if (!*topic)
        *topic = sink_find_topic(sink, target->topic);
    if (!*topic)
        return FANOUT_FAULT_REQUEST;
    leg->delivery = (struct delivery){.mail = {.on_mail = on_delivered}, .home = &plane->worker->loop.mailbox};
    switch (submit(leg, *topic)) {
    case E_OK:
        leg->state = FANOUT_LEG_PRODUCING;
        leg->timer.on_timer = on_kafka_late;
        wheel_start(&plane->worker->loop.wheel, &leg->timer, timeout_ms);
        return FANOUT_FAULT_NONE;
    case E_AGAIN:
        return FANOUT_FAULT_OVERLOAD;
    default:
        return FANOUT_FAULT_KAFKA;
    }
}

/* ---- both ---- */

enum fanout_fault fanout_attempt_begin(struct fanout_leg *leg, const struct fanout_target *target, uint32_t timeout_ms)
{
    struct fanout_job *job = leg->job;
    struct fanout_endpoint *endpoint = fanout_view_endpoint(job->home_view, leg->slot, leg->role, target);
    enum fanout_breaker_admission admission = fanout_breaker_admit(&endpoint->breaker, now_of(leg));
    enum fanout_fault fault;

    if (admission == FANOUT_BREAKER_REFUSED)
        return FANOUT_FAULT_BREAKER;
    leg->endpoint = endpoint;
    leg->attempted_us = leg->job->home->worker->loop.now_us;
    leg->is_probe = admission == FANOUT_BREAKER_PROBE;
    if (leg->attempts == 1)
        fanout_budget_add(&endpoint->budget);
    leg->slot->lane->attempts++;
    fanout_metrics_add(FANOUT_ATTEMPTS, 1);
    fault = target->kind == FANOUT_TARGET_KAFKA ? produce(leg, target, timeout_ms) : call(leg, target, timeout_ms);
    if (fault)
        fanout_breaker_withdraw(&endpoint->breaker, leg->is_probe);
    return fault;
}

void fanout_attempt_cancel(struct fanout_leg *leg)
{
    if (leg->state == FANOUT_LEG_CALLING) {
        http_client_cancel(&leg->call);
    } else if (leg->state == FANOUT_LEG_PRODUCING) {
        wheel_stop(&leg->timer);
        leg->is_record_held = true;
        leg->job->n_held++;
    } else {
        return;
    }
    leg->state = FANOUT_LEG_RESTING;
    fanout_breaker_withdraw(&leg->endpoint->breaker, leg->is_probe);
}
