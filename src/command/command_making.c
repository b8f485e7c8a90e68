#include "command/command_making.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "routes/routes.h"

void command_making_name(struct command_making *out, struct str topic, unsigned making)
{
    int n = making ? snprintf(out->text, sizeof out->text, "%.*s/%u", STR_ARG(topic), making)
                   : snprintf(out->text, sizeof out->text, "%.*s", STR_ARG(topic));

    ASSERT(n > 0 && n < COMMAND_MAKING_BYTES); /* a topic has 249 bytes at most */
    out->name = (struct str){out->text, (size_t)n};
}

struct str command_making_topic(struct str name)
{
    const char *slash = memchr(name.p, '/', name.n);

    return slash ? (struct str){name.p, (size_t)(slash - name.p)} : name;
}

static int64_t first_undone(struct routes *routes, struct str topic, int32_t partition, unsigned making)
{
    struct command_making set;

    command_making_name(&set, topic, making);
    return routes_first_undone(routes, set.name, partition);
}

unsigned command_making_last(struct routes *routes, struct str topic, int32_t partition)
{
    unsigned making = 0;

    while (making < COMMAND_MAKINGS_MAX && first_undone(routes, topic, partition, making + 1) >= 0)
        making++;
    return making;
}

int64_t command_making_first_undone(struct routes *routes, struct str topic, int32_t partition)
{
    return first_undone(routes, topic, partition, command_making_last(routes, topic, partition));
}
