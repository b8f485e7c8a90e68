/* The rows of manage_call.h's table: what the management interface can do, in the order of Hono's API. */
#include "admin/manage_call.h"
#include "base/check.h"

#define FAILURES(...)                                                                                                          \
    (const uint16_t[])                                                                                                         \
    {                                                                                                                          \
        __VA_ARGS__, 0                                                                                                         \
    }

const struct manage_operation manage_operations[] = {
    {HTTP_METHOD_POST, "/v1/tenants", "createTenant", "tenants", "Registers a tenant and gives it an id.", true,
     MANAGE_BODY_TENANT, 0, 201, FAILURES(409, 413, 415), manage_write_run, REGISTRY_TENANT_CREATE},
    {HTTP_METHOD_POST, "/v1/tenants/{tenantId}", "createTenantWithId", "tenants", "Registers a tenant.", true,
     MANAGE_BODY_TENANT, 0, 201, FAILURES(409, 413, 415), manage_write_run, REGISTRY_TENANT_CREATE},
    {HTTP_METHOD_GET, "/v1/tenants", "searchTenants", "tenants", "Finds tenants.", false, MANAGE_BODY_NONE, MANAGE_PAGES, 200,
     FAILURES(404), manage_search_run, REGISTRY_OPS},
    {HTTP_METHOD_GET, "/v1/tenants/{tenantId}", "getTenant", "tenants", "Shows a tenant.", false, MANAGE_BODY_NONE, 0, 200,
     FAILURES(404), manage_read_tenant, REGISTRY_OPS},
    {HTTP_METHOD_PUT, "/v1/tenants/{tenantId}", "updateTenant", "tenants", "Puts another description in a tenant's place.",
     true, MANAGE_BODY_TENANT, MANAGE_IF_MATCH, 204, FAILURES(404, 409, 412, 413, 415), manage_write_run,
     REGISTRY_TENANT_UPDATE},
    {HTTP_METHOD_DELETE, "/v1/tenants/{tenantId}", "deleteTenant", "tenants",
     "Removes a tenant with its devices and their credentials.", true, MANAGE_BODY_NONE, MANAGE_IF_MATCH, 204,
     FAILURES(404, 412), manage_write_run, REGISTRY_TENANT_DELETE},

    {HTTP_METHOD_POST, "/v1/devices/{tenantId}", "createDeviceRegistration", "devices",
     "Registers a device and gives it an id.", true, MANAGE_BODY_DEVICE, 0, 201, FAILURES(404, 409, 413, 415), manage_write_run,
     REGISTRY_DEVICE_CREATE},
    {HTTP_METHOD_POST, "/v1/devices/{tenantId}/{deviceId}", "createDeviceRegistrationWithId", "devices", "Registers a device.",
     true, MANAGE_BODY_DEVICE, 0, 201, FAILURES(404, 409, 413, 415), manage_write_run, REGISTRY_DEVICE_CREATE},
    {HTTP_METHOD_GET, "/v1/devices/{tenantId}", "searchDevicesForTenant", "devices", "Finds devices.", false, MANAGE_BODY_NONE,
     MANAGE_PAGES | MANAGE_GATEWAYS, 200, FAILURES(404), manage_search_run, REGISTRY_OPS},
    {HTTP_METHOD_GET, "/v1/devices/{tenantId}/{deviceId}", "getRegistration", "devices", "Shows a device.", false,
     MANAGE_BODY_NONE, 0, 200, FAILURES(404), manage_read_device, REGISTRY_OPS},
    {HTTP_METHOD_PUT, "/v1/devices/{tenantId}/{deviceId}", "updateRegistration", "devices",
     "Puts another description in a device's place.", true, MANAGE_BODY_DEVICE, MANAGE_IF_MATCH, 204,
     FAILURES(404, 412, 413, 415), manage_write_run, REGISTRY_DEVICE_UPDATE},
    {HTTP_METHOD_DELETE, "/v1/devices/{tenantId}/{deviceId}", "deleteRegistration", "devices",
     "Removes a device with its credentials.", true, MANAGE_BODY_NONE, MANAGE_IF_MATCH, 204, FAILURES(404, 412),
     manage_write_run, REGISTRY_DEVICE_DELETE},
    {HTTP_METHOD_DELETE, "/v1/devices/{tenantId}", "deleteDevicesOfTenant", "devices",
     "Removes all devices of a tenant with their credentials.", true, MANAGE_BODY_NONE, 0, 204, FAILURES(404), manage_write_run,
     REGISTRY_DEVICES_DELETE},

    {HTTP_METHOD_GET, "/v1/credentials/{tenantId}/{deviceId}", "getAllCredentials", "credentials",
     "Shows a device's credentials, without what is secret.", false, MANAGE_BODY_NONE, 0, 200, FAILURES(404),
     manage_read_credentials, REGISTRY_OPS},
    {HTTP_METHOD_PUT, "/v1/credentials/{tenantId}/{deviceId}", "setAllCredentials", "credentials",
     "Puts other credentials in the place of a device's.", true, MANAGE_BODY_CREDENTIALS, MANAGE_IF_MATCH, 204,
     FAILURES(404, 409, 412, 413, 415), manage_write_run, REGISTRY_CREDENTIALS_UPDATE},

    {HTTP_METHOD_POST, "/v1/import/{tenantId}", "importDevices", "bulk", "Registers many devices.", true, MANAGE_BODY_LINES, 0,
     200, FAILURES(404, 413), manage_import_run, REGISTRY_OPS},
    {HTTP_METHOD_GET, "/v1/export/{tenantId}", "exportDevices", "bulk", "Shows many devices.", false, MANAGE_BODY_NONE,
     MANAGE_CHUNK, 200, FAILURES(404), manage_export_run, REGISTRY_OPS},

    {HTTP_METHOD_GET, "/v1/openapi.json", "getOpenAPI", "description", "This document.", false, MANAGE_BODY_NONE, MANAGE_OPEN,
     200, FAILURES(404), manage_openapi_run, REGISTRY_OPS},
};

const size_t manage_operation_count = ARRAY_LEN(manage_operations);
