/* credentials_document: the credentials of a device as the management interface takes and shows them (docs/REGISTRY.md), and what becomes of
 * their secrets on the way:
 *
 *   normalise   checks everything and gives ids to new secrets; passwords are still in it
 *   hash        replaces passwords by their hashes; slow, so on a thread that may take its time. What comes out may be stored
 *   merge       gives secrets that were only named by id what is stored under it (registry_decide.c)
 *   conceal     leaves only what may be shown
 *
 * Pure functions but for the salts and ids, any thread. */
#pragma once

#include "registry/schema.h"

enum credentials_type {
    CREDENTIALS_PASSWORD, /* hashed-password */
    CREDENTIALS_PSK,
    CREDENTIALS_X509,
    CREDENTIALS_RPK,
    CREDENTIALS_SCRAM,
    CREDENTIALS_TYPES,
};

enum { CREDENTIALS_MAX = 50, CREDENTIALS_MAX_SECRETS = 20 };

/* Marks a secret whose id was given here, so that the one who decides knows it for new. Never stored. */
#define CREDENTIALS_NEW_MARK "is-new"

/* Of one type: its name as in JSON, its schema and that of its secrets. */
const char *credentials_document_type_name(enum credentials_type type);
const struct schema *credentials_document_schema(enum credentials_type type);
enum credentials_type credentials_document_find_type(struct str name); /* CREDENTIALS_TYPES: there is none */

/* E_INVAL: 400 in `fault`. `max_cost`: the highest bcrypt cost that is taken from a client. */
MUST_USE err credentials_document_normalise(json_t *credentials, unsigned max_cost, struct document_fault *fault);

/* How many passwords credentials_document_hash() would have to hash. */
size_t credentials_document_plain(const json_t *credentials);

/* Hashes the passwords with 2^`cost` rounds of bcrypt. E_INVAL with a fault: a password that cannot be hashed. */
MUST_USE err credentials_document_hash(json_t *credentials, unsigned cost, struct document_fault *fault);

/* Completes `credentials` by what `stored` (may be NULL) has under the ids of secrets that bring nothing themselves, and takes the marks of new
 * secrets away. E_INVAL: 400, an id that is not there. */
MUST_USE err credentials_document_merge(json_t *credentials, const json_t *stored, struct document_fault *fault);

/* Of normalised credentials that come whole, as from an export: secrets that bring something keep their ids as new ones. */
void credentials_document_adopt(json_t *credentials);

/* Removes what is never shown. */
void credentials_document_conceal(json_t *credentials);

/* Those of a type and auth-id; NULL: there are none. */
const json_t *credentials_document_find(const json_t *credentials, struct str type, struct str auth_id);

/* Whether a secret, or credentials, are enabled and, a secret, valid at that time. */
bool credentials_document_is_valid(const json_t *secret, int64_t now_ms);
