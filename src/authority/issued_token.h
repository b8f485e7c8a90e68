/* issued_token: JSON Web Tokens (RFC 7519) that an identity provider has issued for a device (docs/REGISTRY.md): of which issuer and for whom they are, which
 * device they name, how long they hold. Reading proves nothing; only the provider's keys do (key_set.h). Pure, any thread; never logs. */
#pragma once

#include "config/config_authentication.h"
#include "registry/authority.h"
#include "registry/device_token.h"

enum {
    ISSUED_TOKEN_KID_BYTES = 200,
    ISSUED_TOKEN_SKEW_S = 60, /* that the provider's clock may differ by */
};

enum issued_token_result {
    ISSUED_TOKEN_OK,
    ISSUED_TOKEN_FOREIGN, /* it is none, or another issuer's */
    ISSUED_TOKEN_BAD,     /* it is the provider's, or says so, and no good */
};

struct issued_token {
    struct device_token signature; /* `text` and `algorithm` alone, for device_token_verify() */
    char kid[ISSUED_TOKEN_KID_BYTES];
    uint16_t kid_n; /* 0: it names no key */
    int64_t from_s; /* it does not hold before, since 1970 */
    struct authority_answer who;
};

/* Takes it apart and checks all but time and signature. Of the answer in `out` expires_at_s is what the token says. `text` is borrowed as long as
 * `out` is used. */
MUST_USE enum issued_token_result issued_token_read(struct str text, const struct config_jwks *config,
                                                    struct issued_token *out);

/* Whether it holds at this time. */
bool issued_token_holds(const struct issued_token *token, int64_t now_s);
