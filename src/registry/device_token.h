/* device_token: JSON Web Tokens (RFC 7519) as devices present them instead of a password, by Hono's rules (docs/DEVICES.md): a compact JWS
 * with `typ` JWT, signed with RS, PS or ES by a key among the device's `rpk` credentials, with `iat` and `exp` no more than a day
 * apart. Which device is meant stands in the claims, when `aud` names `hono-adapter` (`tid` the tenant, `sub` the auth id), else
 * in the address it was presented with. Reading proves nothing; only device_token_verify() does. Any thread; verifying takes
 * 0.05 to 0.3 ms of computing. Never logs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum {
    DEVICE_TOKEN_BYTES_MAX = 8 << 10,
    DEVICE_TOKEN_NAME_BYTES = 256, /* of a tenant or an auth id, with a NUL */
    DEVICE_TOKEN_SKEW_S = 600,     /* that clocks may differ by */
    DEVICE_TOKEN_LIFE_S = 24 * 60 * 60,
};

enum device_token_result {
    DEVICE_TOKEN_OK,
    DEVICE_TOKEN_MALFORMED, /* no compact JWS, or its header or claims are no JSON objects */
    DEVICE_TOKEN_ALGORITHM, /* not RS, PS or ES with 256, 384 or 512; `typ` is not JWT; a critical extension */
    DEVICE_TOKEN_CLAIMS,    /* `iat` or `exp` is missing or no number; they are too far apart or the wrong way round */
    DEVICE_TOKEN_NAMES,     /* neither claims nor address say which device */
    DEVICE_TOKEN_EARLY,     /* issued in the future, or not valid yet */
    DEVICE_TOKEN_EXPIRED,
    DEVICE_TOKEN_KEY,       /* the key is none that fits the algorithm, or an RSA key of less than 2,048 bits */
    DEVICE_TOKEN_SIGNATURE, /* it was not signed by this key */
    DEVICE_TOKEN_RESULTS,
};

struct device_token {
    struct str text;                                 /* as presented; borrowed */
    const char *algorithm;                           /* as "ES256" */
    int64_t issued_at_s, expires_at_s, not_before_s; /* since 1970 */
    char tenant[DEVICE_TOKEN_NAME_BYTES], auth_id[DEVICE_TOKEN_NAME_BYTES];
};

/* Whether a password has the form of a compact JWS: three parts of base64url. */
bool device_token_is_one(struct str password);

/* Takes a token apart and checks all but time and signature. `tenant` and `auth_id` are those of the address, empty when it names none;
 * borrowed for the call. */
MUST_USE enum device_token_result device_token_read(struct str text, struct str tenant, struct str auth_id,
                                                    struct device_token *out_token);

/* The tenant and auth id in an MQTT client id with at least three levels: the third and the first from the end; both empty when it has
 * fewer. Views. */
void device_token_names_of_client(struct str client_id, struct str *out_tenant, struct str *out_auth_id);

/* Whether it is valid at this time: DEVICE_TOKEN_OK, _EARLY or _EXPIRED. */
MUST_USE enum device_token_result device_token_check_time(const struct device_token *token, int64_t now_s);

/* Whether it was signed with the private half of `key`, a SubjectPublicKeyInfo in DER: DEVICE_TOKEN_OK, _KEY, _SIGNATURE. */
MUST_USE enum device_token_result device_token_verify(const struct device_token *token, struct str key);

/* Takes as long as device_token_verify() with a key of usual size: for a device that is not there. */
void device_token_verify_nobody(const struct device_token *token);

/* The name of an algorithm that a token may be signed with, for device_token.algorithm; NULL: it is none of them. A constant. */
const char *device_token_find_algorithm(struct str name);

/* The word for logs and metrics, as in "expired". Never NULL. */
const char *device_token_result_name(enum device_token_result result);
