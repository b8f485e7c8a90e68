/* webhook_answer_fuzz: whatever a webhook answers, reading ends with a verdict or none; whoever is let in has a name within the bounds. */
#include <stdint.h>

#include "authority/webhook_answer.h"
#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct webhook_answer answer;

    if (webhook_answer_read((struct str){(const char *)data, size}, &answer) != E_OK)
        return 0;
    ASSERT(answer.verdict == AUTHORITY_NONE || answer.verdict == AUTHORITY_ALLOWED || answer.verdict == AUTHORITY_DENIED);
    ASSERT(answer.verdict != AUTHORITY_ALLOWED || answer.who.device_n > 0);
    ASSERT(answer.who.device_n <= sizeof answer.who.device && answer.who.tenant_n <= sizeof answer.who.tenant);
    ASSERT(answer.ttl_s >= 0);
    return 0;
}
