#include "registry/device_document.h"

#include "base/check.h"

static const char *const authorities[] = {"auto-provisioning-enabled", NULL};

static const struct schema_member endpoint_members[] = {
    {"uri", SCHEMA_TEXT, SCHEMA_REQUIRED, SCHEMA_URI, 1, 1024,
     .help = "Where commands are sent; {{deviceId}} stands for the device."},
    {"headers", SCHEMA_MAP, .help = "Headers of the request."},
    {"payload-properties", SCHEMA_MAP, .help = "Properties of its body."},
};
static const struct schema endpoint_schema = {"CommandEndpoint", endpoint_members, ARRAY_LEN(endpoint_members)};

static const struct schema_member status_members[] = {
    {"created", SCHEMA_TEXT, 0, SCHEMA_TIME, .help = "When it was registered."},
    {"updated", SCHEMA_TEXT, 0, SCHEMA_TIME, .help = "When it was changed last."},
    {"last-user", SCHEMA_TEXT, .help = "Who changed it last."},
    {"auto-provisioned", SCHEMA_BOOL, .help = "Whether it has registered itself, or a gateway has."},
    {"auto-provisioning-notification-sent", SCHEMA_BOOL, .help = "Whether applications were told of that."},
};
static const struct schema status_schema = {"DeviceStatus", status_members, ARRAY_LEN(status_members)};

static const struct schema_member device_members[] = {
    {"enabled", SCHEMA_BOOL, .help = "If false, it cannot connect and nothing is taken for it. The default is true."},
    {"defaults", SCHEMA_SCALARS, .help = "Headers of its records that the message does not set."},
    {"via", SCHEMA_TEXTS, 0, SCHEMA_DEVICE_ID, 1, SCHEMA_MAX_ID_BYTES, .help = "Gateways that may act for it."},
    {"viaGroups", SCHEMA_TEXTS, 0, SCHEMA_DEVICE_ID, 1, SCHEMA_MAX_ID_BYTES, .help = "Groups whose gateways may act for it."},
    {"memberOf", SCHEMA_TEXTS, 0, SCHEMA_DEVICE_ID, 1, SCHEMA_MAX_ID_BYTES,
     .help = "Groups it belongs to as a gateway. Excludes via and viaGroups."},
    {"authorities", SCHEMA_TEXTS, .choices = authorities, .help = "What it may do as a gateway."},
    {"downstream-message-mapper", SCHEMA_TEXT, .min = 1, .max = 249, .help = "What rewrites its messages, by name."},
    {"upstream-message-mapper", SCHEMA_TEXT, .min = 1, .max = 249, .help = "What rewrites commands, by name."},
    {"command-endpoint", SCHEMA_OBJECT, .of = &endpoint_schema, .help = "Where adapters of other networks send commands."},
    {"ext", SCHEMA_FREE, .help = "Anything."},
    {"status", SCHEMA_OBJECT, SCHEMA_READ_ONLY, .of = &status_schema, .help = "What has become of it. Ignored in requests."},
};
const struct schema device_schema = {"Device", device_members, ARRAY_LEN(device_members)};

static bool has_any(const json_t *device, const char *name)
{
    return json_array_size(json_object_get(device, name)) > 0;
}

/* One text becomes a list of one. */
static void make_list(json_t *device, const char *name)
{
    json_t *value = json_object_get(device, name), *list;

    if (!json_is_string(value))
        return;
    list = json_array();
    ASSERT(list && json_array_append(list, value) == 0);
    document_set(device, name, list);
}

err device_document_normalise(json_t *device, struct document_fault *fault)
{
    static const char *const lists[] = {"via", "viaGroups", "memberOf", "authorities"};
    struct document_place here = document_member(NULL, "memberOf");
    err e = schema_check(&device_schema, device, NULL, fault);

    if (e != E_OK)
        return e;
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        make_list(device, lists[i]);
    if (has_any(device, "memberOf") && (has_any(device, "via") || has_any(device, "viaGroups")))
        return document_refuse(fault, 400, &here, "excludes via and viaGroups: a gateway is behind no other");
    return E_OK;
}
