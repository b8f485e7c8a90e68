/* command_id: the request id by which a device answers a command: it carries the correlation id itself, so that the answer may come to any
 * instance, also one of Eclipse Hono (docs/wire/commands.md):
 *
 *   one digit of flags, two hex digits with the length of the correlation id in UTF-16 units, the correlation id, what follows of it
 *
 * The flags' bits 1 and 2 say which messaging system the command came by: 1 is Kafka; whatever follows the correlation id is not
 * used with it. Pure functions, any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

enum {
    COMMAND_ID_UNITS_MAX = 255,
    COMMAND_ID_BYTES = 3 + 3 * COMMAND_ID_UNITS_MAX, /* of the longest request id that is written */
};

/* Whether a correlation id can be part of a request id: 1 to COMMAND_ID_UNITS_MAX UTF-16 units of UTF-8 without control characters and
 * without `/`, `+` and `#`, which would break topics and paths. */
bool command_id_is_legal(struct str correlation_id);

/* Writes the request id of a legal correlation id; returns its length, at most COMMAND_ID_BYTES. */
size_t command_id_write(struct str correlation_id, char to[COMMAND_ID_BYTES]);

/* Reads one as a device sent it. False: it has not this form, or was not given by Kafka. `*out_correlation_id` is a view. */
bool command_id_read(struct str request_id, struct str *out_correlation_id);
