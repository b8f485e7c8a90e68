/* process_metrics: what the process as a whole shows at a scrape: resident memory, descriptors, processor time, start time,
 * version, memory by subsystem, log lines lost, and the turns of each loop. All are read when asked. Main thread. */
#pragma once

#include "loop/loop.h"

/* Registers them. Once, before threads start. */
void process_metrics_register(void);

/* Registers `millrace_loop_turns_total` and `millrace_loop_long_turns_total` with the label loop="<name>" (copied). The loop
 * lives as long as there are scrapes. Before threads start. */
void process_metrics_register_loop(struct loop *l, const char *name);
