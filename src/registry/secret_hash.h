/* secret_hash: what is kept of passwords: bcrypt, or SHA-256 and SHA-512 of salt and password as clients of Hono compute them, the entries of
 * Mosquitto's password files, and keys of SCRAM-SHA-256 (RFC 5802, RFC 7677). No state; any thread, but bcrypt, Mosquitto's and SCRAM take tens of
 * milliseconds, so they belong to a thread that may. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

enum {
    SECRET_HASH_BCRYPT_BYTES = 61, /* with a NUL */
    SECRET_HASH_COST_MIN = 4,
    SECRET_HASH_COST_MAX = 16,
    SECRET_HASH_PASSWORD_MAX = 72, /* bytes; bcrypt looks at no more */
    SECRET_HASH_SCRAM_BYTES = 32,
    SECRET_HASH_TEXT_BYTES = 256,         /* of any hash as text, with a NUL */
    SECRET_HASH_ITERATIONS_MAX = 1 << 18, /* of PBKDF2: a fifth of a second */
};

/* From SECRET_HASH_BCRYPT on they are slow on purpose, and their texts have the salt in them. */
enum secret_hash_function {
    SECRET_HASH_SHA_256,
    SECRET_HASH_SHA_512,
    SECRET_HASH_BCRYPT,
    SECRET_HASH_MOSQUITTO,
    SECRET_HASH_FUNCTIONS,
};

/* "sha-256", "sha-512", "bcrypt", "mosquitto"; SECRET_HASH_FUNCTIONS for another name. */
enum secret_hash_function secret_hash_find(struct str name);
const char *secret_hash_name(enum secret_hash_function function);

/* Hashes a password with a fresh salt and 2^`cost` rounds into `to` ("$2a$10$..."). E_INVAL: the password has a NUL. */
MUST_USE err secret_hash_bcrypt(struct str password, unsigned cost, char to[SECRET_HASH_BCRYPT_BYTES]);

/* The cost of a bcrypt hash of the form `$2a$CC$` and 53 characters. E_INVAL: it is none, as those of other variants. */
MUST_USE err secret_hash_bcrypt_cost(struct str hash, unsigned *out_cost);

/* Checks an entry of a password file of Mosquitto: `$6$SALT$HASH`, SHA-512 of password and salt, or `$7$ITERATIONS$SALT$HASH`, PBKDF2 (RFC 8018)
 * with HMAC-SHA-512; salt (12 or 64 bytes) and hash (64) are base64. E_INVAL: it is neither. E_LIMIT: over SECRET_HASH_ITERATIONS_MAX. */
MUST_USE err secret_hash_check_mosquitto(struct str text);

/* Whether `hash` is that of `salt` and `password`; of the slow ones the salt is in the hash, and `hash` ends with a NUL that is not counted. The time
 * tells nothing but the function and its cost. */
bool secret_hash_matches(enum secret_hash_function function, struct str salt, struct str hash, struct str password);

/* Derives the keys of SCRAM-SHA-256. E_IO: OpenSSL fails. */
MUST_USE err secret_hash_scram(struct str password, struct str salt, unsigned iterations,
                               unsigned char stored_key[SECRET_HASH_SCRAM_BYTES],
                               unsigned char server_key[SECRET_HASH_SCRAM_BYTES]);
