/* value: the text forms of single values and back. Pure functions, any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum { VALUE_TEXT_BYTES = 32 };

/* Each parses the whole of `s` and writes only on success. */

/* `true` or `false`. */
bool value_to_bool(struct str s, bool *out_value);

/* A decimal integer, with a sign if negative, that an int64_t holds. */
bool value_to_number(struct str s, int64_t *out_value);

/* Bytes: a whole number, plain or with B, KiB, MiB or GiB. */
bool value_to_size(struct str s, int64_t *out_bytes);

/* Milliseconds: a whole number with ms, s, m, h or d; 0 needs no unit. */
bool value_to_duration(struct str s, int64_t *out_ms);

/* HOST:PORT, the host a name, an IPv4 address or an IPv6 address in brackets; `*out_host` is the part of `s` without them.
 * Port 0 is allowed. */
bool value_to_address(struct str s, struct str *out_host, uint16_t *out_port);

/* Whether only this machine reaches the host: a loopback address, or the name of one. */
bool value_is_loopback(struct str host);

/* The shortest exact form, as in "64KiB" and "1h", into `buffer`, which holds VALUE_TEXT_BYTES. Returns the text, in
 * `buffer` or constant. */
const char *value_size_text(int64_t bytes, char *buffer);
const char *value_duration_text(int64_t ms, char *buffer);
