#include "load_options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/str.h"
#include "load_client.h"

static const char *const mode_names[LOAD_MODES] = {"publish", "fanout", "pairs", "idle", "receive"};

static const struct load_options defaults = {
    .connections = 50,
    .window = 100,
    .qos = 1,
    .size = 100,
    .seconds = 3,
    .dialing = 100,
    .topic = "load/%d",
};

static bool usage(void)
{
    fprintf(stderr, "usage: mqtt_load publish|fanout|pairs|idle|receive --port P [--connections N] [--window N] [--qos 0|1|2] "
                    "[--size BYTES]\n"
                    "  [--seconds N | --count MESSAGES] [--rate MESSAGES/S] [--dialing N] [--keep-alive S] [--server-pid PID]\n"
                    "  [--announce 0|1]\n"
                    "  [--topic T] [--user U] [--password P]     (%%d in topic and user: the number of the connection)\n");
    return false;
}

/* Numbers: where they go and what is allowed. */
struct number {
    const char *name;
    uint64_t *to;
    uint64_t min, max;
};

static bool parse(struct load_options *o, int argc, char **argv)
{
    const struct number numbers[] = {
        {"port", &o->port, 1, UINT16_MAX},
        {"connections", &o->connections, 1, 10000000},
        {"window", &o->window, 1, LOAD_CLIENT_MAX_WINDOW - 1},
        {"qos", &o->qos, 0, 2},
        {"size", &o->size, LOAD_CLIENT_MIN_PAYLOAD, 1 << 20},
        {"seconds", &o->seconds, 1, 86400},
        {"count", &o->count, 1, UINT32_MAX},
        {"rate", &o->rate, 0, 10000000},
        {"dialing", &o->dialing, 1, 4096},
        {"keep-alive", &o->keep_alive, 0, UINT16_MAX},
        {"server-pid", &o->server_pid, 1, UINT32_MAX},
        {"announce", &o->announce, 0, 1},
    };
    const struct {
        const char *name;
        const char **to;
    } texts[] = {{"topic", &o->topic}, {"user", &o->user}, {"password", &o->password}};
    struct option longs[ARRAY_LEN(numbers) + ARRAY_LEN(texts) + 1] = {0};
    int at, c;

    for (size_t i = 0; i < ARRAY_LEN(longs) - 1; i++)
        longs[i] = (struct option){i < ARRAY_LEN(numbers) ? numbers[i].name : texts[i - ARRAY_LEN(numbers)].name,
                                   required_argument, NULL, 'x'};
    while (o->mode < LOAD_MODES && strcmp(argv[1], mode_names[o->mode]) != 0)
        o->mode++;
    optind = 2;
    while ((c = getopt_long(argc, argv, "", longs, &at)) == 'x') {
        if ((size_t)at >= ARRAY_LEN(numbers))
            *texts[(size_t)at - ARRAY_LEN(numbers)].to = optarg;
        else if (!str_to_u64(str_from(optarg), numbers[at].max, numbers[at].to) || *numbers[at].to < numbers[at].min)
            return false;
    }
    return c == -1 && optind == argc && o->mode < LOAD_MODES && o->port && (o->mode != LOAD_RECEIVE || o->count);
}

bool load_options_parse(struct load_options *out, int argc, char **argv)
{
    *out = defaults;
    return (argc >= 2 && parse(out, argc, argv)) || usage();
}

const char *load_options_mode_name(enum load_mode mode)
{
    return mode_names[mode];
}
