/* store_private: what store.h hides. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <lmdb.h>

#include "store/store.h"

struct store {
    char *path;
    uint64_t max_bytes;
    MDB_env *env;
    int lock_fd; /* held while the directory is ours */
    bool is_open;
    char *damage; /* of the file that was replaced */
};
