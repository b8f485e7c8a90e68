/* rule_options: from the configuration's rules to the table that serves them (core/rule_table.h), with every error told by file,
 * line and path. Main thread. */
#pragma once

#include "config/config.h"
#include "core/rule_table.h"

/* Builds the table of `config`, and checks the rules of `to_mqtt` as well. The caller owns one reference to `*out_table`, written only on success. E_INVAL: what is wrong
 * has been added to `errors`; `file` is borrowed as long as they are read. */
MUST_USE err rule_options_make(const struct config *config, const char *file, struct rule_table **out_table,
                               struct config_errors *errors);
