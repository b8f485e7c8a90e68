#include "fanout/fanout_inspect.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/jsonw.h"
#include "fanout/fanout_plane.h"

static void add_lane(struct fanout_inspect_row *row, const struct fanout_lane *lane)
{
    row->n_running += lane->n_running;
    row->n_waiting += lane->n_waiting;
    row->n_inflight += lane->n_inflight;
    row->attempts += lane->attempts;
    row->retries += lane->retries;
    row->filtered += lane->filtered;
    for (int i = 0; i < FANOUT_OUTCOMES; i++)
        row->ended[i] += lane->ended[i];
    if (lane->failed_at_ms <= row->failed_at_ms)
        return;
    row->failed_at_ms = lane->failed_at_ms;
    row->fault = lane->fault;
    row->status = lane->status;
}

static void add_plane(struct fanout_inspection *q, const struct fanout_plane *plane)
{
    for (size_t i = 0; i < q->n_rows; i++) {
        struct fanout_inspect_row *row = &q->rows[i];
        const struct fanout_lane *lane = fanout_lane_find(&plane->lanes, row->channel->key, row->subscription->uid);
        const struct fanout_endpoint *endpoint = fanout_endpoint_find(&plane->endpoints, row->subscription->subscriber.text);

        if (lane)
            add_lane(row, lane);
        if (endpoint && endpoint->breaker.state != FANOUT_BREAKER_CLOSED && row->breaker != FANOUT_BREAKER_OPEN)
            row->breaker = endpoint->breaker.state;
    }
}

static void on_travel(struct mail *m)
{
    struct fanout_inspection *q = CONTAINER_OF(m, struct fanout_inspection, travel);
    struct fanout *f = q->fanout;

    add_plane(q, &f->planes[q->at]);
    if (++q->at < f->n_planes)
        mailbox_post(&f->planes[q->at].worker->loop.mailbox, &q->travel);
    else
        mailbox_post(q->home, &q->mail);
}

static void add_rows(struct fanout_inspection *q, const struct fanout_channel *channel)
{
    for (size_t i = 0; i < channel->n_subscriptions; i++)
        q->rows[q->n_rows++] = (struct fanout_inspect_row){.channel = channel, .subscription = &channel->subscriptions[i]};
}

void fanout_inspect(struct fanout *f, struct fanout_inspection *q)
{
    size_t n = q->only ? q->only->n_subscriptions : q->snapshot->n_subscriptions;

    q->rows = mem_alloc(MEM_FANOUT, (n + 1) * sizeof *q->rows);
    q->n_rows = 0;
    if (q->only)
        add_rows(q, q->only);
    for (size_t i = 0; i < q->snapshot->n_channels && !q->only; i++)
        add_rows(q, &q->snapshot->channels[i]);
    q->fanout = f;
    q->at = 0;
    q->travel.on_mail = on_travel;
    mailbox_post(&f->planes[0].worker->loop.mailbox, &q->travel);
}

void fanout_inspect_free(struct fanout_inspection *q)
{
    mem_free(MEM_FANOUT, q->rows);
    fanout_snapshot_unref(q->snapshot);
    q->rows = NULL;
    q->snapshot = NULL;
}

/* ---- as JSON ---- */

static err write_text(struct buf *out, enum mem_sub sub, const char *before, struct str text)
{
    err e = buf_append(out, sub, str_from(before));

    return e == E_OK ? jsonw_string(out, sub, text) : e;
}

static err write_numbers(struct buf *out, enum mem_sub sub, const struct fanout_inspect_row *row)
{
    static const char *const outcomes[FANOUT_OUTCOMES] = {
        [FANOUT_OUTCOME_DELIVERED] = "delivered", [FANOUT_OUTCOME_DEAD_LETTERED] = "dead_lettered",
        [FANOUT_OUTCOME_PARKED] = "parked",       [FANOUT_OUTCOME_DROPPED] = "dropped",
        [FANOUT_OUTCOME_FAILED] = "failed",
    };
    err e = buf_printf(out, sub,
                       ",\"running\":%" PRIu64 ",\"in_flight\":%" PRIu64 ",\"held_back\":%" PRIu64 ",\"attempts\":%" PRIu64
                       ",\"retries\":%" PRIu64 ",\"filtered\":%" PRIu64,
                       row->n_running, row->n_inflight, row->n_waiting, row->attempts, row->retries, row->filtered);

    for (int i = 0; i < FANOUT_OUTCOMES && e == E_OK; i++)
        e = buf_printf(out, sub, ",\"%s\":%" PRIu64, outcomes[i], row->ended[i]);
    return e;
}

static err write_row(struct buf *out, enum mem_sub sub, const struct fanout_inspect_row *row, bool is_first)
{
    const struct fanout_breaker breaker = {.state = row->breaker};
    err e = write_text(out, sub, is_first ? "{\"channel\":" : ",\n{\"channel\":", row->channel->key);

    if (e == E_OK)
        e = write_text(out, sub, ",\"uid\":", row->subscription->uid);
    if (e == E_OK)
        e = write_numbers(out, sub, row);
    if (e == E_OK)
        e = buf_printf(out, sub, ",\"breaker\":\"%s\"", fanout_breaker_name(&breaker));
    if (e == E_OK && row->failed_at_ms)
        e = buf_printf(out, sub, ",\"last_error\":{\"reason\":\"%s\",\"status\":%u,\"at_ms\":%" PRIu64 "}",
                       fanout_metrics_fault_name(row->fault), row->status, row->failed_at_ms);
    return e == E_OK ? buf_append(out, sub, STR("}")) : e;
}

err fanout_inspect_write_one(struct buf *out, enum mem_sub sub, const struct fanout_inspect_row *row)
{
    err e = write_row(out, sub, row, true);

    return e == E_OK ? buf_append(out, sub, STR("\n")) : e;
}

err fanout_inspect_write(struct buf *out, enum mem_sub sub, const struct fanout_inspection *q)
{
    err e = buf_append(out, sub, STR("["));

    for (size_t i = 0; i < q->n_rows && e == E_OK; i++)
        e = write_row(out, sub, &q->rows[i], i == 0);
    return e == E_OK ? buf_append(out, sub, STR("]\n")) : e;
}
