/* fanout_stateless: requests that bring their own list of subscriptions, for senders that keep the list themselves. Off unless
 * `fanout.stateless.token` is set; every request shows the token, and may only name targets of the allow-list. Two forms:
 *
 *   a CloudEvent as usual, in any mode, with the header      Fanout-Channel: {"subscriptions": [{"subscriber": "http://a/"}]}
 *   Content-Type: application/vnd.millrace.fanout+json       {"channel": {"subscriptions": [...]}, "event": {<CloudEvent>}}
 *
 * The channel has all fields that one of a configuration has (docs/FANOUT.md), but parks nothing. Immutable, any thread; a request of the
 * largest size takes about a millisecond. */
#pragma once

#include "config/config.h"
#include "fanout/fanout_config.h"
#include "proto/http1/http_message.h"

enum { FANOUT_STATELESS_MAX_BYTES = 64 << 10 }; /* of the channel */

struct fanout_stateless;

/* What a request brought. */
struct fanout_stateless_request {
    struct fanout_snapshot *snapshot; /* of one channel, with one reference for the caller */
    struct str event;                 /* of the second form: a CloudEvent in JSON, a view of the body; else its `p` is NULL */
};

/* What is allowed, copied from the configuration. NULL: the mode is off. */
struct fanout_stateless *fanout_stateless_new(const struct config_fanout *config, const struct fanout_abilities *abilities);

/* NULL is a no-op. */
void fanout_stateless_free(struct fanout_stateless *s);

/* Whether a request has one of the two forms. Then it is for fanout_stateless_take() alone, even when the mode is off. */
bool fanout_stateless_is_meant(const struct http_request *request);

/* Checks and reads. Returns 0, or the status to answer with, with the reason in `ei`: 403 the mode is off (`s` is NULL) or a target is
 * not allowed, 401 without the token, 413 the channel is too large, 400 it is invalid. */
MUST_USE uint16_t fanout_stateless_take(const struct fanout_stateless *s, const struct http_request *request,
                                        struct fanout_stateless_request *out_request, struct errinfo *ei);
