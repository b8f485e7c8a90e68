/* device_document: a device or gateway as the management interface takes and shows it (docs/REGISTRY.md). Pure functions, any thread. */
#pragma once

#include "registry/schema.h"

extern const struct schema device_schema;

/* Checks a device and brings it into the form that is stored: via, viaGroups, memberOf and authorities are lists, `status` is left out.
 * E_INVAL: 400 in `fault`. */
MUST_USE err device_document_normalise(json_t *device, struct document_fault *fault);
