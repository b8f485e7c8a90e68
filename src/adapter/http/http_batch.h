/* http_batch: several messages in one body (docs/wire/http.md): lines of JSON, or CloudEvents' JSON batch. Pure functions. */
#pragma once

#include "adapter/http/http_intake.h"
#include "proto/cloudevents/cloudevent_json.h"

enum { HTTP_BATCH_MAX_ITEMS = 1000, HTTP_BATCH_DEVICE_BYTES = 256 };

/* A body that is being taken apart. */
struct http_batch {
    enum http_intake_form form;
    struct cloudevent_batch events;
    struct str rest;
    bool is_done;
};

/* Begins. E_INVAL: the body is no batch. */
MUST_USE err http_batch_begin(struct http_batch *batch, enum http_intake_form form, struct str body);

/* The next item. E_CLOSED: there are no more. E_INVAL: the body cannot be taken apart. E_LIMIT: there are more than
 * HTTP_BATCH_MAX_ITEMS. */
MUST_USE err http_batch_next(struct http_batch *batch, struct str *out_item);

/* Whether an item is what its form promises: a line a JSON value, an event a CloudEvent. E_INVAL: why not is in `ei`. */
MUST_USE err http_batch_check(enum http_intake_form form, struct str item, struct errinfo *ei);

/* Whom an item names at `pointer`; empty when it names nobody. `scratch` holds HTTP_BATCH_DEVICE_BYTES and lives as long as the
 * result. False: what stands there is no text, or not the id of a device. */
MUST_USE bool http_batch_device(struct str item, struct str pointer, char *scratch, struct str *out_device);
