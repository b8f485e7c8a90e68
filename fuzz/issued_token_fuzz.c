/* issued_token_fuzz: whatever a client presents as a token of the identity provider, reading ends with a result, and one that is good names a tenant and a device
 * within the bounds. The first byte says how long the header is; both parts are encoded here, so that the fuzzer reaches what is inside. */
#include <stdint.h>
#include <string.h>

#include "authority/issued_token.h"
#include "base/check.h"
#include "fuzz_base64url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try(struct str text)
{
    static struct str audience = STR_INIT("us");
    static const struct config_jwks config = {.issuer = STR_INIT("i"),
                                              .audience = {&audience, 1},
                                              .tenant_claim = STR_INIT("tid"),
                                              .device_claim = STR_INIT("/d/id")};
    struct issued_token token;

    if (issued_token_read(text, &config, &token) != ISSUED_TOKEN_OK)
        return;
    ASSERT(device_token_is_one(text) && token.signature.algorithm && token.kid_n <= sizeof token.kid);
    ASSERT(token.who.tenant_n > 0 && token.who.tenant_n <= sizeof token.who.tenant);
    ASSERT(token.who.device_n > 0 && token.who.device_n <= sizeof token.who.device);
    ASSERT(token.who.expires_at_s > 0 && token.from_s >= 0);
    (void)issued_token_holds(&token, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[4096];
    size_t head = size ? data[0] : 0, n;

    try((struct str){(const char *)data, size});
    if (size < 2 || size > 2048 || head > size - 1)
        return 0;
    n = fuzz_base64url(text, data + 1, head);
    text[n++] = '.';
    n += fuzz_base64url(text + n, data + 1 + head, size - 1 - head);
    memcpy(text + n, ".AAAA", 5);
    try((struct str){text, n + 5});
    return 0;
}
