#include "core/device_fault.h"

#include <assert.h>

#include "base/check.h"

static const struct {
    int status;
    const char *name;
    const char *text;
} faults[] = {
    [DEVICE_FAULT_NONE] = {200, "none", "no fault"},
    [DEVICE_FAULT_ENDPOINT] = {404, "endpoint", "no such endpoint"},
    [DEVICE_FAULT_NO_DEVICE] = {400, "no_device", "topic names a tenant but no device"},
    [DEVICE_FAULT_FEW_SEGMENTS] = {400, "few_segments", "command response topic has too few segments"},
    [DEVICE_FAULT_REQUEST_ID] = {400, "request_id", "command response topic has no request id"},
    [DEVICE_FAULT_STATUS] = {400, "status", "invalid status code in command response topic"},
    [DEVICE_FAULT_BAG] = {400, "property_bag", "malformed property bag"},
    [DEVICE_FAULT_BAG_SIZE] = {400, "property_bag_size", "property bag is too large"},
    [DEVICE_FAULT_EVENT_QOS] = {400, "event_qos", "event with QoS 0"},
    [DEVICE_FAULT_EMPTY_PAYLOAD] = {400, "empty_payload", "empty payload without content type"},
    [DEVICE_FAULT_NOTIFICATION_PAYLOAD] = {400, "notification_payload", "empty notification with a payload"},
    [DEVICE_FAULT_DEFAULTS] = {503, "too_many_defaults", "tenant and device have too many default headers"},
};
static_assert(ARRAY_LEN(faults) == DEVICE_FAULTS, "every fault has a row");

int device_fault_status(enum device_fault fault)
{
    ASSERT((unsigned)fault < DEVICE_FAULTS);
    return faults[fault].status;
}

const char *device_fault_text(enum device_fault fault)
{
    ASSERT((unsigned)fault < DEVICE_FAULTS);
    return faults[fault].text;
}

const char *device_fault_name(enum device_fault fault)
{
    ASSERT((unsigned)fault < DEVICE_FAULTS);
    return faults[fault].name;
}
