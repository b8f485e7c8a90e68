/* rule_template: texts with variables in braces, as a rule has them for topic, key, headers and partition.
 *
 *   plant.{site}        {client_id}        {user_property.trace}        {payload./sensor/id}        a {{literal}} brace
 *
 * Each template is compiled once; the variables of all templates of a rule are numbered together, so that a message's values
 * are looked up once. Values are bytes as they came: keys and headers take them raw, topics through rule_name.h. A compiled
 * template is immutable, any thread; rendering allocates nothing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "core/rule_filter.h"
#include "core/rule_name.h"

enum {
    RULE_TEMPLATE_MAX_PIECES = 64,
    RULE_TEMPLATE_MAX_VARIABLES = 32, /* different ones of one rule */
    RULE_TEMPLATE_NO_VARIABLE = 0xff,
};

enum rule_variable_kind {
    RULE_VARIABLE_CLIENT_ID,
    RULE_VARIABLE_USER,      /* AUTH-ID@TENANT; empty for anonymous clients */
    RULE_VARIABLE_TENANT,    /* never empty */
    RULE_VARIABLE_DEVICE_ID, /* empty for anonymous clients */
    RULE_VARIABLE_TOPIC,
    RULE_VARIABLE_QOS,
    RULE_VARIABLE_SEGMENT,
    RULE_VARIABLE_USER_PROPERTY, /* the first with the name */
    RULE_VARIABLE_PAYLOAD,       /* a field of a JSON payload (payload_field.h) */
    RULE_VARIABLE_KINDS,
};

struct rule_variable {
    enum rule_variable_kind kind;
    uint8_t segment; /* of RULE_VARIABLE_SEGMENT */
    struct str name; /* of a user property, the pointer of a payload's field; else as written */
};

struct rule_variables {
    struct rule_variable items[RULE_TEMPLATE_MAX_VARIABLES];
    size_t n;
};

/* A text and the variable behind it. */
struct rule_piece {
    struct str text;
    uint8_t variable; /* its number, or RULE_TEMPLATE_NO_VARIABLE */
    char stop;        /* the first character behind the variable, if another variable follows later; else 0 */
};

/* All-zero is the empty text. */
struct rule_template {
    struct str text; /* as written */
    struct rule_piece *pieces;
    size_t n_pieces;
};

/* Which variables a template may have: those of a publish (segments from `filter`), or with `filter` NULL those of an event. */
struct rule_scope {
    const struct rule_filter *filter;
};

/* Where parsing failed because of a variable nobody knows; for advice on what was meant. Empty otherwise. */
struct rule_template_error {
    struct errinfo ei;
    struct str unknown; /* borrows the text */
};

/* Compiles `text`, adding to `variables`. E_INVAL: braces that do not match, a variable that is unknown or has no meaning in
 * the scope, a faulty JSON pointer. E_LIMIT: too many pieces or variables. */
MUST_USE err rule_template_parse(struct arena *a, enum mem_sub sub, struct str text, const struct rule_scope *scope,
                                 struct rule_variables *variables, struct rule_template *out_template,
                                 struct rule_template_error *out_error);

/* Whether a template can name a Kafka topic whatever the values are, but for their length, `prefix_bytes` being put before it:
 * its fixed text is legal and not too long, two variables have a text between them that does not begin with `_`, and it
 * cannot become empty, `.` or `..`. E_INVAL with the reason in `ei`. */
MUST_USE err rule_template_check_topic(const struct rule_template *t, const struct rule_variables *variables,
                                       size_t prefix_bytes, struct errinfo *ei);

/* Whether some values make both templates the same text, any value being possible for any variable. */
bool rule_template_can_meet(const struct rule_template *a, const struct rule_template *b);

/* Whether some values make it this text. */
bool rule_template_can_become(const struct rule_template *t, struct str text);

/* Without variables it is always the same text. */
static inline bool rule_template_is_fixed(const struct rule_template *t)
{
    return t->n_pieces == 0 || (t->n_pieces == 1 && t->pieces[0].variable == RULE_TEMPLATE_NO_VARIABLE);
}

/* Its text, if it is fixed. */
static inline struct str rule_template_fixed(const struct rule_template *t)
{
    return t->n_pieces ? t->pieces[0].text : STR("");
}

/* Bytes of the rendered text; `values` are the rule's, by number. */
size_t rule_template_size(const struct rule_template *t, const struct str *values);

/* Renders it raw into `out`, which has room for rule_template_size() bytes. */
void rule_template_write(const struct rule_template *t, const struct str *values, char *out);

/* Renders it as the name of a topic; see rule_name.h. */
void rule_template_write_name(const struct rule_template *t, const struct str *values, struct rule_name *name);

/* The name of fixed variable number `i` as it is written, for advice and for the manual; empty past the last one. */
struct str rule_template_variable_name(size_t i);

/* Whether a segment may not be called so, because a variable is. */
bool rule_template_is_variable(struct str name);
