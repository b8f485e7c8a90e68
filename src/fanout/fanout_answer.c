#include "fanout/fanout_answer.h"

#include "base/check.h"
#include "base/jsonw.h"
#include "fanout/fanout_leg.h"

enum { FAILED_SHOWN_MAX = 100, ERROR_BYTES = 512 };

static const struct http_header retry_after = {STR_INIT("Retry-After"), STR_INIT("2")};

static err write_failure(struct buf *out, const struct fanout_leg *leg, bool is_first)
{
    err e = buf_append(out, MEM_FANOUT, is_first ? STR("{\"subscription\":") : STR(",{\"subscription\":"));

    if (e == E_OK)
        e = jsonw_string(out, MEM_FANOUT, leg->subscription->uid);
    if (e == E_OK)
        e = buf_printf(out, MEM_FANOUT, ",\"reason\":\"%s\"", fanout_metrics_fault_name(leg->fault));
    if (e == E_OK && leg->status)
        e = buf_printf(out, MEM_FANOUT, ",\"status\":%u", leg->status);
    return e == E_OK ? buf_printf(out, MEM_FANOUT, ",\"attempts\":%u}", (unsigned)leg->attempts) : e;
}

static err write_failures(struct buf *out, struct fanout_job *job)
{
    err e = buf_printf(out, MEM_FANOUT,
                       "{\"type\":\"about:blank\",\"title\":\"Internal Server Error\",\"status\":500,"
                       "\"detail\":\"%u of %zu subscriptions failed\",\"failed\":[",
                       (unsigned)job->n_failed, job->channel->n_subscriptions);
    size_t n = 0;

    for (struct list *link = job->legs.next; link != &job->legs && n < FAILED_SHOWN_MAX && e == E_OK; link = link->next) {
        const struct fanout_leg *leg = CONTAINER_OF(link, struct fanout_leg, link);

        if (leg->state == FANOUT_LEG_ENDED && leg->outcome == FANOUT_OUTCOME_FAILED)
            e = write_failure(out, leg, n++ == 0);
    }
    return e == E_OK ? buf_append(out, MEM_FANOUT, STR("]}\n")) : e;
}

void fanout_answer_write_problem(struct fanout_job *job)
{
    if (write_failures(&job->problem, job) != E_OK)
        job->problem.head = job->problem.tail = 0;
}

uint16_t fanout_answer_status(enum fanout_verdict verdict)
{
    static const uint16_t statuses[] = {[FANOUT_VERDICT_TAKEN] = 202,
                                        [FANOUT_VERDICT_FAILED] = 500,
                                        [FANOUT_VERDICT_ENDED] = 503,
                                        [FANOUT_VERDICT_REPEATED] = 409,
                                        [FANOUT_VERDICT_FULL] = 429};

    return statuses[verdict];
}

const char *fanout_answer_text(enum fanout_verdict verdict)
{
    static const char *const texts[] = {
        [FANOUT_VERDICT_FAILED] = "a subscription failed",
        [FANOUT_VERDICT_ENDED] = "the server ends before the event is everywhere",
        [FANOUT_VERDICT_REPEATED] = "the same event is under way in this channel already (repeats)",
        [FANOUT_VERDICT_FULL] = "the channel holds as many events as it may (max_queued)",
    };

    return texts[verdict];
}

void fanout_answer_verdict(struct http_exchange *x, const struct fanout_job *job)
{
    struct http_response r = {.status = fanout_answer_status(job->verdict)};

    if (job->verdict == FANOUT_VERDICT_ENDED || job->verdict == FANOUT_VERDICT_REPEATED ||
        job->verdict == FANOUT_VERDICT_FULL) {
        fanout_answer_refuse(x, r.status, fanout_answer_text(job->verdict));
        return;
    }
    if (job->verdict == FANOUT_VERDICT_FAILED && buf_size(&job->problem)) {
        r.content_type = STR("application/problem+json");
        r.body = buf_str(&job->problem);
    }
    http_exchange_respond(x, &r);
}

void fanout_answer_refuse(struct http_exchange *x, uint16_t status, const char *text)
{
    char body[ERROR_BYTES];

    http_exchange_respond(x, &(struct http_response){
                                 .status = status,
                                 .content_type = STR("application/json"),
                                 .headers = &retry_after,
                                 .n_headers = status == 503 || status == 429 || status == 409,
                                 .body = {body, http_exchange_format_error(body, sizeof body, str_from(text))},
                             });
}

void fanout_answer_handshake(struct http_exchange *x)
{
    static const struct http_header headers[] = {
        {STR_INIT("Allow"), STR_INIT("POST, OPTIONS")},
        {STR_INIT("WebHook-Allowed-Origin"), STR_INIT("*")},
        {STR_INIT("WebHook-Allowed-Rate"), STR_INIT("*")},
    };

    http_exchange_respond(x, &(struct http_response){.status = 200, .headers = headers, .n_headers = ARRAY_LEN(headers)});
}
