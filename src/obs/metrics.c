#include "obs/metrics.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"

/* Cells of two threads never share a cache line. */
enum { CACHE_LINE = 64, TABLES_MAX = 256 };

static const uint64_t latency_bounds_us[] = {100,    250,    500,    1000,    2500,    5000,    10000,    25000,    50000,
                                             100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000, 30000000, 60000000};
const struct metric_buckets metric_buckets_latency = {latency_bounds_us, ARRAY_LEN(latency_bounds_us), 1e6};

/* One thread's cells. Never freed: the sums must outlive the thread. */
struct cells {
    struct cells *next;
    _Atomic(uint64_t *) noted; /* by metrics_note_thread(): METRIC_CELLS values, made with the first */
    _Alignas(CACHE_LINE) _Atomic(uint64_t) cell[METRIC_CELLS];
};

/* For threads without cells of their own. Cell 0 is nobody's: metrics that were not registered add to it. */
static struct cells common;

_Thread_local _Atomic(uint64_t) *metric_cells = common.cell;

/* Written before threads start, as metrics_register() demands, but for the list of cells. */
static struct {
    struct {
        struct metric *table;
        size_t n;
    } tables[TABLES_MAX];
    size_t n_tables;
    uint32_t n_slots;
    _Atomic(struct cells *) cells;
} registry = {.n_slots = 1};

/* A histogram has a cell for each bucket, the last one included, and behind them its sum. */
static uint32_t n_cells(const struct metric *m)
{
    return m->kind == METRIC_HISTOGRAM ? (uint32_t)m->buckets->n + 2 : 1;
}

void metrics_register(struct metric *table, size_t n)
{
    for (size_t i = 0; i < registry.n_tables; i++)
        if (registry.tables[i].table == table)
            return;
    ASSERT(registry.n_tables < TABLES_MAX);
    for (size_t i = 0; i < n; i++) {
        if (table[i].read)
            continue;
        ASSERT(registry.n_slots + n_cells(&table[i]) <= METRIC_CELLS);
        table[i].slot = registry.n_slots;
        registry.n_slots += n_cells(&table[i]);
    }
    registry.tables[registry.n_tables].table = table;
    registry.tables[registry.n_tables++].n = n;
}

void metrics_attach_thread(void)
{
    struct cells *c;
    char *block;

    if (metric_cells != common.cell)
        return;
    block = mem_alloc_zero(MEM_OBS, sizeof *c + CACHE_LINE);
    c = (struct cells *)(void *)(block + (CACHE_LINE - (uintptr_t)block % CACHE_LINE) % CACHE_LINE);
    c->next = atomic_load(&registry.cells);
    while (!atomic_compare_exchange_weak(&registry.cells, &c->next, c))
        ;
    metric_cells = c->cell;
}

static struct cells *own_cells(void)
{
    return (struct cells *)((uintptr_t)metric_cells - offsetof(struct cells, cell));
}

void metrics_note_thread(void)
{
    struct cells *c = own_cells();
    uint64_t *noted = atomic_load_explicit(&c->noted, memory_order_relaxed);

    if (c == &common)
        return;
    if (!noted)
        noted = mem_alloc(MEM_OBS, METRIC_CELLS * sizeof *noted);
    for (uint32_t i = 0; i < METRIC_CELLS; i++)
        noted[i] = atomic_load_explicit(&c->cell[i], memory_order_relaxed);
    atomic_store_explicit(&c->noted, noted, memory_order_release);
}

static uint64_t noted_value(struct cells *c, uint32_t slot)
{
    const uint64_t *noted = atomic_load_explicit(&c->noted, memory_order_acquire);

    return noted ? noted[slot] : atomic_load_explicit(&c->cell[slot], memory_order_relaxed);
}

/* As sum_of_cells(), from what the threads noted. */
static uint64_t sum_of_noted(uint32_t slot)
{
    uint64_t sum;

    if (slot == 0)
        return 0;
    sum = noted_value(&common, slot);
    for (struct cells *c = atomic_load(&registry.cells); c; c = c->next)
        sum += noted_value(c, slot);
    return sum;
}

static uint64_t sum_of_cells(uint32_t slot)
{
    uint64_t sum;

    if (slot == 0)
        return 0;
    sum = atomic_load_explicit(&common.cell[slot], memory_order_relaxed);
    for (struct cells *c = atomic_load(&registry.cells); c; c = c->next)
        sum += atomic_load_explicit(&c->cell[slot], memory_order_relaxed);
    return sum;
}

int64_t metric_value(const struct metric *m)
{
    uint64_t sum = 0;

    if (m->read)
        return (int64_t)m->read(m->context);
    if (m->kind != METRIC_HISTOGRAM)
        return (int64_t)sum_of_cells(m->slot);
    for (uint32_t i = 0; i <= m->buckets->n && m->slot; i++)
        sum += sum_of_cells(m->slot + i);
    return (int64_t)sum;
}

void metric_observe(const struct metric *histogram, uint64_t value)
{
    const struct metric_buckets *b = histogram->buckets;
    uint32_t bucket = 0;

    if (histogram->slot == 0) /* it was not registered, and cells of others follow the one that is nobody's */
        return;
    while (bucket < b->n && value > b->bounds[bucket])
        bucket++;
    metric_add_to_cell(histogram->slot + bucket, 1);
    metric_add_to_cell(histogram->slot + (uint32_t)b->n + 1, value);
}

/* One bucket has all values up to its bound, those of the buckets before it too. */
static err write_bucket(struct buf *out, const struct metric *m, uint32_t bucket, uint64_t count)
{
    const char *labels = m->labels ? m->labels : "", *comma = m->labels ? "," : "";

    if (bucket == m->buckets->n)
        return buf_printf(out, MEM_OBS, "%s_bucket{%s%sle=\"+Inf\"} %llu\n", m->name, labels, comma, (unsigned long long)count);
    return buf_printf(out, MEM_OBS, "%s_bucket{%s%sle=\"%g\"} %llu\n", m->name, labels, comma,
                      (double)m->buckets->bounds[bucket] / m->buckets->unit, (unsigned long long)count);
}

static err write_histogram(struct buf *out, const struct metric *m)
{
    const char *open = m->labels ? "{" : "", *labels = m->labels ? m->labels : "", *close = m->labels ? "}" : "";
    uint32_t n = (uint32_t)m->buckets->n;
    uint64_t count = 0, sum = m->slot ? sum_of_noted(m->slot + n + 1) : 0;
    err e = E_OK;

    for (uint32_t i = 0; i <= n && e == E_OK; i++) {
        count += m->slot ? sum_of_noted(m->slot + i) : 0;
        e = write_bucket(out, m, i, count);
    }
    if (e == E_OK)
        e = buf_printf(out, MEM_OBS, "%s_sum%s%s%s %.15g\n", m->name, open, labels, close, (double)sum / m->buckets->unit);
    return e == E_OK
               ? buf_printf(out, MEM_OBS, "%s_count%s%s%s %llu\n", m->name, open, labels, close, (unsigned long long)count)
               : e;
}

static err write_value(struct buf *out, const struct metric *m)
{
    const char *open = m->labels ? "{" : "", *labels = m->labels ? m->labels : "", *close = m->labels ? "}" : "";
    double value;

    if (m->kind == METRIC_HISTOGRAM)
        return write_histogram(out, m);
    if (!m->read)
        return buf_printf(out, MEM_OBS, "%s%s%s%s %lld\n", m->name, open, labels, close, (long long)sum_of_noted(m->slot));
    value = m->read(m->context);
    if (isnan(value) || isinf(value))
        return buf_printf(out, MEM_OBS, "%s%s%s%s %s\n", m->name, open, labels, close,
                          isnan(value) ? "NaN" : (value > 0 ? "+Inf" : "-Inf"));
    /* %.17g would write 0.1 as 0.10000000000000001; 15 digits are enough for counts of milliseconds over 30,000 years. */
    return buf_printf(out, MEM_OBS, "%s%s%s%s %.15g\n", m->name, open, labels, close, value);
}

/* Help texts are ours, but a line end or backslash in one would break the format. */
static err write_header(struct buf *out, const struct metric *m)
{
    static const char *const types[] = {
        [METRIC_COUNTER] = "counter", [METRIC_GAUGE] = "gauge", [METRIC_HISTOGRAM] = "histogram"};
    err e = buf_printf(out, MEM_OBS, "# HELP %s ", m->name);

    for (const char *p = m->help ? m->help : ""; *p && e == E_OK; p++) {
        if (*p == '\n')
            e = buf_append(out, MEM_OBS, STR("\\n"));
        else if (*p == '\\')
            e = buf_append(out, MEM_OBS, STR("\\\\"));
        else
            e = buf_append(out, MEM_OBS, (struct str){p, 1});
    }
    if (e != E_OK)
        return e;
    return buf_printf(out, MEM_OBS, "\n# TYPE %s %s\n", m->name, types[m->kind]);
}

static struct metric *metric_at(size_t *table, size_t *i)
{
    while (*table < registry.n_tables && *i >= registry.tables[*table].n) {
        ++*table;
        *i = 0;
    }
    return *table < registry.n_tables ? &registry.tables[*table].table[(*i)++] : NULL;
}

/* All series of one name must stand together, though several tables (of several servers, say) may hold some. With some hundred
 * metrics the square of their number is no matter at a scrape. */
static bool is_first_of_family(const struct metric *m)
{
    size_t table = 0, i = 0;
    const struct metric *other = metric_at(&table, &i);

    while (other != m && strcmp(other->name, m->name) != 0)
        other = metric_at(&table, &i);
    return other == m;
}

static err write_family(struct buf *out, const struct metric *first, size_t table, size_t i)
{
    err e = write_header(out, first);

    for (const struct metric *m = first; m && e == E_OK; m = metric_at(&table, &i))
        if (m == first || strcmp(m->name, first->name) == 0)
            e = write_value(out, m);
    return e;
}

err metrics_write(struct buf *out)
{
    size_t table = 0, i = 0;
    err e = E_OK;

    for (struct metric *m; e == E_OK && (m = metric_at(&table, &i));)
        if (is_first_of_family(m))
            e = write_family(out, m, table, i);
    return e;
}
