/* serve: the command `millrace serve`: wires all layers, runs until a signal, and ends in an orderly way. */
#pragma once

#include "main/cli.h"

/* Runs the server that the arguments describe. Blocks; the calling thread becomes the main loop (signals, administration port).
 * Prints one line with every address to stdout when ready, and errors of the configuration to stderr. Returns the exit
 * status: 0 after SIGTERM or SIGINT, 1 when it could not start. */
int serve_run(const struct cli *cli);
