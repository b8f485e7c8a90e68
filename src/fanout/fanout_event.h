/* fanout_event: an event on its way through a channel: what was read from the sender's message, and what all deliveries share, written
 * once: the header lines of each format and the document of the JSON format. The data is never copied. Internal to fanout/; one
 * thread. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "fanout/fanout_snapshot.h"
#include "proto/cloudevents/cloudevent.h"
#include "proto/http1/http_message.h"

/* The extension attribute that counts the channels an event has passed, in replies too, so that none goes round for ever. */
#define FANOUT_EVENT_HOPS "millracehops"

enum { FANOUT_EVENT_TRACE_BYTES = 55, FANOUT_EVENT_NUMBER_BYTES = 12 };

/* What is sent to somebody, in one format. */
struct fanout_text {
    struct str lines; /* of the header, all but Prefer and traceparent */
    struct str body;
};

struct fanout_event {
    struct cloudevent ce;             /* views into the sender's message and its arena */
    struct cloudevent_attribute hops; /* as it is sent on */
    char hops_text[FANOUT_EVENT_NUMBER_BYTES];
    struct str traceparent; /* as it came; empty: none */
    struct buf common;      /* header lines that go with every format */
    struct buf binary;      /* header lines in binary mode, `common` behind them; empty: not asked for yet */
    struct buf json, json_lines;
};

/* All-zero is an empty one. Empties it for the next event; its buffers are kept. */
void fanout_event_clear(struct fanout_event *event);
void fanout_event_free(struct fanout_event *event);

/* Takes what goes on besides the event itself: of the message's headers those that the channel's lists allow, tracestate and baggage, and
 * the namespace. `ce` is set. E_LIMIT: the event has passed too many channels. E_NOMEM. */
MUST_USE err fanout_event_begin(struct fanout_event *event, const struct fanout_channel *channel,
                                const struct http_header *headers, size_t n_headers);

/* The event as a subscription's format wants it; written at the first call. E_NOMEM. */
MUST_USE err fanout_event_text(struct fanout_event *event, const struct fanout_channel *channel, enum fanout_format format,
                               struct fanout_text *out_text);

/* Appends the lines and, in the JSON format, the document of any event with these extras; `common` are lines that follow. The text has
 * views of the buffers. E_NOMEM. */
MUST_USE err fanout_event_write(struct buf *lines, struct buf *document, const struct cloudevent *ce,
                                const struct cloudevent_extras *extras, const struct fanout_channel *channel,
                                enum fanout_format format, struct str common, struct fanout_text *out_text);

/* Appends those of the headers that the channel's lists let through, as lines. Never those that belong to a connection, to the message's
 * framing, or to us. E_NOMEM. */
MUST_USE err fanout_event_forward(struct buf *lines, const struct fanout_channel *channel, const struct http_header *headers,
                                  size_t n_headers);

/* The line `traceparent` of one attempt: the trace as it came with an identifier of our own as the parent. Writes nothing without a
 * trace. Returns the length. */
enum { FANOUT_EVENT_TRACE_LINE_BYTES = sizeof "traceparent: \r\n" - 1 + FANOUT_EVENT_TRACE_BYTES };
size_t fanout_event_trace_line(const struct fanout_event *event, uint64_t random, char to[FANOUT_EVENT_TRACE_LINE_BYTES]);
