/* verify: the rules that concern several options, and what follows from several of them. Main thread. */
#pragma once

#include "base/arena.h"
#include "config/config.h"
#include "config/tree.h"

/* Checks `config` as it was bound from `root` and fills in what the file left to be derived: the auth ids of devices with a
 * password and the log level of each subsystem. What is wrong goes to `errors`. Cost n log n in the devices. */
void verify_config(struct config *config, const struct tree_node *root, const char *file, struct config_errors *errors);
