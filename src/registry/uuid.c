#include "registry/uuid.h"

#include <stdio.h>
#include <sys/random.h>

#include "base/check.h"

struct str uuid_make(char to[UUID_BYTES])
{
    unsigned char b[16];

    ASSERT(getrandom(b, sizeof b, 0) == (ssize_t)sizeof b);
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
    (void)snprintf(to, UUID_BYTES, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2],
                   b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]); /* fits */
    return (struct str){to, UUID_BYTES - 1};
}
