/* fanout_parked: `millrace fanout parked`: what is parked in a running fan-out, from the command line. */
#pragma once

#include "main/cli.h"

/* Prints to stdout and stderr. The exit status: 0: done; 1: the fan-out says no; 2: it could not be asked. Blocks. */
int fanout_parked_run(const struct cli *cli);
