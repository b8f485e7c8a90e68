/* property_bag: the properties a device appends to its publish topic behind the last `/?`, `name=value` separated by `&` and
 * URL-encoded (docs/DEVICES.md). Names are matched without regard to case; of duplicates the first wins; unknown names are
 * ignored, but must be encoded correctly too. `+` is a space, as in a query string. Pure functions, any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "core/device_fault.h"

enum {
    PROPERTY_BAG_SCRATCH_BYTES = 1024, /* enough for every value an honest device sends, all together */
};

/* What the device wants done when its message cannot be taken (docs/DEVICES.md). */
enum property_bag_on_error {
    PROPERTY_BAG_ON_ERROR_DEFAULT,
    PROPERTY_BAG_ON_ERROR_IGNORE,
    PROPERTY_BAG_ON_ERROR_DISCONNECT,
    PROPERTY_BAG_ON_ERROR_SKIP_ACK,
    PROPERTY_BAG_ON_ERRORS,
};

/* All-zero is an empty bag. A property that is absent or has no value is empty. */
struct property_bag {
    struct str content_type;
    struct str correlation_id; /* for reporting errors */
    struct str traceparent;
    struct str tracestate;
    bool has_ttl; /* `hono-ttl` was given; a value that is negative or no number counts as absent */
    uint64_t ttl_s;
    enum property_bag_on_error on_error; /* an unknown value is the default */
};

/* Reads a bag without its `/?`, as device_topic_parse() leaves it in `bag`. Values are views into `raw` where nothing was
 * encoded, else they are decoded into the caller's scratch area of `scratch_bytes`; both must outlive `*out_bag`, which is
 * written only on success. PROPERTY_BAG_SCRATCH_BYTES are enough but for DEVICE_FAULT_BAG_SIZE, `raw.n` always.
 * DEVICE_FAULT_BAG: broken percent-encoding, or a known value that is not plain UTF-8 (base/utf8.h). */
MUST_USE enum device_fault property_bag_parse(struct str raw, char *scratch, size_t scratch_bytes,
                                              struct property_bag *out_bag);
