/* fanout_route: which channel a request is for, and until when its sender waits. Pure functions; any thread. */
#pragma once

#include "fanout/fanout_snapshot.h"
#include "proto/http1/http_message.h"

/* The channel: of the path `/namespace/name`, whose last slash does not count; of the Host when the path is `/`. 0 and the channel; 400: path
 * or host are none of these; 404: there is no such channel; 503: its
 * definition is wrong, and it is left out until that is mended. */
uint16_t fanout_route_find(const struct fanout_snapshot *snapshot, const struct http_request *request,
                           const struct fanout_channel **out_channel);

/* How long the sender is ready to wait, as it says with `Prefer: wait=SECONDS` (RFC 7240 section 4.3); else, and at most, `limit_ms`. */
uint64_t fanout_route_wait_ms(const struct http_request *request, uint64_t limit_ms);
