/* http_batch: several messages in one body (docs/wire/http.md): lines of JSON, or CloudEvents' JSON batch. Pure functions. */
#pragma once

#include "adapter/http/http_intake.h"

enum { HTTP_BATCH_MAX_ITEMS = 1000, HTTP_BATCH_DEVICE_BYTES = 256 };

/* Takes the next item off the front of `*rest`, which is the whole body at first and then left alone; so with `*is_first`, true at
 * first. E_OK: `*out_item` is one. E_CLOSED: there are no more. E_INVAL: the body cannot be taken apart. */
MUST_USE err http_batch_next(enum http_intake_form form, struct str *rest, bool *is_first, struct str *out_item);

/* What is wrong with an item, or NULL: of a line that it is no JSON value, of an event that it lacks a required attribute
 * (CloudEvents 1.0 section 3.1). */
const char *http_batch_fault(enum http_intake_form form, struct str item);

/* Whom an item names at `pointer`; empty when it names nobody. `scratch` holds HTTP_BATCH_DEVICE_BYTES and lives as long as the
 * result. False: what stands there is no text, or not the id of a device. */
MUST_USE bool http_batch_device(struct str item, struct str pointer, char *scratch, struct str *out_device);
