/* device_topic: reads the topic of a device's publish on a listener with Hono's endpoints (docs/DEVICES.md).
 *
 *   telemetry | t, event | e             the device's own data
 *   telemetry/T/D, telemetry//D ...      data of device D, of tenant T or of the sender's tenant
 *   command/[T]/[D]/res/R/S | c ...      the response to request R with status S
 *   .../?name=value&...                  any of them with a property bag (property_bag.h)
 *
 * Any other topic is an ordinary one. Pure functions, any thread; all results are views into the topic. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "core/device_fault.h"

enum device_endpoint {
    DEVICE_ENDPOINT_NONE, /* an ordinary topic */
    DEVICE_ENDPOINT_TELEMETRY,
    DEVICE_ENDPOINT_EVENT,
    DEVICE_ENDPOINT_COMMAND, /* published to: a command response */
    DEVICE_ENDPOINT_ERROR,   /* reserved: only subscribed to, see device_error.h */
    DEVICE_ENDPOINTS,
};

/* Flags for device_topic_parse(). */
enum {
    DEVICE_TOPIC_LONG_NAMES = 1u << 0, /* short endpoint names are none, as in HTTP */
};

struct device_topic {
    enum device_endpoint endpoint;
    bool is_short;          /* the endpoint was given by its short name */
    struct str tenant;      /* empty: the sender's */
    struct str device;      /* empty: the sender itself; never when the tenant is given */
    struct str request_id;  /* of a command response, as received, else empty */
    struct str status_text; /* of a command response, else empty */
    uint16_t status;        /* its value: 200 to 299 or 400 to 599; else 0 */
    struct str path;        /* the topic without the property bag */
    struct str bag;         /* what follows the last `/?`, still encoded; empty: none */
};

/* Whether the first level may name an endpoint; false proves that the topic is an ordinary one. The test for the hot path. */
static inline bool device_topic_may_match(struct str topic)
{
    return topic.n > 0 && (topic.p[0] == 't' || topic.p[0] == 'e' || topic.p[0] == 'c');
}

/* Reads a topic name that is already valid for MQTT, or the path of a request without its leading slash (for HTTP and CoAP:
 * telemetry and event only; their command responses are addressed differently). Ordinary topics give DEVICE_FAULT_NONE with
 * DEVICE_ENDPOINT_NONE; all other fields are then empty.
 *
 * Trailing empty levels count as absent (`t//` is `t`), levels after the last known one are tolerated (docs/DEVICES.md). The
 * fourth level of a response is not looked at. On a fault `*out_topic` is written too: the bag says what to do about it.
 * DEVICE_FAULT_ENDPOINT: the error endpoint. DEVICE_FAULT_NO_DEVICE. Of a response also DEVICE_FAULT_FEW_SEGMENTS,
 * DEVICE_FAULT_REQUEST_ID and DEVICE_FAULT_STATUS. */
MUST_USE enum device_fault device_topic_parse(struct str topic, unsigned flags, struct device_topic *out_topic);

/* The endpoint's long name, as in "telemetry"; "none" for an ordinary topic. Never NULL. */
const char *device_topic_endpoint_name(enum device_endpoint endpoint);
