/* cloudevent_http: events in HTTP messages, requests and responses alike (CloudEvents HTTP Protocol Binding 1.0.2). Pure functions; any
 * thread. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "proto/cloudevents/cloudevent.h"
#include "proto/http1/http_message.h"

#define CLOUDEVENT_HTTP_JSON "application/cloudevents+json; charset=utf-8"

/* How a message carries events (section 3). */
enum cloudevent_mode {
    CLOUDEVENT_MODE_BINARY, /* attributes in headers; also a message that is no event at all */
    CLOUDEVENT_MODE_STRUCTURED,
    CLOUDEVENT_MODE_BATCH,
    CLOUDEVENT_MODE_OTHER, /* an event in a format other than JSON */
};

/* What a Content-Type says; its parameters and the case of its letters do not count. */
enum cloudevent_mode cloudevent_http_mode(struct str content_type);

/* Reads the one event of a message in binary or structured mode. What is sent percent-encoded or in quotes is decoded, once (section
 * 3.1.3.2); what should be and is not is taken as it stands. Of several headers with one name the first counts. The event has views of
 * headers and body, and what had to be decoded in the arena, which is always used with `sub`.
 * E_INVAL: this is no event; which attribute and why is in `ei`. A batch and other formats are none. */
MUST_USE err cloudevent_http_read(struct arena *a, enum mem_sub sub, const struct http_header *headers, size_t n_headers,
                                  struct str body, struct cloudevent *out_event, struct errinfo *ei);

/* How header values are written. */
enum cloudevent_encoding {
    CLOUDEVENT_ENCODING_PERCENT, /* as section 3.1.3.2 demands */
    CLOUDEVENT_ENCODING_NONE,    /* the value's UTF-8, for receivers that do not decode */
};

/* Appends the headers of an event in binary mode, but for Content-Type (cloudevent_content_type()), as lines of HTTP/1, "ce-id: 1\r\n" and so
 * on, in one piece. `extras` may be NULL. E_NOMEM; nothing was appended. */
MUST_USE err cloudevent_http_write(struct buf *out, enum mem_sub sub, const struct cloudevent *event,
                                   const struct cloudevent_extras *extras, enum cloudevent_encoding encoding);
