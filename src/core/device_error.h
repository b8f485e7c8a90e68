/* device_error: subscriptions to errors and the messages published to them (docs/DEVICES.md). A device subscribes with the
 * filter `error/[T]/[D|+]/#` (or `e/...`) at QoS 0 and is told on `error/[T]/[D]/<kind>/<id>/<status>` what happened to a
 * publish of its own that could not be taken. Pure functions, any thread; no memory is allocated. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "core/device_topic.h"

/* A subscription to errors. Views into the filter. */
struct device_error_filter {
    bool is_short;     /* `e`; the topics published to it begin likewise */
    bool is_for_all;   /* `+` as the device: a gateway and all devices it acts for */
    struct str tenant; /* empty: not named */
    struct str device; /* empty: not named, the subscriber itself */
};

/* What happened, to which publish. */
struct device_error {
    enum device_endpoint endpoint; /* of the failed publish; DEVICE_ENDPOINT_NONE is reported as `unknown` */
    bool is_short;                 /* it used the short name */
    struct str device;             /* the device the message was for; empty: the sender's own */
    struct str sender;             /* the device id of the connection; empty: not authenticated */
    struct str tenant;             /* the sender's or, of an unauthenticated one, the topic's */
    struct str correlation_id;     /* the bag's; empty: none */
    uint16_t packet_id;            /* 0: none, a QoS 0 publish */
    int status;                    /* 400, 401, 403, 404, 413, 429, 503 */
    struct str message;            /* a text for people */
    uint64_t time_ms;              /* when, since 1970 */
};

/* Reads a filter. E_NOTFOUND: it does not begin with `error` or `e` as a whole level, so it is another kind of filter.
 * E_INVAL: it does, but is none of the forms above; answer 0x80. The caller checks that the tenant is the client's, that a
 * gateway may act for the device, and that the QoS is 0. */
MUST_USE err device_error_parse_filter(struct str filter, struct device_error_filter *out_filter);

/* Whether the error is to be published to this subscription of the connection that sent the failed publish: the filter names
 * the failed device or, as Hono has it, the sender itself by any of its forms (its id, nothing, or `+`). An error is published
 * to one subscription only; where several match, to one that names the failed device. */
bool device_error_matches(const struct device_error_filter *filter, const struct device_error *error);

/* Writes the topic into `out`, NUL-terminated, and its length to `*out_n`. The id is the correlation id, unless it cannot be
 * one level of a topic (it holds `/`, `+`, `#` or anything utf8_is_plain() refuses), else the packet id, else -1.
 * E_LIMIT: it does not fit into `size` bytes; nothing useful was written. */
MUST_USE err device_error_format_topic(const struct device_error_filter *filter, const struct device_error *error, char *out,
                                       size_t size, size_t *out_n);

/* Writes the JSON body: code, message, timestamp (ISO 8601, UTC, with milliseconds), correlation-id (the bag's, else the packet
 * id, else "-1", always a string). As above. */
MUST_USE err device_error_format_body(const struct device_error *error, char *out, size_t size, size_t *out_n);
