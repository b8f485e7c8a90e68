/* http_login: who sends a request, by its Authorization header (RFC 7617, RFC 6750). */
#pragma once

#include "adapter/http/http_edge.h"
#include "http/http_exchange.h"
#include "registry/principal.h"

struct registry_wait;

enum { HTTP_LOGIN_PENDING = 1 }; /* no status: it is not known yet, see below */

/* 0: `*out_principal` is the sender and the caller's to release; one without a device is a stranger on a listener that admits
 * them. HTTP_LOGIN_PENDING: to be asked again when the mail of `wait` comes (registry/registry_wait.h). Else the status to answer with,
 * and why in `*out_text`. */
MUST_USE uint16_t http_login_check(const struct http_edge_listener *listener, const struct http_exchange *x,
                                   struct registry_wait *wait, struct principal *out_principal, const char **out_text);
