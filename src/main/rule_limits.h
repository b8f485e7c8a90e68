/* rule_limits: what a reload cannot change about rules. A topic keeps the time limit (`timeout`) with which its first record was
 * written: Kafka's client takes no other for it as long as the process runs. Main thread. */
#pragma once

#include "config/config.h"
#include "core/rule_table.h"

/* Whether every topic that rules of `before` may write has the same limit in `after`, the table of `config`. E_INVAL: each action
 * that has another has been added to `errors`; `file` is borrowed as long as they are read. */
MUST_USE err rule_limits_check(const struct rule_table *before, const struct rule_table *after, const struct config *config,
                               const char *file, struct config_errors *errors);
