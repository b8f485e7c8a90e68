/* table_log_local: the log of an instance that stands alone, in two databases and an index of a store of its own. It keeps
 * itself compact: of each key only the last state is there, and of removed ones the last thousand removals. Requests need
 * not survive: who asked is gone with the process. */
#pragma once

#include "base/err.h"
#include "core/table_log.h"

struct store;

/* Opens the log of a table in a store, which it makes when it is missing. `name` is the table's. E_INVAL: there is one with
 * another number of partitions, or of a later version, which is left alone; else as store.h. The caller owns `*out_log`, and
 * closes it after the table and before the store. The main thread. */
MUST_USE err table_log_local_open(struct store *store, const char *name, unsigned n_partitions, struct table_log **out_log,
                                  struct errinfo *ei);
void table_log_local_close(struct table_log *log);
