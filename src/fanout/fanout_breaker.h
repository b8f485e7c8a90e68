/* fanout_breaker: a circuit breaker: an endpoint that fails most of the time is left alone for a while, then asked with one attempt
 * whether it is back.
 *
 *            half of at least 20 in 10 s failed
 *     CLOSED ----------------------------------> OPEN <--------+
 *       ^                                          | time      | probe failed: twice the time, at most a minute
 *       |              probe succeeded             v           |
 *       +------------------------------------- HALF_OPEN ------+
 *
 * All-zero is closed. Pure but for its own state; one thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum fanout_breaker_state { FANOUT_BREAKER_CLOSED, FANOUT_BREAKER_OPEN, FANOUT_BREAKER_HALF_OPEN };

enum {
    FANOUT_BREAKER_WINDOW_MS = 10 * 1000,
    FANOUT_BREAKER_MIN_ATTEMPTS = 20,
    FANOUT_BREAKER_OPEN_MS = 5 * 1000,
    FANOUT_BREAKER_OPEN_MAX_MS = 60 * 1000,
};

struct fanout_breaker {
    uint8_t state; /* enum fanout_breaker_state */
    bool has_probe;
    uint32_t n_attempts, n_failed; /* of the window */
    uint32_t open_ms;              /* how long it stays open */
    uint64_t since_ms;             /* the window, or being open, began */
};

/* What an attempt may do. A probe is the one attempt of a half-open breaker. */
enum fanout_breaker_admission { FANOUT_BREAKER_REFUSED, FANOUT_BREAKER_ADMITTED, FANOUT_BREAKER_PROBE };

/* Asks for an attempt. Each one that is let go is reported. */
enum fanout_breaker_admission fanout_breaker_admit(struct fanout_breaker *b, uint64_t now_ms);

/* How it went. True: this opened the breaker. */
bool fanout_breaker_report(struct fanout_breaker *b, bool is_probe, bool has_failed, uint64_t now_ms);

/* Instead of a report, when an attempt was given up and says nothing about the endpoint. */
void fanout_breaker_withdraw(struct fanout_breaker *b, bool is_probe);

/* "closed", "open", "half-open". */
const char *fanout_breaker_name(const struct fanout_breaker *b);
