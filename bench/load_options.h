/* load_options: the command line of mqtt_load. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum load_mode { LOAD_PUBLISH, LOAD_FANOUT, LOAD_PAIRS, LOAD_IDLE, LOAD_RECEIVE, LOAD_MODES };

struct load_options {
    enum load_mode mode;
    uint64_t port, connections, window, qos, size; /* bytes of a payload */
    uint64_t seconds, count;                       /* how long to publish, or with a count how much */
    uint64_t rate;                                 /* messages a second, 0: as fast as the window allows */
    uint64_t dialing;                              /* connections under way at a time */
    uint64_t keep_alive, server_pid;
    uint64_t announce;                   /* 1: tells when everybody is connected */
    const char *topic, *user, *password; /* %d in the first two is the number of the connection */
};

/* Fills `out`, or prints how it is used and returns false. The texts are argv's. */
bool load_options_parse(struct load_options *out, int argc, char **argv);

const char *load_options_mode_name(enum load_mode mode);
