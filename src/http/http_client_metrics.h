/* http_client_metrics: what HTTP clients count, one set for each role (label client="mapper"), shared by the clients of all
 * loops. At every moment: requests = responses of all classes + failures of all reasons + in flight. */
#pragma once

#include "obs/metrics.h"

enum http_client_failure {
    HTTP_CLIENT_FAILED_NAME,     /* the host's name has no address */
    HTTP_CLIENT_FAILED_CONNECT,  /* nobody answers at any address */
    HTTP_CLIENT_FAILED_TLS,      /* no TLS with the server, or not with the one that was asked for */
    HTTP_CLIENT_FAILED_TIMEOUT,  /* the request's time limit passed */
    HTTP_CLIENT_FAILED_CLOSED,   /* the server closed before its response was complete */
    HTTP_CLIENT_FAILED_RESPONSE, /* the response breaks the protocol */
    HTTP_CLIENT_FAILED_SIZE,     /* the response is larger than allowed */
    HTTP_CLIENT_FAILED_MEMORY,
    HTTP_CLIENT_FAILED_CANCELLED, /* whoever asked does not want to know any more */
    HTTP_CLIENT_FAILURES,
};

enum { HTTP_CLIENT_CLASSES = 4, HTTP_CLIENT_METRICS = 6 + HTTP_CLIENT_CLASSES + HTTP_CLIENT_FAILURES };

struct http_client_metrics {
    struct metric table[HTTP_CLIENT_METRICS];
    char labels[HTTP_CLIENT_METRICS][64];
    struct metric *requests, *in_flight, *refused, *retries, *connects, *open;
    struct metric *responses; /* [status / 100 - 2] */
    struct metric *failures;  /* [enum http_client_failure] */
};

/* Names and registers the set. It must live as long as the process. Once, before threads start; a no-op when done. */
void http_client_metrics_register(struct http_client_metrics *m, const char *client);
