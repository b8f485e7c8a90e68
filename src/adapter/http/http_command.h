/* http_command: a request that waits for a command (docs/wire/http.md): it subscribes before its own message goes to Kafka, so that a command
 * sent in answer to that finds it, and ends with the first command or when its time is up. One thread. */
#pragma once

#include "adapter/http/http_edge.h"
#include "adapter/http/http_intake.h"
#include "command/command_port.h"
#include "registry/principal.h"

/* Owned by the request. All-zero does not wait. */
struct http_command_wait {
    struct command_subscriber subscriber;
    struct timer timer;
    struct list link; /* in edge->listening */
    struct http_edge *edge;
    struct command *command; /* NULL: none has come */
    void (*on_ready)(struct http_command_wait *wait);
    void (*on_done)(struct http_command_wait *wait);
    bool is_timed; /* http_command_listen() was called */
    bool is_done;  /* nothing more will come */
};

/* Subscribes for the device that the request is about. on_ready is called when a command can find it, or when it turned out that none will
 * (is_done is set then); later, once, on_done. Never inside this call. */
void http_command_begin(struct http_command_wait *wait, struct http_edge *edge, const struct http_intake *in,
                        const struct principal *who);

/* The request's own message is stored: from now on it waits for so long. False: it is done already, and on_done is not called. */
MUST_USE bool http_command_listen(struct http_command_wait *wait, uint32_t ttd_s);

/* Stops waiting: nothing is called any more. Returns the command, if there is one, for the caller to give back. */
struct command *http_command_end(struct http_command_wait *wait);

/* The time of all that wait is up. */
void http_command_hurry(struct http_edge *edge);
