/* manage_input: what the commands over the management interface read from the command line, the environment and files. Main thread. */
#pragma once

#include "main/cli.h"
#include "main/manage_ask.h"

/* Whom to ask and as whom: the flags, else the environment, else the defaults. Texts live as long as both. */
struct manage_ask_options manage_input_whom(const struct cli *cli);

/* Appends a file, `-` is stdin, to `to` (MEM_HTTP). E_IO: it cannot be read; E_LIMIT: over 1 GiB; `ei` says which. Blocks. */
MUST_USE err manage_input_read(const char *path, struct buf *to, struct errinfo *ei);

/* Frees what was read, which may have passwords, and leaves an empty buffer. */
void manage_input_wipe(struct buf *text);
