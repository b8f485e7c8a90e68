/* table_metrics: what a table counts (label table="registry"). At every moment: writes of all results + waiting ones = those
 * asked. */
#pragma once

#include "obs/metrics.h"

enum table_count {
    TABLE_WRITES_ACCEPTED,
    TABLE_WRITES_REFUSED,
    TABLE_WRITES_TIMEOUT,
    TABLE_WRITES_BUSY,
    TABLE_WRITES_TOO_LARGE,
    TABLE_WRITES_CLOSED,
    TABLE_WRITES_FAILED,
    TABLE_WRITES_WAITING,
    TABLE_BATCHES,
    TABLE_BATCHES_FENCED,
    TABLE_BATCHES_FAILED,
    TABLE_APPLIED,
    TABLE_SKIPPED,
    TABLE_REBUILDS,
    TABLE_LAG,
    TABLE_OWNED,
    TABLE_COUNTS
};

struct table_metrics {
    char name[32];
    struct metric table[TABLE_COUNTS];
    char labels[TABLE_COUNTS][64];
};

/* The set of a table, registered when its name is new. The main thread. */
const struct table_metrics *table_metrics_of(const char *name);

static inline void table_metrics_add(const struct table_metrics *m, enum table_count count, uint64_t n)
{
    metric_add(&m->table[count], n);
}
