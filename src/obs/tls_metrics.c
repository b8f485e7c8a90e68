#include "obs/tls_metrics.h"

#include <stdio.h>

#include "base/check.h"
#include "obs/metrics.h"

enum side { SERVER, CLIENT, SIDES };

static struct tls_stats stats[SIDES];
static const char *const side_names[SIDES] = {[SERVER] = "server", [CLIENT] = "client"};

struct tls_stats *tls_metrics_server(void)
{
    return &stats[SERVER];
}

struct tls_stats *tls_metrics_client(void)
{
    return &stats[CLIENT];
}

static double read_count(void *context)
{
    return (double)atomic_load_explicit((atomic_uint_fast64_t *)context, memory_order_relaxed);
}

static double read_level(void *context)
{
    return (double)atomic_load_explicit((atomic_uint *)context, memory_order_relaxed);
}

/* One value of each side. */
static const struct {
    const char *name, *labels, *help;
    size_t offset;
    bool is_level;
} values[] = {
    {"millrace_tls_handshakes_total", "result=\"full\"",
     "TLS handshakes that succeeded: full, or of a resumed session; refused: connections closed because too many were under "
     "way",
     offsetof(struct tls_stats, full), false},
    {"millrace_tls_handshakes_total", "result=\"resumed\"", NULL, offsetof(struct tls_stats, resumed), false},
    {"millrace_tls_handshakes_total", "result=\"refused\"", NULL, offsetof(struct tls_stats, refused), false},
    {"millrace_tls_handshakes_open", NULL, "TLS handshakes under way", offsetof(struct tls_stats, shaking), true},
    {"millrace_tls_connections_open", NULL, "TLS connections, those whose handshake is under way among them",
     offsetof(struct tls_stats, open), true},
    {"millrace_tls_broken_total", NULL, "TLS connections ended after their handshake for a record that was no good",
     offsetof(struct tls_stats, broken), false},
};

enum { VALUES = ARRAY_LEN(values), LABELS_BYTES = 64 };

static struct metric table[SIDES * (VALUES + TLS_FAILURES)];
static char labels[SIDES * (VALUES + TLS_FAILURES)][LABELS_BYTES];

static void add(size_t row, struct metric metric, enum side side, const char *more)
{
    snprintf(labels[row], LABELS_BYTES, "side=\"%s\"%s%s", side_names[side], more ? "," : "", more ? more : "");
    table[row] = metric;
    table[row].labels = labels[row];
}

static size_t add_values(size_t row)
{
    for (size_t i = 0; i < VALUES; i++)
        for (int side = 0; side < SIDES; side++) {
            struct metric metric = {
                .name = values[i].name,
                .help = side == 0 ? values[i].help : NULL,
                .kind = values[i].is_level ? METRIC_GAUGE : METRIC_COUNTER,
                .read = values[i].is_level ? read_level : read_count,
                .context = (char *)&stats[side] + values[i].offset,
            };

            add(row++, metric, (enum side)side, values[i].labels);
        }
    return row;
}

static void add_failures(size_t row)
{
    for (int failure = 0; failure < TLS_FAILURES; failure++)
        for (int side = 0; side < SIDES; side++) {
            struct metric metric = {
                .name = "millrace_tls_failures_total",
                .help = row == SIDES * VALUES ? "TLS handshakes that failed, by reason" : NULL,
                .kind = METRIC_COUNTER,
                .read = read_count,
                .context = &stats[side].failed[failure],
            };
            char reason[LABELS_BYTES / 2];

            snprintf(reason, sizeof reason, "reason=\"%s\"", tls_stats_failure_name((enum tls_failure)failure));
            add(row++, metric, (enum side)side, reason);
        }
}

void tls_metrics_register(void)
{
    add_failures(add_values(0));
    metrics_register(table, ARRAY_LEN(table));
}
