/* command_memory: which commands a worker was asked to deliver, by the place of their records: those under way, and for some time what came of
 * those that are over. So a command that is passed on twice is delivered once. All-zero is valid and empty. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "base/str.h"
#include "command/command_transport.h"

enum { COMMAND_MEMORY_MAX = 100 * 1000, COMMAND_MEMORY_MS = 5 * 60 * 1000 };

struct command;

struct command_item {
    struct command_ticket ticket;
    int64_t timestamp_ms;    /* of the record: one with the same place in a topic made anew is another */
    struct list by_age;      /* of those that are over */
    struct list reply;       /* its result is to be sent */
    struct command *waiting; /* this instance's own, in its lane, that waits for the result; NULL: none does */
    struct command *served;  /* what is under way; NULL: it is over */
    char *asker;             /* the instance that waits for the result, the newest that asked; NULL: none does */
    uint64_t asker_incarnation;
    uint64_t after; /* the routes up to here were known to it */
    uint64_t over_at_ms;
    int result, status; /* when it is over: enum command_result */
    const char *text;   /* static */
    uint64_t hash;
    char tenant[];
};

struct command_memory {
    struct map items;
    struct list by_age; /* initialised by the first that is over */
    size_t n_over;
    size_t max;           /* 0: COMMAND_MEMORY_MAX */
    uint64_t n_forgotten; /* before their time, for want of room */
};

/* NULL: not known. */
struct command_item *command_memory_find(struct command_memory *m, const struct command_ticket *ticket, int64_t timestamp_ms);

/* One that is not there and is under way from now on. Owned by the memory. */
struct command_item *command_memory_add(struct command_memory *m, const struct command_ticket *ticket, int64_t timestamp_ms);

/* Who asks, in place of whoever asked before. */
void command_memory_set_asker(struct command_item *item, const struct command_peer *asker);

/* It is over and remembered for a while; the oldest go. `item` stays until the next call. */
void command_memory_keep(struct command_memory *m, struct command_item *item, uint64_t now_ms);

/* It is not remembered. */
void command_memory_remove(struct command_memory *m, struct command_item *item);

void command_memory_fini(struct command_memory *m);
