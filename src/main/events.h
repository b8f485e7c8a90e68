/* events: the command `millrace events`: what the devices of a tenant send, and answer, as it comes to Kafka. */
#pragma once

#include "main/cli.h"

/* Runs it; returns the exit status. */
int events_run(const struct cli *cli);
