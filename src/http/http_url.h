/* http_url: where a request goes, taken apart once (RFC 3986). Pure, any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

/* Views into the text that was parsed. */
struct http_url {
    struct str authority; /* HOST or HOST:PORT as written, for the Host header */
    struct str host;      /* without the brackets of an IPv6 address */
    struct str target;    /* path and query; "/" when there is none */
    uint16_t port;
    bool is_https;
};

/* E_INVAL: `ei` (which may be NULL) says why. User information and fragments have no use here and are refused. */
MUST_USE err http_url_parse(struct str text, struct http_url *out_url, struct errinfo *ei);
