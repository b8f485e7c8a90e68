/* provision: a device that is not there is to be made, because its tenant trusts whoever has issued its certificate, or its gateway, that far. The registry
 * asks for it on the thread that has met it; whoever may change the registry's table does it, and answers (registry_view_use_provisioner()). */
#pragma once

#include <stdbool.h>

#include <jansson.h>

#include "base/err.h"
#include "base/str.h"

struct config_strings;
struct registry_wait;

/* Owned by whoever does it, who frees it. */
struct provision {
    struct registry_wait *wait;         /* of who waits, see provision_answer() */
    struct str tenant, device, gateway; /* gateway empty: the device itself */
    json_t *document, *credentials;     /* of the new device; credentials NULL: none */
    char text[];
};

/* Copies the names and takes the documents. */
struct provision *provision_new(struct str tenant, struct str device, struct str gateway, json_t *document,
                                json_t *credentials);

/* NULL is a no-op. */
void provision_free(struct provision *p);

/* It is done, or refused (E_DENIED, as when another one has made it in the meantime), or it cannot be told now: whoever waits asks again. Once; his
 * thread must still run. */
void provision_answer(struct provision *p, err result);

/* Documents of new devices: one that has come with a certificate; one behind a gateway that is a member of `groups`; the credentials of the first. The
 * caller owns them. */
json_t *provision_device_document(bool is_gateway);
json_t *provision_document_behind(struct str gateway, const struct config_strings *groups);
json_t *provision_certificate_credentials(struct str auth_id);
