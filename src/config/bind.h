/* bind: writes what a tree says into a struct config, row by row of the option table. Main thread. */
#pragma once

#include "base/arena.h"
#include "config/config.h"
#include "config/tree.h"

struct bind_job {
    struct arena *arena; /* of the snapshot: everything written is copied into it */
    const char *file;    /* for messages and relative references */
    struct config_errors *errors;
    bool skips_secrets;
    unsigned *lines; /* OPTION_MAX of them, all zero: where the options outside lists and maps stand */
};

enum {
    BIND_MAX_NAME_BYTES = 128,  /* of tenants and devices: with prefix and endpoint a topic stays under Kafka's 249 */
    BIND_MAX_FILE_BYTES = 4000, /* of a file's path */
};

/* Where a value that came from the command line stands, in messages. */
#define BIND_COMMAND_LINE "command line"

/* The defaults of every option, then the values of `root`, into `out_config`, which is all-zero. What is wrong goes to
 * `job->errors`; the rest is written all the same, so that all errors are found in one run. */
void bind_config(const struct bind_job *job, const struct tree_node *root, struct config *out_config);
