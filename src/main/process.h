/* process: what every serving process sets up, whatever it serves. Main thread. */
#pragma once

#include "config/config.h"
#include "loop/worker.h"

/* A connection is a descriptor: takes all that the system allows. */
void process_raise_descriptors(void);

/* Blocks SIGTERM, SIGINT and SIGHUP for all threads that start from now on, ignores SIGPIPE, and has the three read from a descriptor: `on_io`
 * finds struct signalfd_siginfo at it. The descriptor is the caller's to close. E_IO: the reason is in `ei`. */
MUST_USE err process_watch_signals(struct loop *l, struct io *signals, void (*on_io)(struct io *io, uint32_t events),
                                   struct errinfo *ei);

/* Makes data_dir if it is missing; its parent must be there. E_IO: the reason is in `ei`. */
MUST_USE err process_make_data_dir(const struct config *config, struct errinfo *ei);

/* How many workers the configuration asks for. */
unsigned process_worker_count(const struct config *config);

/* Prepares the workers, and registers what is measured of the process and of its loops. E_IO: the reason is in `ei`. */
MUST_USE err process_init_workers(struct workers *ws, const struct config *config, struct loop *main_loop, struct errinfo *ei);
