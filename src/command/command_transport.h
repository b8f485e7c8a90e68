/* command_transport: how a command goes to the instance that has the subscriber, and its result back (docs/adr/0021): by topics
 * (command_topics.c) or by connections (command_link.c). It moves; what is sent twice and what is never answered is the plane's
 * concern. All views are borrowed for the call.
 *
 * Promises. Between two incarnations that live, a request arrives once or several times and in the order of the calls, for each
 * worker that sends; so does a result. To one that is gone it may vanish. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "core/sink.h"

struct command_plane;
struct command_transport;

/* Which command: the place of its record. */
struct command_ticket {
    struct str tenant;
    int32_t partition; /* of hono.command.TENANT */
    int64_t offset;
};

struct command_peer {
    struct str instance;
    uint64_t incarnation;
};

struct command_request {
    struct command_ticket ticket;
    struct command_peer from, to;
    struct str address; /* of the receiver's link, when the transport wants one */
    uint64_t after;     /* the sender had applied the routes up to here; the receiver waits until it has as much */
    uint64_t epoch;     /* of the route that was chosen */
    struct str gateway; /* the route's, if it is a gateway for the device (`via`); empty: the device's own */
    int64_t timestamp_ms;
    struct str key, value; /* the record; `value.p` NULL: null */
    const struct record_header *headers;
    size_t n_headers;
};

struct command_result_message {
    struct command_ticket ticket;
    struct command_peer from, to;
    int result; /* enum command_result */
    int status;
    struct str text;
};

/* What the plane does with what arrives; on the worker that has the ticket's tenant. Views of the call. */
struct command_transport_user {
    struct command_plane *plane;
    void (*on_request)(struct command_plane *plane, const struct command_request *request);
    void (*on_result)(struct command_plane *plane, const struct command_result_message *result);
    /* There is room again at this worker, after an E_AGAIN. */
    void (*on_room)(struct command_plane *plane, unsigned worker);
};

struct command_transport_ops {
    /* From a worker's thread. E_OK: on its way. E_AGAIN: no room now; on_room() comes. E_LIMIT: too large for this transport. E_IO: the
     * peer cannot be reached now: as if it had been lost; ask again when instances change or after a second. */
    err (*send_request)(struct command_transport *transport, unsigned worker, const struct command_request *request);
    err (*send_result)(struct command_transport *transport, unsigned worker, const struct command_result_message *result);
    /* The instances that live have changed; by worker 0's thread. What is kept for others may go. NULL: it does not care. */
    void (*on_instances)(struct command_transport *transport);
    /* Begins to receive, after which the lease may be announced; `ready` to `home` when it does. */
    void (*start)(struct command_transport *transport, struct mail *ready, struct mailbox *home);
    void (*free)(struct command_transport *transport);
};

struct command_transport {
    const struct command_transport_ops *ops;
};
