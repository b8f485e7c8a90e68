/* device_fault: why a device's message cannot be taken, as Hono tells it: a status and a short text. Returned by the parsers
 * and builders of device data in this folder. Pure data, any thread. */
#pragma once

enum device_fault {
    DEVICE_FAULT_NONE,
    DEVICE_FAULT_ENDPOINT,             /* 404: nobody may publish there */
    DEVICE_FAULT_NO_DEVICE,            /* 400: a tenant but no device */
    DEVICE_FAULT_FEW_SEGMENTS,         /* 400: a command response without request id or status */
    DEVICE_FAULT_REQUEST_ID,           /* 400: an empty request id */
    DEVICE_FAULT_STATUS,               /* 400: a response status that is no number in 200 to 299 or 400 to 599 */
    DEVICE_FAULT_BAG,                  /* 400: broken percent-encoding, or not plain UTF-8 once decoded */
    DEVICE_FAULT_BAG_SIZE,             /* 400: decoded values larger than the scratch area */
    DEVICE_FAULT_EVENT_QOS,            /* 400: an event with QoS 0 */
    DEVICE_FAULT_EMPTY_PAYLOAD,        /* 400: neither payload nor content type */
    DEVICE_FAULT_NOTIFICATION_PAYLOAD, /* 400: an empty notification that is not empty */
    DEVICE_FAULT_DEFAULTS,             /* 503: tenant and device have more default headers than a record takes */
    DEVICE_FAULTS,
};

/* The status of docs/DEVICES.md: 400, 404 or 503; 200 for DEVICE_FAULT_NONE. */
int device_fault_status(enum device_fault fault);

/* A short text for the device, as in "event with QoS 0". Never NULL. */
const char *device_fault_text(enum device_fault fault);

/* The name as the `reason` label of metrics and in logs, as in "event_qos". Never NULL. */
const char *device_fault_name(enum device_fault fault);
