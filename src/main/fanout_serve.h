/* fanout_serve: a process that is nothing but the fan-out: no Kafka, no devices. Its life:
 *
 *   STARTING --workers accept--> READY --SIGTERM--> DRAINING --nothing left--> the loop stops
 *
 * In DRAINING /readyz says no, events are taken for fanout.grace more, what was taken is finished within drain_timeout, the rest is
 * answered with 503. A second SIGTERM answers the rest at once. Main thread; only for main/. */
#pragma once

#include "main/cli.h"

/* Runs until a signal; `config` is borrowed, the log runs. Returns the exit status. */
int fanout_serve_run(const struct cli *cli, struct config *config);
