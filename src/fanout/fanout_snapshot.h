/* fanout_snapshot: one generation of the fan-out's configuration: channels, their subscriptions, and what becomes of an event.
 * Immutable and shared by reference count, any thread: a request holds the snapshot it began with until it is answered. Built by
 * fanout_config.h, off the request path. All texts end with a NUL that is not counted. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"
#include "fanout/event_filter.h"
#include "http/http_url.h"

enum fanout_ack {
    FANOUT_ACK_ALL,          /* 202 once every subscription is done */
    FANOUT_ACK_QUORUM,       /* once `quorum` of them are; the rest go on */
    FANOUT_ACK_FIRST,        /* quorum(1) */
    FANOUT_ACK_ASYNC_MEMORY, /* at once: lost with the process */
};

enum fanout_order {
    FANOUT_ORDER_NONE,
    FANOUT_ORDER_KEY,    /* events with one value of the attribute `order_key` in the order of their coming */
    FANOUT_ORDER_STRICT, /* event n+1 of the channel waits until n is resolved for all */
};

enum fanout_redeliver {
    FANOUT_REDELIVER_ALL,
    FANOUT_REDELIVER_FAILED_ONLY, /* subscriptions that had (source, id) within `remember_ms` are not asked again */
};

/* An event whose source and id came to the channel within `remember_ms`, and did not fail then. */
enum fanout_repeats {
    FANOUT_REPEATS_DELIVER,
    FANOUT_REPEATS_COUNT,    /* and count it */
    FANOUT_REPEATS_SUPPRESS, /* not again: answered as what it is, taken or under way */
};

enum fanout_nack { FANOUT_NACK_ALL, FANOUT_NACK_FIRST }; /* answer a failure when all are done, or at the first */

enum fanout_exhausted {
    FANOUT_EXHAUSTED_NACK,
    FANOUT_EXHAUSTED_DEAD_LETTER, /* and when that fails too, what on_dead_letter_failed says */
    FANOUT_EXHAUSTED_PARK,        /* kept on disk and tried again later; done once it is there */
    FANOUT_EXHAUSTED_DROP,        /* counted; done */
};

enum fanout_backoff { FANOUT_BACKOFF_EXPONENTIAL, FANOUT_BACKOFF_LINEAR };
enum fanout_format { FANOUT_FORMAT_BINARY, FANOUT_FORMAT_JSON };
enum fanout_target_kind { FANOUT_TARGET_NONE, FANOUT_TARGET_HTTP, FANOUT_TARGET_KAFKA };

struct fanout_target {
    enum fanout_target_kind kind;
    bool is_h2c;         /* HTTP/2 with prior knowledge */
    struct str text;     /* as configured, for knativeerrordest and logs */
    struct http_url url; /* of FANOUT_TARGET_HTTP */
    struct str topic;    /* of FANOUT_TARGET_KAFKA */
};

/* How hard one target is tried. */
struct fanout_retry {
    uint32_t retries; /* besides the first attempt */
    enum fanout_backoff backoff;
    uint32_t delay_ms;           /* of the first retry, before jitter */
    uint32_t delay_max_ms;       /* of any retry */
    uint32_t retry_after_max_ms; /* of what a Retry-After may ask for; 0: it is not listened to */
    uint32_t attempt_timeout_ms;
};

struct fanout_subscription {
    struct str uid; /* unique in the channel */
    uint32_t index; /* in the channel */
    unsigned line;
    struct fanout_target subscriber, reply, dead_letter;
    struct fanout_retry retry;
    enum fanout_exhausted on_exhausted;
    enum fanout_exhausted on_dead_letter_failed; /* nack, park or drop */
    enum fanout_format format;
    const struct event_filter *filter; /* NULL: every event */
    uint32_t max_inflight;             /* attempts at once, on one worker; 0: no bound of its own */
};

struct fanout_snapshot;

struct fanout_channel {
    struct str key; /* "namespace/name" */
    struct str ns, name;
    unsigned line;
    uint32_t place; /* in its text */
    struct fanout_snapshot
        *donor;        /* kept from there although the text has it otherwise (fanout_isolated); NULL: it is the text's */
    struct str *hosts; /* further values of Host, lower-case, without port */
    size_t n_hosts;
    struct fanout_subscription *subscriptions;
    size_t n_subscriptions;
    enum fanout_ack ack;
    uint32_t quorum; /* of FANOUT_ACK_QUORUM, 1 to n */
    enum fanout_order order;
    struct str order_key; /* of FANOUT_ORDER_KEY: the attribute */
    enum fanout_redeliver redeliver;
    enum fanout_repeats repeats;
    uint32_t remember_ms; /* of FANOUT_REDELIVER_FAILED_ONLY, and of repeats */
    enum fanout_nack nack;
    bool is_reply_any_2xx; /* else only of a 200 */
    bool is_header_raw;    /* ce- headers are sent without percent-encoding, as Knative's planes do */
    uint32_t timeout_ms;   /* from the event's coming to the answer, everything included */
    uint64_t max_body_bytes;
    uint64_t max_queued_bytes; /* of FANOUT_ACK_ASYNC_MEMORY, on one worker */
    uint32_t max_hops;
    struct str *forward_headers;  /* lower-case names of request headers that go on */
    struct str *forward_prefixes; /* the same of beginnings of names */
    size_t n_forward_headers, n_forward_prefixes;
};

/* A channel whose definition is wrong, where that does not keep the others from going live. */
struct fanout_isolated {
    struct str key; /* empty: it has no name to go by */
    unsigned line;  /* of the first thing that is wrong with it */
    struct str why;
    const struct fanout_channel *kept; /* the channel as it was before; NULL: it is left out */
};

struct fanout_snapshot {
    uint64_t generation; /* from 1; the source's own when it gives one */
    struct str source;   /* "file", "put", "request": where it came from */
    struct fanout_channel *channels;
    size_t n_channels, n_subscriptions;
    struct fanout_isolated *isolated;
    size_t n_isolated;
    bool has_https; /* some target is spoken to over TLS */

    /* Of the builder. */
    struct map by_key, by_host;
    struct arena arena; /* of MEM_CONFIG; the snapshot itself lies in it */
    _Atomic(uint32_t) references;
};

struct fanout_snapshot *fanout_snapshot_ref(struct fanout_snapshot *snapshot);

/* The last one frees; NULL is a no-op. */
void fanout_snapshot_unref(struct fanout_snapshot *snapshot);

/* The channel with this "namespace/name", or NULL. */
const struct fanout_channel *fanout_snapshot_find_key(const struct fanout_snapshot *snapshot, struct str key);

/* The channel a Host header means: one of its `hosts`, or `name.namespace` with anything behind that begins with ".svc" or, as the
 * first sidecar had it, ".channels", with Knative's suffix "-kn-channel" on the name; letters of either case, a port and a last dot do not count. False when the host has no dot
 * and is not one of a channel's (400); `*out_channel` is NULL when it names no channel (404). */
bool fanout_snapshot_find_host(const struct fanout_snapshot *snapshot, struct str host,
                               const struct fanout_channel **out_channel);

/* Whether the channel with this "namespace/name", or the one that this Host means, is left out because its definition is wrong. */
bool fanout_snapshot_lacks_key(const struct fanout_snapshot *snapshot, struct str key);
bool fanout_snapshot_lacks_host(const struct fanout_snapshot *snapshot, struct str host);
