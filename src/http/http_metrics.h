/* http_metrics: what HTTP servers count, one set for each role (label server="admin"), shared by the servers of all loops.
 * At rest: requests received = responses of all classes + cancelled + in flight, and connections accepted = closed + open. */
#pragma once

#include "obs/metrics.h"
#include "proto/http1/http1_refusal.h"

enum http_close_reason {
    HTTP_CLOSED_DONE,     /* as the protocol ends a connection */
    HTTP_CLOSED_PEER,     /* the peer left, between requests or inside one */
    HTTP_CLOSED_REFUSED,  /* after a request that was refused */
    HTTP_CLOSED_IDLE,     /* no request for the idle time */
    HTTP_CLOSED_SLOW,     /* head, body or reading of the response took too long */
    HTTP_CLOSED_DRAIN,    /* cut at the end of a drain */
    HTTP_CLOSED_LIMIT,    /* more connections than allowed */
    HTTP_CLOSED_ERROR,    /* network error */
    HTTP_CLOSED_PROTOCOL, /* the peer broke HTTP/2 in a way that ends the connection */
    HTTP_CLOSED_FLOOD,    /* too many HTTP/2 frames that ask for nothing, or streams reset */
    HTTP_CLOSE_REASONS,
};

/* Why a stream of HTTP/2 ended before its response did. */
enum http_reset_reason {
    HTTP_RESET_PEER,      /* the peer has reset it */
    HTTP_RESET_MALFORMED, /* its request breaks a rule */
    HTTP_RESET_REFUSED,   /* more streams than allowed */
    HTTP_RESET_SLOW,      /* the peer does not take the response */
    HTTP_RESET_ERROR,     /* ours: no memory */
    HTTP_RESET_REASONS,
};

enum { HTTP_STATUS_CLASSES = 4 }; /* 2xx to 5xx */

enum { HTTP_METRICS = 6 + HTTP_STATUS_CLASSES + HTTP1_REFUSALS + HTTP_CLOSE_REASONS + HTTP_RESET_REASONS };

struct http_metrics {
    struct metric table[HTTP_METRICS];
    char labels[HTTP_METRICS][64];
    struct metric *received, *cancelled, *in_flight, *accepted, *open,
        *http2;               /* http2: connections that turned out to speak it */
    struct metric *responses; /* [status / 100 - 2] */
    struct metric *refused;   /* [enum http1_refusal]; 0 stands for slow requests, answered with 408 */
    struct metric *closed;    /* [enum http_close_reason] */
    struct metric *reset;     /* [enum http_reset_reason] */
};

/* Names and registers the set. It must live as long as the process. Once, before threads start; a no-op when done. */
void http_metrics_register(struct http_metrics *m, const char *server);

/* A request's head is known, or it is refused; it has got its response, or, with a status of 0, will never get one. */
void http_metrics_count_received(const struct http_metrics *m);
void http_metrics_count_answered(const struct http_metrics *m, uint16_t status);
