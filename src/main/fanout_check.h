/* fanout_check: whether the channels that a configuration of the fan-out names are good, for `millrace check`. Main thread. */
#pragma once

#include "config/config.h"

/* Reads the folder as the process would at its start; E_OK when the configuration has no use for it. E_*: told in `errors`, which refer to
 * memory that lives on. Blocks on the disk. */
MUST_USE err fanout_check(const struct config *config, struct config_errors *errors);
