/* to_mqtt_pattern: a regular expression of a rule, with bounds on what a match may cost, so that nobody's key can hold up a
 * worker. The only files that know PCRE2. Compiled patterns are immutable, any thread; the room for a match belongs to one. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct to_mqtt_pattern;
struct to_mqtt_match;

/* Compiles. The caller owns `*out_pattern`. E_INVAL with the reason and the place in `ei`. */
MUST_USE err to_mqtt_pattern_new(struct str text, struct to_mqtt_pattern **out_pattern, struct errinfo *ei);
void to_mqtt_pattern_free(struct to_mqtt_pattern *pattern);

/* The named groups, in the order of their numbers; the names live as long as the pattern. */
size_t to_mqtt_pattern_count_groups(const struct to_mqtt_pattern *pattern);
struct str to_mqtt_pattern_group(const struct to_mqtt_pattern *pattern, size_t i);

/* Room for the result of matching this pattern. */
struct to_mqtt_match *to_mqtt_pattern_new_match(const struct to_mqtt_pattern *pattern);
void to_mqtt_pattern_free_match(struct to_mqtt_match *match);

/* Matches `subject`; the texts of the named groups, views into it and empty where a group took no part, go to `out_groups`.
 * E_NOTFOUND: no match. E_LIMIT: it costs too much. E_NOMEM. */
MUST_USE err to_mqtt_pattern_match(const struct to_mqtt_pattern *pattern, struct to_mqtt_match *match, struct str subject,
                                   struct str *out_groups);
