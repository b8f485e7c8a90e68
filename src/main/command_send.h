/* command_send: the command `millrace command send`: a command to a device as an application writes it, and what came of it. */
#pragma once

#include "main/cli.h"

/* Runs it; returns the exit status. */
int command_send_run(const struct cli *cli);
