/* authentication_options: whether those whom the configuration has asked about log-ins have URLs that can be used. Main thread. */
#pragma once

#include "config/config.h"

/* E_INVAL: what is wrong has been added to `errors`; `file` is borrowed as long as they are read. */
MUST_USE err authentication_options_check(const struct config *config, const char *file, struct config_errors *errors);
