/* http_intake: what a request to the HTTP adapter says: whom it is about, and its headers and query parameters (docs/wire/http.md). Pure functions. */
#pragma once

#include "core/device_topic.h"
#include "core/property_bag.h"
#include "core/trace_context.h"
#include "http/http_exchange.h"

enum { HTTP_INTAKE_SCRATCH_BYTES = 1024, HTTP_INTAKE_TTD_MAX_S = 60 };

enum http_intake_form {
    HTTP_INTAKE_SINGLE,      /* the body is one message */
    HTTP_INTAKE_LINES,       /* one JSON value a line */
    HTTP_INTAKE_CLOUDEVENTS, /* a JSON array of events */
};

/* Views into the request and into itself: never copied, and valid as long as the request is. */
struct http_intake {
    enum device_endpoint endpoint;
    enum http_intake_form form;
    struct str tenant, device; /* of the path, decoded; empty: the sender's, the sender */
    struct str request_id;     /* of a response to a command */
    int status;                /* the same: what the device says of it; 0: nothing that is a status */
    uint32_t ttd_s;            /* how long it waits for a command; 0: it does not */
    struct str address;        /* as the records' orig_address has it */
    struct str content_type;
    struct str pointer; /* where an item of a batch names its device; empty: nowhere */
    struct trace_context trace;
    struct property_bag bag;
    uint8_t qos;
    size_t used; /* of the scratch area */
    char scratch[HTTP_INTAKE_SCRATCH_BYTES];
};

/* Which endpoint a path leads to, telemetry, event or command: of the routes there is no other. */
enum device_endpoint http_intake_endpoint(struct str path);

/* Reads all of it; `out` need not be initialised. 0, or the status to answer with: 404 for a path that is none, 400 for
 * anything else, and why in `*out_text`; its endpoint is set in any case. */
MUST_USE uint16_t http_intake_read(const struct http_request *r, struct http_intake *out, const char **out_text);
