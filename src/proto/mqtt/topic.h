/* topic: MQTT topic names and topic filters as text: validity and matching.
 *
 * A name is what a PUBLISH carries; a filter is what a SUBSCRIBE carries and may hold wildcards. Pure functions: no
 * allocation, no state, any thread. Cost is linear; text is read once, eight ASCII bytes at a time.
 * Source: MQTT 5.0 section 4.7 (3.1.1 section 4.7 is the same) and 4.8.2. */
#pragma once

#include "base/err.h"
#include "base/str.h"

enum { TOPIC_MAX_BYTES = 65535 }; /* [MQTT-4.7.3-3] */

/* Checks a name and counts its levels, of which `a/b` has two. E_INVAL: empty, over TOPIC_MAX_BYTES, a wildcard
 * [MQTT-4.7.1-1], not UTF-8, U+0000 [MQTT-4.7.3-2], or one of the control characters and non-characters that section 1.5.4
 * lets a server refuse. Any number of levels is valid; a limit is the caller's. */
MUST_USE err topic_check_name(struct str name, uint32_t *out_levels);

/* A filter, taken apart. `$share/sensors/a/+` has the share name `sensors`, the filter `a/+` and two levels; a filter that
 * is not shared has an empty share name. All parts borrow the text. */
struct topic_filter {
    struct str text;   /* as it was sent; what an UNSUBSCRIBE must repeat */
    struct str filter; /* what names are matched against */
    struct str share_name;
    uint32_t levels; /* of `filter` */
};

/* Takes a filter apart and checks it. E_INVAL: as for a name, but `+` may fill a whole level and `#` the whole last level
 * [MQTT-4.7.1-1, 4.7.1-2]; `$share/` not followed by a share name without wildcards, `/` and a filter
 * [MQTT-4.8.2-1, 4.8.2-2]. */
MUST_USE err topic_parse_filter(struct str text, struct topic_filter *out);

/* Whether a valid `filter` (without `$share/`) matches a valid `name`. A leading wildcard does not match a name that
 * starts with `$` [MQTT-4.7.2-1]; `a/#` also matches `a` (section 4.7.1.2). */
bool topic_matches(struct str filter, struct str name);
