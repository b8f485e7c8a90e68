/* usage: what each tenant uses of what it may use (`resource-limits`, docs/REGISTRY.md): connections, the time they last, and the bytes of
 * telemetry, events, commands and their responses. Counted in this process, in one account a tenant, which main/server_usage.h
 * keeps over restarts, and added to what other instances have counted, of which main/server_usage_share.h hears. A tenant
 * without an account (in tests without a registry) has no bounds.
 *
 * Checks do not reserve: messages that several workers take at the same moment may pass a bound together. Any thread; nothing here
 * blocks for longer than another thread takes to count a connection. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct registry_tenant;
struct usage;

/* Whether one more connection may be, and if not, why; in the order of the checks. */
enum usage_verdict {
    USAGE_ADMITTED,
    USAGE_TOO_MANY_CONNECTIONS,
    USAGE_CONNECTED_TOO_LONG,
    USAGE_TOO_MUCH_DATA,
    USAGE_VERDICTS,
};

/* The account of a tenant, made when it is asked for first. The caller owns one reference. */
struct usage *usage_ref(struct str tenant);

/* Gives one back. An account that nothing was counted in goes with the last; others stay for whoever asks next. NULL is a no-op. */
void usage_unref(struct usage *usage);

/* A client of the tenant wants to connect, at `now_ms` since 1970; `n_leaving` of its connections give way to it. Once it is
 * USAGE_ADMITTED it counts as connected. */
enum usage_verdict usage_connect(const struct registry_tenant *ten, unsigned n_leaving, int64_t now_ms);

/* One that was admitted is gone. */
void usage_disconnect(const struct registry_tenant *ten, int64_t now_ms);

/* Whether a message with that much payload is within the tenant's data volume. */
bool usage_admits(const struct registry_tenant *ten, size_t payload_bytes, int64_t now_ms);

/* Such a message has been passed on. */
void usage_count(const struct registry_tenant *ten, size_t payload_bytes, int64_t now_ms);

/* One that was counted did not get through after all. */
void usage_uncount(const struct registry_tenant *ten, size_t payload_bytes, int64_t now_ms);

/* What an account has counted: bytes and connected time, each in the period that began then; and who is connected now. */
struct usage_state {
    int64_t bytes_begin_ms, bytes;
    int64_t connected_begin_ms, connected_ms;
    int64_t n_connections;
};

/* Goes through the accounts that have counted something since the last call. `visit` must not call back. */
void usage_take_changes(void (*visit)(void *context, struct str tenant, const struct usage_state *state), void *context,
                        int64_t now_ms);

/* What an earlier process has counted; its connections are gone. Of what is known already the later period counts, and the
 * larger number. */
void usage_restore(struct str tenant, const struct usage_state *state);

/* What all other instances together have counted, in place of what was said of them before. What is of an earlier period than
 * the present one counts as nothing. */
void usage_use_others(struct str tenant, const struct usage_state *others);

/* Adds what one instance has counted to a sum of several: of two periods the later one counts. */
void usage_add_state(struct usage_state *sum, const struct usage_state *state);

/* The word for logs and metrics, as in "data_volume". */
const char *usage_verdict_name(enum usage_verdict verdict);

/* Frees what is left. At the end of the process, when nobody has a tenant any more. */
void usage_free_all(void);
