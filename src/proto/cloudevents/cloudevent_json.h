/* cloudevent_json: events as JSON documents, and batches of them (JSON Event Format for CloudEvents 1.0.2). Data is taken out of
 * its document and put into another as the bytes it consists of, never written anew. Pure functions; any thread. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/jsonr.h"
#include "proto/cloudevents/cloudevent.h"

/* Reads one document. A member that is null is none (section 2.2), but for `data`. Attributes may be strings, integers of 32 bits and
 * booleans; none may be there twice. Version 0.3's datacontentencoding is undone and no attribute of the result. Views of the document,
 * and what had to be decoded in the arena, which is always used with `sub`.
 * E_INVAL: this is no event; why, with attribute or place, is in `ei`. */
MUST_USE err cloudevent_json_read(struct arena *a, enum mem_sub sub, struct str document, struct cloudevent *out_event,
                                  struct errinfo *ei);

/* Appends the event as a document. Bytes whose datacontenttype says JSON and that are JSON become `data` as they are; bytes of a type
 * of text that are UTF-8 become a string; others go in base64. `extras` may be NULL. E_NOMEM; part of it may then have been
 * written. */
MUST_USE err cloudevent_json_write(struct buf *out, enum mem_sub sub, const struct cloudevent *event,
                                   const struct cloudevent_extras *extras);

/* A batch that is being taken apart (section 4). */
struct cloudevent_batch {
    struct jsonr rest;
    size_t n, max;
    bool is_first;
};

/* Begins; at most `max` elements will be taken. E_INVAL: the body is not the beginning of a JSON array. */
MUST_USE err cloudevent_json_begin(struct cloudevent_batch *batch, struct str body, size_t max);

/* The next element, from its first to its last byte, whether it is an event or not: cloudevent_json_read() will tell. E_CLOSED: there
 * are no more and nothing stands behind. E_INVAL: what follows is no JSON. E_LIMIT: there are more than `max`. */
MUST_USE err cloudevent_json_next(struct cloudevent_batch *batch, struct str *out_document);
