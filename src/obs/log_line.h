/* log_line: one event as one line of text. Pure functions, any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "obs/obs_log.h"

struct log_event {
    uint64_t wall_ms; /* since 1970 */
    enum log_level level;
    enum log_sub sub;
    const char *event;
    const struct log_field *fields;
    size_t n_fields;
    uint64_t suppressed; /* of the same call site, since its last line; 0 is not told */
};

/* Writes the line with its LF, at most OBS_LOG_LINE_BYTES. A field's text is cut at OBS_LOG_FIELD_BYTES (then it ends in
 * "..."); a field that finds no room is left out together with those after it, which truncated=true tells. Returns the
 * length. */
size_t log_line_format(char to[OBS_LOG_LINE_BYTES], enum obs_log_format format, const struct log_event *event);
