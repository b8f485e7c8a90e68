/* http_upload: one request with one or more messages, from its handler to its answer (docs/wire/http.md).
 *
 * With QoS 0 every message is given to the sink and the request answered at once; one for which there is no room is refused, never
 * accepted and dropped. With QoS 1 the answer waits for Kafka, and messages without room wait for it first, both together no
 * longer than the limit; then what is undecided is answered with 503. An upload outlives its request until the last delivery
 * report has come: a message that was answered with 503 may be stored all the same.
 *
 *   handler -> submit all -> (wait for room, submit the rest) -> (wait for Kafka) -> answer -> last report -> gone */
#pragma once

#include "adapter/http/http_edge.h"

/* Fills the listener's table; returns how many routes there are. */
size_t http_upload_write_routes(struct http_edge_listener *listener);

/* There may be room for an upload that waits, by its link. False: it waits on. */
bool http_upload_resume(struct list *link);

/* Answers it as when its time is up. */
void http_upload_give_up(struct list *link);
