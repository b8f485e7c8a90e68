#include "http/http_client_metrics.h"

#include <stdio.h>

#include "base/check.h"

static const char *const failures[HTTP_CLIENT_FAILURES] = {
    [HTTP_CLIENT_FAILED_NAME] = "name",
    [HTTP_CLIENT_FAILED_CONNECT] = "connect",
    [HTTP_CLIENT_FAILED_TIMEOUT] = "timeout",
    [HTTP_CLIENT_FAILED_CLOSED] = "closed",
    [HTTP_CLIENT_FAILED_RESPONSE] = "response",
    [HTTP_CLIENT_FAILED_SIZE] = "too_large",
    [HTTP_CLIENT_FAILED_TLS] = "tls",
    [HTTP_CLIENT_FAILED_MEMORY] = "no_memory",
    [HTTP_CLIENT_FAILED_CANCELLED] = "cancelled",
};
static const char *const classes[HTTP_CLIENT_CLASSES] = {"2xx", "3xx", "4xx", "5xx"};

/* In the order of the pointers of struct http_client_metrics. */
static const struct metric singles[] = {
    {.name = "millrace_http_client_requests_total", .help = "Requests taken.", .kind = METRIC_COUNTER},
    {.name = "millrace_http_client_requests_in_flight",
     .help = "Requests that wait for a connection or their response.",
     .kind = METRIC_GAUGE},
    {.name = "millrace_http_client_refused_total",
     .help = "Requests not taken because too many waited for the same server.",
     .kind = METRIC_COUNTER},
    {.name = "millrace_http_client_retries_total",
     .help = "Requests sent again because the server had closed a kept-alive connection.",
     .kind = METRIC_COUNTER},
    {.name = "millrace_http_client_connects_total", .help = "Connections begun.", .kind = METRIC_COUNTER},
    {.name = "millrace_http_client_connections_open", .help = "Connections open or being opened.", .kind = METRIC_GAUGE},
};

static struct metric *add(struct http_client_metrics *m, size_t *n, struct metric metric, const char *client, const char *label,
                          const char *value)
{
    char *labels = m->labels[*n];

    if (label)
        snprintf(labels, sizeof m->labels[0], "client=\"%s\",%s=\"%s\"", client, label, value);
    else
        snprintf(labels, sizeof m->labels[0], "client=\"%s\"", client);
    metric.labels = labels;
    m->table[*n] = metric;
    return &m->table[(*n)++];
}

void http_client_metrics_register(struct http_client_metrics *m, const char *client)
{
    struct metric **pointers[] = {&m->requests, &m->in_flight, &m->refused, &m->retries, &m->connects, &m->open};
    size_t n = 0;

    if (m->requests)
        return;
    for (size_t i = 0; i < ARRAY_LEN(singles); i++)
        *pointers[i] = add(m, &n, singles[i], client, NULL, NULL);
    m->responses = &m->table[n];
    for (int i = 0; i < HTTP_CLIENT_CLASSES; i++)
        add(m, &n,
            (struct metric){.name = "millrace_http_client_responses_total",
                            .help = "Responses by class of status.",
                            .kind = METRIC_COUNTER},
            client, "class", classes[i]);
    m->failures = &m->table[n];
    for (int i = 0; i < HTTP_CLIENT_FAILURES; i++)
        add(m, &n,
            (struct metric){.name = "millrace_http_client_failures_total",
                            .help = "Requests that got no response, by reason.",
                            .kind = METRIC_COUNTER},
            client, "reason", failures[i]);
    ASSERT(n == HTTP_CLIENT_METRICS);
    metrics_register(m->table, n);
}
