/* metrics: what the process counts. Each thread adds to cells of its own with plain stores; a scrape sums them. A module
 * declares its metrics in one table of its own and registers it before threads start; labels are part of the table, so
 * their number is bounded (never a device or client id). Names: millrace_<area>_<thing>_<unit>, counters end in _total. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum { METRIC_CELLS = 4096 };

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

/* The fixed buckets of a histogram. Its name ends in the unit that is shown, `_seconds` or `_bytes`; values are counted in parts of it. */
struct metric_buckets {
    const uint64_t *bounds; /* of each bucket the largest value in it, rising */
    size_t n;               /* without the last bucket, which has all others */
    double unit;            /* how many of what is counted are one of what is shown */
};

/* From 100 microseconds to a minute, counted in microseconds and shown in seconds. */
extern const struct metric_buckets metric_buckets_latency;

struct metric {
    const char *name;
    const char *labels; /* as in the exposition format, `reason="too_large"`; NULL for none */
    const char *help;   /* given by the first of several metrics with the same name */
    enum metric_kind kind;
    const struct metric_buckets *buckets; /* of a histogram */
    /* NULL: summed from the cells. Else asked at each scrape, on the scraping thread: for values somebody else keeps. */
    double (*read)(void *context);
    void *context;
    uint32_t
        slot; /* set by metrics_register(); of a histogram the first of several: a cell for each bucket, and one for the sum */
};

/* The calling thread's cells. A thread without cells of its own shares a common set, with atomic additions still exact
 * enough for tests: attach every thread that counts often. */
extern _Thread_local _Atomic(uint64_t) *metric_cells;

/* Registers a table, which must live as long as the process. The main thread, which scrapes too; other threads may use the
 * metrics once they were told of them by a mailbox or a thread's start. Aborts past METRIC_CELLS. Registering the same table again
 * is a no-op. */
void metrics_register(struct metric *table, size_t n);

/* Gives the calling thread its cells, kept (with their sums) after the thread ends. */
void metrics_attach_thread(void);

/* Adds to one of the calling thread's cells: for this file's functions. */
static inline void metric_add_to_cell(uint32_t slot, uint64_t n)
{
    _Atomic(uint64_t) *cell = &metric_cells[slot];

    atomic_store_explicit(cell, atomic_load_explicit(cell, memory_order_relaxed) + n, memory_order_relaxed);
}

/* Adds to a counter or gauge of the calling thread. A gauge may go down: metric_add(m, (uint64_t)-1). Cost: one add. */
static inline void metric_add(const struct metric *m, uint64_t n)
{
    metric_add_to_cell(m->slot, n);
}

/* Counts a value in a histogram of the calling thread. Cost: a look at each bound up to the value's, and two adds. */
void metric_observe(const struct metric *histogram, uint64_t value);

/* Notes the calling thread's cells as they are, for the next metrics_write(). A thread that does so between two of its handlers
 * shows sums that belong together, though it goes on counting while they are written. */
void metrics_note_thread(void);

/* The sum over all threads, now; of a histogram how many values it has. Any thread. */
int64_t metric_value(const struct metric *m);

/* Writes everything in the Prometheus text format, version 0.0.4: of threads that noted their cells what they noted, of the
 * others what stands there now. Any thread, one at a time, and not while a thread is noting. E_NOMEM. */
MUST_USE err metrics_write(struct buf *out);
