/* tenant_document: a tenant as the management interface takes and shows it (docs/REGISTRY.md). Pure functions, any thread. */
#pragma once

#include "registry/schema.h"

extern const struct schema tenant_schema;

/* Checks a tenant and brings it into the form that is stored: certificates of trusted CAs become name, key and validity, their names get one
 * spelling, and those without an id get one. E_INVAL: 400 in `fault`. */
MUST_USE err tenant_document_normalise(json_t *tenant, struct document_fault *fault);

/* The trusted CA with this name; NULL: there is none. */
const json_t *tenant_document_find_ca(const json_t *tenant, struct str subject_dn);
