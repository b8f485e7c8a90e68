/* device_token_fuzz: whatever a client presents as a token, and whatever its header and claims say, reading ends with a result, and only
 * one that names a device within the bounds is good; nothing is ever signed by the key that is tried. The first byte says how long the
 * header is; both parts are encoded here, so that the fuzzer reaches what is inside. */
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "fuzz_base64url.h"
#include "registry/device_token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* P-256: the generator of the curve. */
static const unsigned char key[] = {
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00, 0x04, 0x6b, 0x17, 0xd1, 0xf2, 0xe1, 0x2c, 0x42, 0x47, 0xf8, 0xbc, 0xe6,
    0xe5, 0x63, 0xa4, 0x40, 0xf2, 0x77, 0x03, 0x7d, 0x81, 0x2d, 0xeb, 0x33, 0xa0, 0xf4, 0xa1, 0x39, 0x45, 0xd8, 0x98,
    0xc2, 0x96, 0x4f, 0xe3, 0x42, 0xe2, 0xfe, 0x1a, 0x7f, 0x9b, 0x8e, 0xe7, 0xeb, 0x4a, 0x7c, 0x0f, 0x9e, 0x16, 0x2b,
    0xce, 0x33, 0x57, 0x6b, 0x31, 0x5e, 0xce, 0xcb, 0xb6, 0x40, 0x68, 0x37, 0xbf, 0x51, 0xf5,
};

static void try(struct str text)
{
    struct device_token token;

    if (device_token_read(text, STR("t"), STR("a"), &token) != DEVICE_TOKEN_OK)
        return;
    ASSERT(device_token_is_one(text) && token.algorithm && token.tenant[0] && token.auth_id[0]);
    ASSERT(token.expires_at_s > token.issued_at_s && device_token_check_time(&token, 0) != DEVICE_TOKEN_EXPIRED);
    ASSERT(device_token_verify(&token, (struct str){(const char *)key, sizeof key}) != DEVICE_TOKEN_OK);
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
