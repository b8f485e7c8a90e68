/* mapper_options: whether the configuration's mappers have URLs that can be used, and whether every mapper that a tenant, a device or
 * a rule names is there. Main thread. */
#pragma once

#include "config/config.h"

/* E_INVAL: what is wrong has been added to `errors`; `file` is borrowed as long as they are read. */
MUST_USE err mapper_options_check(const struct config *config, const char *file, struct config_errors *errors);
