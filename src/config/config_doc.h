/* config_doc: the option table as text, for people. Main thread; writes to the stream and leaves its errors to the caller. */
#pragma once

#include <stdio.h>

/* The whole of docs/CONFIGURATION.md. */
void config_doc_write_manual(FILE *to);

/* Every option on a line, with type and default, for `--help`; or only those that are among `paths`, or below one of them: names with spaces
 * between. NULL: all. */
void config_doc_write_list(FILE *to, const char *paths);
