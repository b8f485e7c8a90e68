#include "obs/process_metrics.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "obs/metrics.h"
#include "obs/obs_log.h"

/* A value of 0 where the system does not tell: a scrape must not fail for it. */

static double read_resident_bytes(void *context)
{
    FILE *f = fopen("/proc/self/statm", "re");
    unsigned long size = 0, resident = 0;

    (void)context;
    if (!f)
        return 0;
    if (fscanf(f, "%lu %lu", &size, &resident) != 2)
        resident = 0;
    fclose(f);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static double read_open_fds(void *context)
{
    DIR *d = opendir("/proc/self/fd");
    double n = -3; /* ".", ".." and the descriptor that reads */

    (void)context;
    if (!d)
        return 0;
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static double read_max_fds(void *context)
{
    struct rlimit limit;

    (void)context;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? (double)limit.rlim_cur : 0;
}

static double read_cpu_seconds(void *context)
{
    struct timespec t;

    (void)context;
    return clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) == 0 ? (double)t.tv_sec + (double)t.tv_nsec / 1e9 : 0;
}

static double read_start_time(void *context)
{
    return *(const double *)context;
}

static double read_one(void *context)
{
    (void)context;
    return 1;
}

static double read_memory(void *context)
{
    return (double)mem_used(*(const enum mem_sub *)context);
}

static double read_lines_lost(void *context)
{
    (void)context;
    return (double)obs_log_lost();
}

static double read_lines_suppressed(void *context)
{
    (void)context;
    return (double)obs_log_suppressed();
}

static double start_time;

static struct metric process_table[] = {
    {.name = "process_resident_memory_bytes", .help = "Resident memory.", .kind = METRIC_GAUGE, .read = read_resident_bytes},
    {.name = "process_open_fds", .help = "Open descriptors.", .kind = METRIC_GAUGE, .read = read_open_fds},
    {.name = "process_max_fds", .help = "The limit of descriptors.", .kind = METRIC_GAUGE, .read = read_max_fds},
    {.name = "process_cpu_seconds_total", .help = "Processor time.", .kind = METRIC_COUNTER, .read = read_cpu_seconds},
    {.name = "process_start_time_seconds",
     .help = "When the process started, in seconds since 1970.",
     .kind = METRIC_GAUGE,
     .read = read_start_time,
     .context = &start_time},
    {.name = "millrace_build_info",
     .labels = "version=\"" MILLRACE_VERSION "\"",
     .help = "Always 1; the version is in the label.",
     .kind = METRIC_GAUGE,
     .read = read_one},
    {.name = "millrace_log_lines_lost_total",
     .help = "Log lines for which there was no room because the reader was slow.",
     .kind = METRIC_COUNTER,
     .read = read_lines_lost},
    {.name = "millrace_log_lines_suppressed_total",
     .help = "Log lines held back by the rate limit of their call site.",
     .kind = METRIC_COUNTER,
     .read = read_lines_suppressed},
};

static struct metric memory_table[MEM_SUBS];
static enum mem_sub memory_subs[MEM_SUBS];
static char memory_labels[MEM_SUBS][40];

static void register_memory(void)
{
    for (int i = 0; i < MEM_SUBS; i++) {
        memory_subs[i] = (enum mem_sub)i;
        snprintf(memory_labels[i], sizeof memory_labels[i], "subsystem=\"%s\"", mem_sub_name((enum mem_sub)i));
        memory_table[i] = (struct metric){.name = "millrace_memory_used_bytes",
                                          .labels = memory_labels[i],
                                          .help = "Bytes held by a part of the process.",
                                          .kind = METRIC_GAUGE,
                                          .read = read_memory,
                                          .context = &memory_subs[i]};
    }
    metrics_register(memory_table, MEM_SUBS);
}

void process_metrics_register(void)
{
    struct timespec t;

    if (start_time == 0 && clock_gettime(CLOCK_REALTIME, &t) == 0)
        start_time = (double)t.tv_sec + (double)(t.tv_nsec / 1000000) / 1e3;
    metrics_register(process_table, ARRAY_LEN(process_table));
    register_memory();
}

static double read_turns(void *context)
{
    return (double)atomic_load_explicit(&((struct loop *)context)->turns, memory_order_relaxed);
}

static double read_long_turns(void *context)
{
    return (double)atomic_load_explicit(&((struct loop *)context)->long_turns, memory_order_relaxed);
}

void process_metrics_register_loop(struct loop *l, const char *name)
{
    enum { TURNS, LONG_TURNS, N };
    struct metric *table = mem_alloc_zero(MEM_OBS, N * sizeof *table);
    char text[64];
    int n = snprintf(text, sizeof text, "loop=\"%s\"", name);
    char *labels = mem_copy_text(MEM_OBS, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);

    table[TURNS] = (struct metric){.name = "millrace_loop_turns_total",
                                   .labels = labels,
                                   .help = "Turns of an event loop.",
                                   .kind = METRIC_COUNTER,
                                   .read = read_turns,
                                   .context = l};
    table[LONG_TURNS] = (struct metric){.name = "millrace_loop_long_turns_total",
                                        .labels = labels,
                                        .help = "Turns that took more than 10 ms of processor time.",
                                        .kind = METRIC_COUNTER,
                                        .read = read_long_turns,
                                        .context = l};
    metrics_register(table, N);
}
