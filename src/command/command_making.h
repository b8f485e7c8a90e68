/* command_making: the names under which the offsets of a topic that are done are kept (routes/routes.h). Kafka tells clients of librdkafka
 * 2.0.2 nothing of a topic that is deleted and made anew under its name; whoever sees its offsets begin again takes another name for the set:
 * the topic's, and behind a slash, which no topic has in its name, how many there were before it. Pure but for what it looks up; any thread. */
#pragma once

#include <stdint.h>

#include "base/str.h"

struct routes;

enum { COMMAND_MAKING_BYTES = 300, COMMAND_MAKINGS_MAX = 1000000 };

struct command_making {
    struct str name;
    char text[COMMAND_MAKING_BYTES];
};

/* The name of a topic's set. `*out` points into itself. */
void command_making_name(struct command_making *out, struct str topic, unsigned making);

/* The topic that a set is of. */
struct str command_making_topic(struct str name);

/* The last making of a topic of which something is known of this partition; 0 if nothing is known of any. */
unsigned command_making_last(struct routes *routes, struct str topic, int32_t partition);

/* Where a reader without a position begins, by the last of them; negative: nothing is known. */
int64_t command_making_first_undone(struct routes *routes, struct str topic, int32_t partition);
