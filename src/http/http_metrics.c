#include "http/http_metrics.h"

#include <stdio.h>

#include "base/check.h"

static const char *const close_reasons[HTTP_CLOSE_REASONS] = {
    [HTTP_CLOSED_DONE] = "done",   [HTTP_CLOSED_PEER] = "peer",   [HTTP_CLOSED_REFUSED] = "refused",
    [HTTP_CLOSED_IDLE] = "idle",   [HTTP_CLOSED_SLOW] = "slow",   [HTTP_CLOSED_DRAIN] = "drain",
    [HTTP_CLOSED_LIMIT] = "limit", [HTTP_CLOSED_ERROR] = "error", [HTTP_CLOSED_PROTOCOL] = "protocol",
    [HTTP_CLOSED_FLOOD] = "flood",
};
static const char *const reset_reasons[HTTP_RESET_REASONS] = {
    [HTTP_RESET_PEER] = "peer", [HTTP_RESET_MALFORMED] = "malformed", [HTTP_RESET_REFUSED] = "refused",
    [HTTP_RESET_SLOW] = "slow", [HTTP_RESET_ERROR] = "error",
};
static const char *const classes[HTTP_STATUS_CLASSES] = {"2xx", "3xx", "4xx", "5xx"};

static struct metric *add(struct http_metrics *m, size_t *n, struct metric metric, const char *server, const char *label,
                          const char *value)
{
    char *labels = m->labels[*n];

    ASSERT(*n < HTTP_METRICS);
    if (label)
        snprintf(labels, sizeof m->labels[0], "server=\"%s\",%s=\"%s\"", server, label, value);
    else
        snprintf(labels, sizeof m->labels[0], "server=\"%s\"", server);
    metric.labels = labels;
    m->table[*n] = metric;
    return &m->table[(*n)++];
}

static void add_single(struct http_metrics *m, size_t *n, const char *server)
{
    m->received = add(m, n,
                      (struct metric){.name = "millrace_http_requests_total",
                                      .help = "Requests whose head was read, or refused.",
                                      .kind = METRIC_COUNTER},
                      server, NULL, NULL);
    m->cancelled = add(m, n,
                       (struct metric){.name = "millrace_http_requests_cancelled_total",
                                       .help = "Requests whose peer left before the response.",
                                       .kind = METRIC_COUNTER},
                       server, NULL, NULL);
    m->in_flight = add(m, n,
                       (struct metric){.name = "millrace_http_requests_in_flight",
                                       .help = "Requests being read or waiting for their response.",
                                       .kind = METRIC_GAUGE},
                       server, NULL, NULL);
    m->accepted =
        add(m, n,
            (struct metric){
                .name = "millrace_http_connections_accepted_total", .help = "Connections accepted.", .kind = METRIC_COUNTER},
            server, NULL, NULL);
    m->open =
        add(m, n, (struct metric){.name = "millrace_http_connections_open", .help = "Connections open.", .kind = METRIC_GAUGE},
            server, NULL, NULL);
}

static void add_http2(struct http_metrics *m, size_t *n, const char *server)
{
    m->http2 =
        add(m, n,
            (struct metric){
                .name = "millrace_http2_connections_total", .help = "Connections that spoke HTTP/2.", .kind = METRIC_COUNTER},
            server, NULL, NULL);
    m->reset = &m->table[*n];
    for (int i = 0; i < HTTP_RESET_REASONS; i++)
        add(m, n,
            (struct metric){.name = "millrace_http2_streams_reset_total",
                            .help = "Streams that ended before their response, by reason.",
                            .kind = METRIC_COUNTER},
            server, "reason", reset_reasons[i]);
}

void http_metrics_register(struct http_metrics *m, const char *server)
{
    size_t n = 0;

    if (m->received)
        return;
    add_single(m, &n, server);
    m->responses = &m->table[n];
    for (int i = 0; i < HTTP_STATUS_CLASSES; i++)
        add(m, &n,
            (struct metric){
                .name = "millrace_http_responses_total", .help = "Responses by class of status.", .kind = METRIC_COUNTER},
            server, "class", classes[i]);
    m->refused = &m->table[n];
    for (int i = 0; i < HTTP1_REFUSALS; i++)
        add(m, &n,
            (struct metric){.name = "millrace_http_refused_total",
                            .help = "Requests refused before a handler saw them.",
                            .kind = METRIC_COUNTER},
            server, "reason", i == HTTP1_REFUSED_NOT ? "slow" : http1_refusal_label((enum http1_refusal)i));
    m->closed = &m->table[n];
    for (int i = 0; i < HTTP_CLOSE_REASONS; i++)
        add(m, &n,
            (struct metric){.name = "millrace_http_connections_closed_total",
                            .help = "Connections closed, by reason.",
                            .kind = METRIC_COUNTER},
            server, "reason", close_reasons[i]);
    add_http2(m, &n, server);
    ASSERT(n == HTTP_METRICS);
    metrics_register(m->table, n);
}

void http_metrics_count_received(const struct http_metrics *m)
{
    metric_add(m->received, 1);
    metric_add(m->in_flight, 1);
}

void http_metrics_count_answered(const struct http_metrics *m, uint16_t status)
{
    metric_add(status ? &m->responses[status / 100 - 2] : m->cancelled, 1);
    metric_add(m->in_flight, (uint64_t)-1);
}
