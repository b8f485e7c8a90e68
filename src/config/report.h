/* report: collects what is wrong with a configuration, for a person. Main thread. */
#pragma once

#include "config/config.h"

/* Adds an error at `file` and `line` (0: unknown), or counts it when `errors` is full. `file` is borrowed as long as the
 * errors are read. Bytes that would disturb a terminal are replaced by `?`. */
void report_error(struct config_errors *errors, const char *file, unsigned line, const char *format, ...) PRINTF_LIKE(4, 5);

/* What may be shown of a value that is wrong: its first bytes. For `%.*s` with STR_ARG(). */
struct str report_excerpt(struct str value);
