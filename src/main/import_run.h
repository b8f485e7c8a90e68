/* import_run: `millrace import`: tenants and devices of Mosquitto's files and of Hono's exports go to a running process by its management interface. */
#pragma once

#include "main/cli.h"

/* Prints what cannot be carried over and what has failed to stderr as FILE:LINE: TEXT, the sums to stdout. Returns the exit status: 0 everything is there,
 * 1 something is not, 2 the files or the process could not be read or asked; what was done until then stays done, and the command can be
 * given again. Blocks. */
int import_run(const struct cli *cli);
