/* registry_state: what is in the registry's table, as JSON, by a reader of the thread that asks. States are `{"v", "version", "document" ...}`
 * (docs/wire/registry.md); the caller owns what it gets (json_decref()). A state of a later version of the program counts as absent. */
#pragma once

#include "registry/document.h"
#include "table/table.h"

/* A tenant, a device, its credentials; NULL when there is none. A tenant that is being deleted is none, nor is anything of it. */
json_t *registry_state_tenant(struct table_reader *reader, struct str tenant);
json_t *registry_state_device(struct table_reader *reader, struct str tenant, struct str device);
json_t *registry_state_credentials(struct table_reader *reader, struct str tenant, struct str device);

/* Reads a state as the table has it; NULL: it is of a later version, or being deleted. */
json_t *registry_state_read(struct str value);

/* Whether the tenant is there, without reading all of it. */
bool registry_state_has_tenant(struct table_reader *reader, struct str tenant);

/* Whether some device of the tenant names this one in `via`, or it is the member of a group. `device` is its document. */
bool registry_state_is_gateway(struct table_reader *reader, struct str tenant, struct str id, const json_t *device);

/* What of a state is shown: the document, a device's with its `status`, credentials without what is secret. */
json_t *registry_state_show(const json_t *state);
json_t *registry_state_show_credentials(const json_t *state);

/* The version, for an ETag; empty: none. */
struct str registry_state_version(const json_t *state);
