/* authority_metrics: what those outside the process have said, and how often they were not to be asked. Any thread. */
#pragma once

enum authority_count {
    AUTHORITY_COUNT_ALLOWED,
    AUTHORITY_COUNT_DENIED,
    AUTHORITY_COUNT_IGNORED, /* up to here it has said something */
    AUTHORITY_COUNT_TIMEOUT,
    AUTHORITY_COUNT_UNREACHABLE,
    AUTHORITY_COUNT_STATUS,
    AUTHORITY_COUNT_MALFORMED,
    AUTHORITY_COUNT_OVERLOADED,
    AUTHORITY_COUNT_REMEMBERED,
    AUTHORITY_COUNT_JOINED,
    AUTHORITY_COUNT_KEYS_FETCHED,
    AUTHORITY_COUNT_KEYS_FAILED,
    AUTHORITY_COUNT_TOKEN_ALLOWED,
    AUTHORITY_COUNT_TOKEN_DENIED,
    AUTHORITY_COUNT_TOKEN_UNAVAILABLE,
    AUTHORITY_COUNTS,
};

/* Once, by the main thread; a no-op when done. */
void authority_metrics_register(void);

void authority_metrics_count(enum authority_count which);
