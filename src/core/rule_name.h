/* rule_name: puts the name of a Kafka topic together from fixed text and from values that clients choose, so that every result
 * is legal and different values give different names.
 *
 * In a value a letter, digit, `.` and `-` stand for themselves, `_` becomes `__`, every other byte `_xx`, its two hexadecimal
 * digits. Two more bytes are written as `_xx`, because otherwise two lists of values could meet or a name be no name:
 *   the first character of the fixed text that ends the value, where another value follows behind it ("{a}.{b}": a dot in a);
 *   a dot as long as the name has nothing but dots (`.` and `..` are no topics).
 * Fixed text is written as it is. Pure functions, any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

enum { RULE_NAME_MAX_BYTES = 249 }; /* Kafka's bound */

/* A name being written. All-zero but for `max_bytes` is ready. */
struct rule_name {
    size_t n;
    size_t max_bytes; /* at most RULE_NAME_MAX_BYTES; less where a prefix will be put before it */
    bool is_too_long; /* something did not fit; the text is then of no use */
    bool has_other;   /* than dots */
    char text[RULE_NAME_MAX_BYTES];
};

/* Appends fixed text, which has only what Kafka allows (rule_name_is_legal()). */
void rule_name_add_text(struct rule_name *name, struct str text);

/* Appends a value. `stop`: the character that ends it, where another value follows, else 0. */
void rule_name_add_value(struct rule_name *name, struct str value, char stop);

static inline struct str rule_name_str(const struct rule_name *name)
{
    return (struct str){name->text, name->n};
}

/* Whether `text` has only letters, digits, `.`, `_` and `-`. */
bool rule_name_is_legal(struct str text);
