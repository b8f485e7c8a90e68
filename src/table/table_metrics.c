#include "table/table_metrics.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"

enum { SETS = 16 };

#define WRITES "millrace_table_writes_total"

static const struct {
    const char *label; /* besides the table's */
    struct metric metric;
} rows[TABLE_COUNTS] = {
    [TABLE_WRITES_ACCEPTED] = {"result=\"accepted\"",
                               {.name = WRITES,
                                .help = "Changes asked for by this instance, by result.",
                                .kind = METRIC_COUNTER}},
    [TABLE_WRITES_REFUSED] = {"result=\"refused\"", {.name = WRITES, .kind = METRIC_COUNTER}},
    [TABLE_WRITES_TIMEOUT] = {"result=\"timeout\"", {.name = WRITES, .kind = METRIC_COUNTER}},
    [TABLE_WRITES_BUSY] = {"result=\"busy\"", {.name = WRITES, .kind = METRIC_COUNTER}},
    [TABLE_WRITES_TOO_LARGE] = {"result=\"too_large\"", {.name = WRITES, .kind = METRIC_COUNTER}},
    [TABLE_WRITES_CLOSED] = {"result=\"closed\"", {.name = WRITES, .kind = METRIC_COUNTER}},
    [TABLE_WRITES_FAILED] = {"result=\"failed\"", {.name = WRITES, .kind = METRIC_COUNTER}},
    [TABLE_WRITES_WAITING] = {NULL,
                              {.name = "millrace_table_writes_waiting",
                               .help = "Changes asked for and not answered yet.",
                               .kind = METRIC_GAUGE}},
    [TABLE_BATCHES] = {"result=\"committed\"",
                       {.name = "millrace_table_batches_total",
                        .help = "Batches of changes this instance decided, by how their commit ended.",
                        .kind = METRIC_COUNTER}},
    [TABLE_BATCHES_FENCED] = {"result=\"fenced\"", {.name = "millrace_table_batches_total", .kind = METRIC_COUNTER}},
    [TABLE_BATCHES_FAILED] = {"result=\"failed\"", {.name = "millrace_table_batches_total", .kind = METRIC_COUNTER}},
    [TABLE_APPLIED] = {NULL,
                       {.name = "millrace_table_applied_total", .help = "States applied to the view.", .kind = METRIC_COUNTER}},
    [TABLE_SKIPPED] = {NULL,
                       {.name = "millrace_table_skipped_total",
                        .help = "States passed over: of a later version, or none at all.",
                        .kind = METRIC_COUNTER}},
    [TABLE_REBUILDS] = {NULL,
                        {.name = "millrace_table_rebuilds_total",
                         .help = "Partitions of the view built anew from the log.",
                         .kind = METRIC_COUNTER}},
    [TABLE_LAG] = {NULL,
                   {.name = "millrace_table_lag",
                    .help = "How many offsets of the log the view did not have when the end was last looked at.",
                    .kind = METRIC_GAUGE}},
    [TABLE_OWNED] = {NULL,
                     {.name = "millrace_table_partitions_owned",
                      .help = "Partitions this instance decides for.",
                      .kind = METRIC_GAUGE}},
};

const struct table_metrics *table_metrics_of(const char *name)
{
    static struct table_metrics sets[SETS]; /* metrics live as long as the process */
    size_t i = 0;

    while (i < SETS && sets[i].name[0] && strcmp(sets[i].name, name) != 0)
        i++;
    ASSERT(i < SETS);
    if (sets[i].name[0])
        return &sets[i];
    snprintf(sets[i].name, sizeof sets[i].name, "%s", name);
    for (size_t j = 0; j < TABLE_COUNTS; j++) {
        snprintf(sets[i].labels[j], sizeof sets[i].labels[j], "table=\"%s\"%s%s", name, rows[j].label ? "," : "",
                 rows[j].label ? rows[j].label : "");
        sets[i].table[j] = rows[j].metric;
        sets[i].table[j].labels = sets[i].labels[j];
    }
    metrics_register(sets[i].table, TABLE_COUNTS);
    return &sets[i];
}
