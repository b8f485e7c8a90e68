/* http_login: who sends a request, by its Authorization header (RFC 7617). */
#pragma once

#include "adapter/http/http_edge.h"
#include "http/http_exchange.h"
#include "registry/principal.h"

/* 0: `*out_principal` is the sender and the caller's to release; one without a device is a stranger on a listener that admits
 * them. Else the status to answer with, and why in `*out_text`. Bearer tokens are not taken: 401. */
MUST_USE uint16_t http_login_check(const struct http_edge_listener *listener, const struct http_exchange *x,
                                   struct principal *out_principal, const char **out_text);
