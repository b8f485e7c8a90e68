/* manage_run: `millrace tenant`, `millrace device` and `millrace credentials`: the management interface from the command line. */
#pragma once

#include "main/cli.h"

/* The exit status: 0: done; 1: the registry says no; 2: it could not be asked. Blocks. */
int manage_run(const struct cli *cli);
