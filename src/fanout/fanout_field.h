/* fanout_field: the fields of one level of a fan-out configuration as a table: their names, Knative's among them, their types,
 * ranges and defaults, and where they are kept. Used by fanout_config and its parts; any thread. */
#pragma once

#include <stddef.h>

#include "config/config.h"
#include "config/tree.h"
#include "fanout/fanout_config.h"

enum { FANOUT_FIELD_NAMES = 5 };

struct fanout_isolation;

/* One reading of one text. */
struct fanout_reader {
    struct arena *arena; /* of the snapshot */
    const char *file;    /* for messages */
    struct config_errors *errors;
    const struct fanout_abilities *abilities;
    struct fanout_isolation *isolation; /* NULL: one error is enough to refuse the whole text */
    bool has_https;                     /* found so far */
};

enum fanout_field_type {
    FANOUT_FIELD_CUSTOM,   /* read() does it; told of null as well, as a default */
    FANOUT_FIELD_NODE,     /* const struct tree_node *: for later; NULL when it is null */
    FANOUT_FIELD_TEXT,     /* struct str, `min` to `max` bytes, in the arena */
    FANOUT_FIELD_BOOL,     /* bool */
    FANOUT_FIELD_CHOICE,   /* an enum: the index among `choices`, without regard to case */
    FANOUT_FIELD_NUMBER,   /* uint32_t */
    FANOUT_FIELD_DURATION, /* uint32_t, milliseconds */
    FANOUT_FIELD_SIZE,     /* uint64_t, bytes */
    FANOUT_FIELD_IGNORED,  /* known, means nothing here */
};

struct fanout_field {
    struct str names[FANOUT_FIELD_NAMES]; /* ours first; all mean the same, and only one may be given */
    enum fanout_field_type type;
    size_t offset;
    int64_t min, max;
    int64_t initial; /* the default of a number, duration, size, choice or bool */
    const char *const *choices;
    void (*read)(struct fanout_reader *r, const struct tree_node *node, void *to);
    bool is_needed;     /* there is no doing without it, and null is none */
    const char *schema; /* JSON Schema of what a CUSTOM or NODE is, but for null (fanout_schema.h) */
};

/* Writes the defaults of numbers, durations, sizes, choices and bools below `base`. */
void fanout_field_init(const struct fanout_field *fields, size_t n, void *base);

/* Reads the children of `map` into `base`. What is no field, is given under two names or has a wrong value is told; null puts
 * the default back. `what` is what the level is called in messages. */
void fanout_field_read(struct fanout_reader *r, const struct fanout_field *fields, size_t n, const char *what,
                       const struct tree_node *map, void *base);

/* Tells what is wrong with the value or key of a node. */
void fanout_field_fail(struct fanout_reader *r, const struct tree_node *node, const char *format, ...) PRINTF_LIKE(3, 4);

/* Whether the node is of this kind; told when it is not. */
bool fanout_field_expect(struct fanout_reader *r, const struct tree_node *node, enum tree_kind kind);
