#include "fanout/fanout_retry.h"

#include <string.h>
#include <time.h>

#include "base/check.h"

enum { MAX_SHIFT = 31, MAX_AFTER_S = 10 * 365 * 24 * 3600, DATE_BYTES = 64 };

bool fanout_retry_is_useful(unsigned status)
{
    return status == 0 || status == 404 || status == 408 || status == 409 || status == 429 || status >= 500;
}

uint32_t fanout_retry_delay_ms(const struct fanout_retry *retry, unsigned n, uint64_t random)
{
    uint64_t delay_ms = retry->delay_ms;
    unsigned shift = n - 1 < MAX_SHIFT ? n - 1 : MAX_SHIFT;

    if (retry->backoff == FANOUT_BACKOFF_LINEAR)
        delay_ms *= n;
    else
        delay_ms <<= shift;
    if (delay_ms > retry->delay_max_ms)
        delay_ms = retry->delay_max_ms;
    return (uint32_t)(random % (delay_ms + 1));
}

bool fanout_retry_after_ms(struct str value, uint64_t now_s, uint64_t *out_ms)
{
    static const char *const forms[] = {"%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y"};
    char text[DATE_BYTES];
    uint64_t seconds;

    if (str_to_u64(value, UINT32_MAX, &seconds)) {
        *out_ms = (seconds < MAX_AFTER_S ? seconds : MAX_AFTER_S) * 1000;
        return true;
    }
    if (value.n == 0 || value.n >= sizeof text)
        return false;
    memcpy(text, value.p, value.n);
    text[value.n] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        struct tm tm = {0};
        const char *end = strptime(text, forms[i], &tm);
        time_t at = end && !*end ? timegm(&tm) : -1;

        if (at < 0)
            continue;
        seconds = (uint64_t)at > now_s ? (uint64_t)at - now_s : 0;
        *out_ms = (seconds < MAX_AFTER_S ? seconds : MAX_AFTER_S) * 1000;
        return true;
    }
    return false;
}

uint32_t fanout_retry_wait_ms(const struct fanout_retry *retry, unsigned n, struct str retry_after, uint64_t now_s,
                              uint64_t random)
{
    uint32_t delay_ms = fanout_retry_delay_ms(retry, n, random);
    uint64_t after_ms;

    if (!retry_after.p || !fanout_retry_after_ms(retry_after, now_s, &after_ms))
        return delay_ms;
    if (after_ms > retry->retry_after_max_ms)
        after_ms = retry->retry_after_max_ms;
    return after_ms > delay_ms ? (uint32_t)after_ms : delay_ms;
}
