/* fanout_write: `millrace fanout write-config`: replaces the channels of a fan-out by those of a file, if they are good. Main thread. */
#pragma once

#include "main/cli.h"

/* Prints to stdout and stderr. Returns the exit status. Blocks on the disk, and on stdin. */
int fanout_write_run(const struct cli *cli);
