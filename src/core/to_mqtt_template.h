/* to_mqtt_template: texts with variables in braces, from which a rule makes an MQTT topic (or a tenant) for a record.
 *
 *   in/{device}/{header.kind}        {rest#}        {topic} {key} {partition}        a {{literal}} brace
 *
 * `{name}` is a named group of the rule's patterns. A value fills one level or a part of it, so it must not be empty nor have a
 * `/`; written `{name#}` it may have slashes. No value may have `+`, `#`, or characters that MQTT refuses: a record with such
 * a value is refused rather than changed, because two records must not meet in one topic that were not meant to, and because a
 * wildcard in a name would be somebody's attempt to reach others. A compiled template is immutable, any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum {
    TO_MQTT_TEMPLATE_MAX_PIECES = 32,
    TO_MQTT_TEMPLATE_MAX_BYTES = 4096,
    TO_MQTT_TOPIC_MAX_BYTES = 65535, /* [MQTT-4.7.3-3] */
};

enum to_mqtt_variable {
    TO_MQTT_VARIABLE_NONE,
    TO_MQTT_VARIABLE_GROUP, /* `index` tells which */
    TO_MQTT_VARIABLE_TOPIC,
    TO_MQTT_VARIABLE_KEY,
    TO_MQTT_VARIABLE_PARTITION,
    TO_MQTT_VARIABLE_HEADER, /* `name` */
};

/* A text and the variable behind it. */
struct to_mqtt_piece {
    struct str text;
    struct str name;
    uint8_t variable; /* enum to_mqtt_variable */
    uint8_t index;
    bool takes_levels; /* the value may have slashes */
};

/* All-zero is the empty text. */
struct to_mqtt_template {
    struct to_mqtt_piece *pieces;
    size_t n_pieces;
};

/* Compiles `text` into memory of `a`, which copies what it needs; `groups` are the names of the rule's groups. E_INVAL with
 * the reason in `ei`: braces that do not match, a variable that is unknown, fixed text that no topic may have. E_LIMIT: too
 * long, too many pieces. */
MUST_USE err to_mqtt_template_parse(struct arena *a, struct str text, const struct str *groups, size_t n_groups,
                                    struct to_mqtt_template *out_template, struct errinfo *ei);

/* What a template is filled in with. `value` returns the bytes of a piece's variable, empty when there is none. */
struct to_mqtt_values {
    void *context;
    struct str (*value)(void *context, const struct to_mqtt_piece *piece);
};

/* Appends the text for a record to `out`. E_INVAL: a value may not stand there. E_LIMIT: longer than a topic may be. E_NOMEM. */
MUST_USE err to_mqtt_template_write(const struct to_mqtt_template *t, const struct to_mqtt_values *values, struct buf *out);

/* Whether the topics of the template and an MQTT filter can have one in common; `{name}` in the filter counts as `+`, `{name#}`
 * as `#`. Errs on the side of yes. */
bool to_mqtt_template_can_meet(const struct to_mqtt_template *t, struct str filter);
