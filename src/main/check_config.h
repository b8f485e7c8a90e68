/* check_config: the command `millrace check`. Main thread; prints; may block on the disk. */
#pragma once

#include "main/cli.h"

/* Loads the configuration and tells whether it is good: prints `OK` and returns 0, or prints each error as
 * `file:line: message` to stderr and returns 1: the exit status of the process. */
int check_config_run(const struct cli *cli);
