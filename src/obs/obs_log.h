/* obs_log: the sink behind base/log.h. One event becomes one line, logfmt or JSON, with time (RFC 3339, UTC, milliseconds),
 * level, subsystem, event and fields:
 *
 *     ts=2026-11-29T19:32:00.123Z level=warn sub=broker event=session.takeover client="a b" inflight=3
 *
 * The calling thread formats the line and puts it into a bounded ring; a thread of its own writes whole lines, several at a
 * time, in writes of at most PIPE_BUF bytes. So nobody but that thread waits for a blocked stderr. A line that finds no room
 * is counted and the count is told in a `log.lost` line as soon as there is room again.
 *
 * Each call site may log `burst` lines a second (debug lines are not limited); what was held back is told by `suppressed=N`
 * in the site's next line. Text from peers is escaped: control characters (C1 and bidirectional ones too), quotes, invalid
 * UTF-8. A field longer than OBS_LOG_FIELD_BYTES is cut. There is one sink in a process. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    OBS_LOG_LINE_BYTES = 4096, /* PIPE_BUF: one write of a line never mixes with another process's */
    OBS_LOG_FIELD_BYTES = 512, /* of a field's text, before escaping */
    OBS_LOG_RING_BYTES = 256 * 1024,
    OBS_LOG_BURST = 20,
    OBS_LOG_STOP_MS = 1000, /* how long obs_log_stop() waits for a reader of stderr that does not read */
};

enum obs_log_format { OBS_LOG_LOGFMT, OBS_LOG_JSON };

struct obs_log_options {
    int fd; /* borrowed, usually STDERR_FILENO; its flags are not changed */
    enum obs_log_format format;
    uint32_t ring_bytes; /* 0: OBS_LOG_RING_BYTES */
    uint32_t burst;      /* lines a second for each call site; 0: OBS_LOG_BURST */
};

/* Starts the thread and becomes the process's sink; also flushes when the process aborts (SIGABRT). Call it once, before
 * other threads start; a start after obs_log_stop() is allowed. E_IO with the reason in `ei` (may be NULL): no thread. */
MUST_USE err obs_log_start(const struct obs_log_options *options, struct errinfo *ei);

/* Writes what is in the ring, waiting at most OBS_LOG_STOP_MS for a reader that does not read, and ends the thread. Later
 * lines go nowhere. Any one thread; a no-op when not started. */
void obs_log_stop(void);

/* Waits until every line logged before has been written. For tests and before an exec. May block. */
void obs_log_flush(void);

/* Lines that found no room, and lines held back by the rate limit, since the process started. Any thread. */
uint64_t obs_log_lost(void);
uint64_t obs_log_suppressed(void);
