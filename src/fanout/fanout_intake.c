#include "fanout/fanout_intake.h"

#include "base/check.h"
#include "base/jsonw.h"
#include "fanout/fanout_answer.h"
#include "fanout/fanout_metrics.h"
#include "fanout/fanout_route.h"
#include "fanout/fanout_stateless.h"
#include "proto/cloudevents/cloudevent_http.h"
#include "proto/cloudevents/cloudevent_json.h"

enum { POOLED_MAX = 64 };

/* ---- the pool ---- */

static struct fanout_intake *intake_new(struct fanout_plane *plane)
{
    struct list *link = list_pop(&plane->idle_intakes);
    struct fanout_intake *intake;

    if (link) {
        plane->n_idle_intakes--;
        intake = CONTAINER_OF(link, struct fanout_intake, link);
    } else {
        intake = mem_alloc_zero(MEM_FANOUT, sizeof *intake);
    }
    *intake = (struct fanout_intake){.plane = plane, .arena = intake->arena};
    list_init(&intake->jobs);
    return intake;
}

static void intake_delete(struct fanout_intake *intake)
{
    arena_free(&intake->arena, MEM_FANOUT);
    mem_free(MEM_FANOUT, intake);
}

/* Once it is answered and nobody uses its memory. */
static void release(struct fanout_intake *intake)
{
    struct fanout_plane *plane = intake->plane;

    if (intake->x || !list_is_empty(&intake->jobs))
        return;
    if (intake->has_taken) {
        http1_head_free(&intake->head);
        buf_free(&intake->body, MEM_HTTP);
    }
    fanout_view_unref(intake->view);
    if (plane->n_idle_intakes == POOLED_MAX) {
        intake_delete(intake);
        return;
    }
    arena_reset(&intake->arena, MEM_FANOUT);
    list_push(plane->idle_intakes.next, &intake->link);
    plane->n_idle_intakes++;
}

void fanout_intake_free_pool(struct fanout_plane *plane)
{
    struct list *link;

    while ((link = list_pop(&plane->idle_intakes)))
        intake_delete(CONTAINER_OF(link, struct fanout_intake, link));
    plane->n_idle_intakes = 0;
}

/* ---- refusals ---- */

static void reject(struct http_exchange *x, uint16_t status, enum fanout_rejection reason, const char *text)
{
    fanout_metrics_add(FANOUT_EVENTS_RECEIVED, 1);
    fanout_metrics_reject(reason);
    fanout_answer_refuse(x, status, text);
}

/* What fanout_event_begin() and the readers say. */
struct refusal {
    uint16_t status;
    enum fanout_rejection reason;
    const char *text; /* NULL: the error's own */
};

static struct refusal refusal_of(err e)
{
    if (e == E_LIMIT)
        return (struct refusal){400, FANOUT_REJECTED_HOPS,
                                "the event has passed as many channels as it may (" FANOUT_EVENT_HOPS ")"};
    if (e == E_NOMEM)
        return (struct refusal){503, FANOUT_REJECTED_FULL, "there is no memory for the event"};
    return (struct refusal){400, FANOUT_REJECTED_INVALID, NULL};
}

/* ---- answers ---- */

/* The events' memory is the exchange's, which goes with the answer. */
static void keep_request(struct fanout_intake *intake)
{
    if (intake->has_taken)
        return;
    http_exchange_take_request(intake->x, &intake->head, &intake->body);
    intake->has_taken = true;
}

static struct http_exchange *take_exchange(struct fanout_intake *intake)
{
    struct http_exchange *x = intake->x;

    intake->x = NULL;
    x->on_cancel = NULL;
    return x;
}

static const enum fanout_rejection rejections[] = {[FANOUT_VERDICT_FAILED] = FANOUT_REJECTED_FAILED,
                                                   [FANOUT_VERDICT_ENDED] = FANOUT_REJECTED_DRAIN,
                                                   [FANOUT_VERDICT_REPEATED] = FANOUT_REJECTED_REPEATED,
                                                   [FANOUT_VERDICT_FULL] = FANOUT_REJECTED_FULL};

static void count_answer(const struct fanout_intake *intake, const struct fanout_job *job)
{
    fanout_metrics_add(FANOUT_EVENTS_WAITING, (uint64_t)-1);
    fanout_metrics_took(FANOUT_TIME_DISPATCH, intake->plane->worker->loop.now_us - job->came_us);
    if (http_exchange_is_cancelled(intake->x))
        fanout_metrics_add(FANOUT_EVENTS_DROPPED, 1);
    else if (job->verdict == FANOUT_VERDICT_TAKEN)
        fanout_metrics_add(FANOUT_EVENTS_ACKNOWLEDGED, 1);
    else
        fanout_metrics_reject(rejections[job->verdict]);
}

static void begin_items(struct fanout_intake *intake);

static void settle_item(struct fanout_intake *intake, const struct fanout_job *job)
{
    struct fanout_item *item = &intake->items[job->index];

    item->status = fanout_answer_status(job->verdict);
    if (job->verdict != FANOUT_VERDICT_TAKEN)
        item->error = str_from(fanout_answer_text(job->verdict));
    if (job->verdict == FANOUT_VERDICT_FAILED)
        item->problem = arena_copy(&intake->arena, MEM_FANOUT, buf_str(&job->problem));
    intake->n_known++;
    begin_items(intake);
}

static void on_settled(struct fanout_job *job)
{
    struct fanout_intake *intake = job->user;

    count_answer(intake, job);
    if (job->is_early)
        keep_request(intake);
    if (intake->items)
        settle_item(intake, job);
    else
        fanout_answer_verdict(take_exchange(intake), job);
}

static void on_finished(struct fanout_job *job)
{
    struct fanout_intake *intake = job->user;

    list_remove(&job->sibling);
    fanout_job_free(job);
    release(intake);
}

/* The sender has gone: what is under way may end, but nothing new is begun for it. */
static void on_cancel(struct http_exchange *x)
{
    struct fanout_intake *intake = x->user;

    for (struct list *link = intake->jobs.next; link != &intake->jobs; link = link->next)
        atomic_store_explicit(&CONTAINER_OF(link, struct fanout_job, sibling)->is_abandoned, true, memory_order_relaxed);
}

/* ---- events ---- */

static struct fanout_job *job_for(struct fanout_intake *intake)
{
    struct fanout_job *job = fanout_job_new(intake->plane);

    job->view = fanout_view_ref(intake->view);
    job->channel = intake->channel;
    job->came_us = intake->came_us;
    job->deadline_ms = intake->deadline_ms;
    job->on_settled = on_settled;
    job->on_finished = on_finished;
    job->user = intake;
    return job;
}

/* The job has its event. */
static void start(struct fanout_intake *intake, struct fanout_job *job)
{
    list_push(&intake->jobs, &job->sibling);
    if (http_exchange_is_cancelled(intake->x))
        atomic_store_explicit(&job->is_abandoned, true, memory_order_relaxed);
    fanout_metrics_add(FANOUT_EVENTS_RECEIVED, 1);
    fanout_metrics_add(FANOUT_EVENTS_WAITING, 1);
    fanout_job_start(job); /* may be finished, and the intake gone with it */
}

/* `document`: the event in JSON, where that is not the body; else its `p` is NULL. */
static err read_event(struct fanout_intake *intake, struct str document, struct cloudevent *out_event, struct errinfo *ei)
{
    const struct http_request *r = &intake->x->request;

    if (document.p)
        return cloudevent_json_read(&intake->arena, MEM_FANOUT, document, out_event, ei);
    return cloudevent_http_read(&intake->arena, MEM_FANOUT, r->headers, r->n_headers, r->body, out_event, ei);
}

static void post_event(struct fanout_intake *intake, struct str document)
{
    const struct http_request *r = &intake->x->request;
    struct fanout_job *job = job_for(intake);
    struct errinfo ei = {0};
    struct refusal refusal;
    err e = read_event(intake, document, &job->event.ce, &ei);

    if (e == E_OK)
        e = fanout_event_begin(&job->event, intake->channel, r->headers, r->n_headers);
    if (e == E_OK) {
        start(intake, job);
        return;
    }
    refusal = refusal_of(e);
    fanout_job_free(job);
    reject(take_exchange(intake), refusal.status, refusal.reason, refusal.text ? refusal.text : ei.text);
    release(intake);
}

/* ---- batches ---- */

static err write_item(struct buf *out, const struct fanout_item *item, bool is_first)
{
    err e = buf_printf(out, MEM_FANOUT, "%s{\"status\":%u", is_first ? "" : ",", item->status);

    if (e == E_OK && item->error.n) {
        e = buf_append(out, MEM_FANOUT, STR(",\"error\":"));
        if (e == E_OK)
            e = jsonw_string(out, MEM_FANOUT, item->error);
    }
    if (e == E_OK && item->problem.n) {
        e = buf_append(out, MEM_FANOUT, STR(",\"problem\":"));
        if (e == E_OK)
            e = buf_append(out, MEM_FANOUT, item->problem);
    }
    return e == E_OK ? buf_append(out, MEM_FANOUT, STR("}")) : e;
}

static void answer_batch(struct fanout_intake *intake)
{
    struct http_exchange *x = take_exchange(intake);
    struct http_response r = {.status = 202, .content_type = STR("application/json")};
    struct buf body = {0};
    err e = buf_append(&body, MEM_FANOUT, STR("["));

    for (uint32_t i = 0; i < intake->n_items && e == E_OK; i++) {
        e = write_item(&body, &intake->items[i], i == 0);
        if (intake->items[i].status != 202)
            r.status = 207;
    }
    if (e == E_OK)
        e = buf_append(&body, MEM_FANOUT, STR("]\n"));
    r.body = buf_str(&body);
    if (e == E_OK)
        http_exchange_respond(x, &r);
    else
        fanout_answer_refuse(x, 503, "there is no memory for the answer");
    buf_free(&body, MEM_FANOUT);
    release(intake);
}

static void refuse_item(struct fanout_intake *intake, struct fanout_item *item, err e, const struct errinfo *ei)
{
    struct refusal refusal = refusal_of(e);

    item->status = refusal.status;
    item->error = arena_copy(&intake->arena, MEM_FANOUT, str_from(refusal.text ? refusal.text : ei->text));
    intake->n_known++;
    fanout_metrics_add(FANOUT_EVENTS_RECEIVED, 1);
    fanout_metrics_reject(refusal.reason);
}

static void begin_item(struct fanout_intake *intake, uint32_t index)
{
    struct fanout_item *item = &intake->items[index];
    const struct http_request *r = &intake->x->request;
    struct fanout_job *job = job_for(intake);
    struct errinfo ei = {0};
    err e = cloudevent_json_read(&intake->arena, MEM_FANOUT, item->document, &job->event.ce, &ei);

    job->index = index;
    if (e == E_OK)
        e = fanout_event_begin(&job->event, intake->channel, r->headers, r->n_headers);
    if (e == E_OK) {
        start(intake, job);
        return;
    }
    fanout_job_free(job);
    refuse_item(intake, item, e, &ei);
}

/* As many at once as may be; again whenever one is known. Items may be known at once, so this is a loop and no recursion. */
static void begin_items(struct fanout_intake *intake)
{
    if (intake->is_beginning)
        return;
    intake->is_beginning = true;
    while (intake->n_begun < intake->n_items && intake->n_begun - intake->n_known < FANOUT_INTAKE_BATCH_AT_ONCE)
        begin_item(intake, intake->n_begun++);
    intake->is_beginning = false;
    if (intake->n_known == intake->n_items)
        answer_batch(intake);
}

static err take_apart(struct fanout_intake *intake, struct str body)
{
    struct cloudevent_batch batch;
    struct str document;
    err e = cloudevent_json_begin(&batch, body, FANOUT_INTAKE_BATCH_MAX);

    if (e != E_OK)
        return e;
    intake->items = arena_alloc(&intake->arena, MEM_FANOUT, FANOUT_INTAKE_BATCH_MAX * sizeof *intake->items);
    while ((e = cloudevent_json_next(&batch, &document)) == E_OK)
        intake->items[intake->n_items++].document = document;
    return e == E_CLOSED ? E_OK : e;
}

static void post_batch(struct fanout_intake *intake)
{
    err e = take_apart(intake, intake->x->request.body);

    if (e == E_OK) {
        begin_items(intake);
        return;
    }
    if (e == E_LIMIT)
        reject(take_exchange(intake), 413, FANOUT_REJECTED_TOO_LARGE, "the batch has more than 1,000 events");
    else
        reject(take_exchange(intake), 400, FANOUT_REJECTED_INVALID, "the body is no JSON array");
    release(intake);
}

/* ---- requests ---- */

/* Takes over the reference to the view. */
static void begin(struct http_exchange *x, struct fanout_view *view, const struct fanout_channel *channel, struct str document)
{
    struct fanout_plane *plane = view->plane;
    struct fanout_intake *intake = intake_new(plane);
    struct str type = http_message_header(&x->request, STR("content-type"));

    intake->x = x;
    intake->view = view;
    intake->channel = channel;
    intake->came_us = plane->worker->loop.now_us;
    intake->deadline_ms = plane->worker->loop.now_ms + fanout_route_wait_ms(&x->request, channel->timeout_ms);
    x->user = intake;
    x->on_cancel = on_cancel;
    if (!document.p && cloudevent_http_mode(type) == CLOUDEVENT_MODE_BATCH)
        post_batch(intake);
    else
        post_event(intake, document);
}

/* The request brings its own channel. */
static void post_stateless(struct http_exchange *x, struct fanout_plane *plane)
{
    struct fanout_stateless_request request;
    struct errinfo ei = {0};
    uint16_t status = fanout_stateless_take(plane->fanout->stateless, &x->request, &request, &ei);
    struct fanout_view *view;

    if (status) {
        reject(x, status, status == 401 || status == 403 ? FANOUT_REJECTED_DENIED : FANOUT_REJECTED_INVALID, ei.text);
        return;
    }
    view = fanout_view_take(plane, request.snapshot);
    fanout_snapshot_unref(request.snapshot);
    fanout_plane_forget(plane);
    begin(x, view, &view->snapshot->channels[0], request.event);
}

void fanout_intake_post(struct http_exchange *x, void *context)
{
    struct fanout_plane *plane = context;
    const struct fanout_channel *channel = NULL;
    uint16_t status;

    if (fanout_stateless_is_meant(&x->request)) {
        post_stateless(x, plane);
        return;
    }
    status = fanout_route_find(plane->view->snapshot, &x->request, &channel);
    if (status == 503)
        reject(x, status, FANOUT_REJECTED_BROKEN_CHANNEL, "the channel is left out, since its configuration is wrong");
    else if (status == 404)
        reject(x, status, FANOUT_REJECTED_UNKNOWN_CHANNEL, "there is no such channel");
    else if (status)
        reject(x, status, FANOUT_REJECTED_UNKNOWN_CHANNEL,
               "a channel is named by the path /NAMESPACE/NAME or by the host NAME.NAMESPACE");
    else if (x->request.body.n > channel->max_body_bytes)
        reject(x, 413, FANOUT_REJECTED_TOO_LARGE, "the event is larger than its channel takes");
    else
        begin(x, fanout_view_ref(plane->view), channel, (struct str){0});
}

void fanout_intake_options(struct http_exchange *x, void *context)
{
    (void)context;
    fanout_answer_handshake(x);
}
