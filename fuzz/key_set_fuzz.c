/* key_set_fuzz: whatever an identity provider shows as its keys, reading ends with a set within the bounds or none, and no key of it verifies what nobody has
 * signed. */
#include <stdint.h>

#include "authority/key_set.h"
#include "base/check.h"
#include "registry/device_token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const algorithms[] = {"RS256", "ES256"};
    struct key_set *set;

    if (key_set_read((struct str){(const char *)data, size}, &set) != E_OK)
        return 0;
    ASSERT(key_set_count(set) <= KEY_SET_KEYS_MAX);
    ASSERT(key_set_has(set, (struct str){0}) == (key_set_count(set) > 0));
    for (size_t i = 0; i < ARRAY_LEN(algorithms); i++) {
        struct device_token token = {.text = STR("eyJhbGciOiJSUzI1NiJ9.e30.AAAA"),
                                     .algorithm = device_token_find_algorithm(str_from(algorithms[i]))};

        ASSERT(!key_set_verify(set, (struct str){0}, &token));
    }
    key_set_unref(set);
    return 0;
}
