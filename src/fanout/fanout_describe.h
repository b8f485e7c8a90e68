/* fanout_describe: what operators are told about the fan-out's configuration, as JSON with a line feed at its end. Appends to buffers
 * of MEM_HTTP. The main thread. E_NOMEM: part of it may have been written. */
#pragma once

#include "fanout/fanout_control.h"

/* Which configuration holds and how the last reload went. */
MUST_USE err fanout_describe_config(struct buf *out, const struct fanout_control *control);

/* A snapshot in numbers. */
MUST_USE err fanout_describe_snapshot(struct buf *out, const struct fanout_snapshot *snapshot);

/* Its channels and subscriptions. */
MUST_USE err fanout_describe_channels(struct buf *out, const struct fanout_snapshot *snapshot);

/* Why a change was refused; `generation` is that of what was last put. */
MUST_USE err fanout_describe_refusal(struct buf *out, const struct config_errors *errors, uint64_t generation);
