/* completion: scripts for shells that complete `millrace` at the keyboard, made of the same table of commands and flags as the parser and --help. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "main/cli.h"

/* Prints the script for `bash`, `zsh` or `fish`. False: there is none for that shell, and nothing is printed. */
bool completion_write(FILE *to, const char *shell);

/* `millrace completion`: prints it to stdout. Returns the exit status. */
int completion_run(const struct cli *cli);
