/* How long a configuration of the fan-out takes to become a snapshot, which happens beside the request path.
 *
 *     fan_build SUBSCRIPTIONS ROUNDS
 *
 * Channels of 100 subscriptions each, with a URL, a dead-letter target and two filters, one of them an expression. Prints one line of
 * JSON: the median of the rounds in processor time and the size of the text. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/buf.h"
#include "fanout/fanout_config.h"

enum { IN_A_CHANNEL = 100, MAX_ROUNDS = 1000 };

static void give_up(unsigned line, const char *why)
{
    fprintf(stderr, "fan_build: line %u: %s\n", line, why);
    exit(1);
}

static double processor_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void write_text(struct buf *text, unsigned n)
{
    err e = buf_append(text, MEM_CONFIG, STR("channels:\n"));

    for (unsigned i = 0; i < n && e == E_OK; i++) {
        if (i % IN_A_CHANNEL == 0)
            e = buf_printf(text, MEM_CONFIG, "- namespace: default\n  name: c%u\n  subscriptions:\n", i / IN_A_CHANNEL);
        if (e == E_OK)
            e = buf_printf(
                text, MEM_CONFIG,
                "  - subscriber: http://s%u.default.svc.cluster.local:8080/events\n    dead_letter: http://dls.default/\n"
                "    filters:\n    - exact: {type: com.example.t%u}\n    - sql: EXISTS subject AND source LIKE '/plant/%%'\n",
                i, i % IN_A_CHANNEL);
    }
    if (e != E_OK)
        give_up(0, "memory");
}

static double build(struct str text)
{
    static struct config_errors errors;
    static const struct fanout_abilities abilities = {false, false};
    struct fanout_snapshot *snapshot;
    double began = processor_ms(), took;

    if (fanout_config_build(text, "text", 1, &abilities, &snapshot, &errors) != E_OK)
        give_up(errors.items[0].line, errors.items[0].text);
    took = processor_ms() - began;
    fanout_snapshot_unref(snapshot);
    return took;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    double times[MAX_ROUNDS];
    struct buf text = {0};
    uint64_t n, rounds;

    if (argc != 3 || !str_to_u64(str_from(argv[1]), 1000000, &n) || !str_to_u64(str_from(argv[2]), MAX_ROUNDS, &rounds) ||
        rounds == 0)
        give_up(0, "usage: fan_build SUBSCRIPTIONS ROUNDS");
    write_text(&text, (unsigned)n);
    for (uint64_t i = 0; i < rounds; i++)
        times[i] = build(buf_str(&text));
    qsort(times, rounds, sizeof *times, compare);
    printf("{\"subscriptions\": %lu, \"text_bytes\": %zu, \"processor_ms\": %.2f}\n", n, buf_size(&text), times[rounds / 2]);
    buf_free(&text, MEM_CONFIG);
    return 0;
}
