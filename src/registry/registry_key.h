/* registry_key: under which keys of the registry's table things are (docs/wire/registry.md). Everything is in one partition, since aliases and names
 * of CAs are unique over all tenants. Pure functions, any thread.
 *
 *   t/TENANT                        the tenant
 *   a/ALIAS                         the id of the tenant with this alias
 *   s/HASH/TENANT                   the trust-anchor-group of a tenant that trusts a CA, by the SHA-256 of its name
 *   n/TENANT                        how many devices it has
 *   d/TENANT/DEVICE                 the device
 *   c/TENANT/DEVICE                 its credentials, if it has any
 *   l/TENANT/TYPE/AUTH-ID           the id of the device with these credentials; a long auth-id by its SHA-256
 *   v/HASH/DEVICE                   the device names a gateway in `via`: HASH is the SHA-256 of v/TENANT/GATEWAY
 *   m/HASH/DEVICE                   the device is a member of a group: HASH is the SHA-256 of m/TENANT/GROUP
 *
 * Those that are walked stay below the length from which the table keeps keys by their hash. */
#pragma once

#include "base/str.h"

enum { REGISTRY_KEY_BYTES = 720 };

/* What all keys of the table are kept under, so that one owner decides. */
#define REGISTRY_PARTITION_KEY STR("registry")

struct registry_key {
    size_t n;
    char text[REGISTRY_KEY_BYTES];
};

static inline struct str registry_key_str(const struct registry_key *key)
{
    return (struct str){key->text, key->n};
}

/* Ids are within SCHEMA_MAX_ID_BYTES; a part that is longer, as an auth-id may be, stands there as its SHA-256. An empty last part gives the prefix
 * of all of them. */
struct registry_key registry_key_tenant(struct str tenant);
struct registry_key registry_key_alias(struct str alias);
struct registry_key registry_key_subject(struct str subject_dn, struct str tenant);
struct registry_key registry_key_count(struct str tenant);
struct registry_key registry_key_device(struct str tenant, struct str device);
struct registry_key registry_key_credentials(struct str tenant, struct str device);
struct registry_key registry_key_login(struct str tenant, struct str type, struct str auth_id);
struct registry_key registry_key_via(struct str tenant, struct str gateway, struct str device);
struct registry_key registry_key_member(struct str tenant, struct str group, struct str device);
