/* session: what MQTT keeps about a client, connected or not (MQTT 5.0 section 4.1).
 *
 * A session is identified by (tenant, device if the client authenticated as one, client id) and lives on one worker, its
 * home, chosen by a keyed hash (broker_home()): everything about a device is then single-threaded by construction. It has
 * a link while its client is connected. It ends when its expiry interval has passed without one, at once when that is 0.
 *
 * States: no link and no timer is possible only inside these functions. attach -> linked; detach -> ended, or waiting
 * with a timer for the end and for a delayed will; attach again -> linked, will and timer dropped.
 *
 * Kept in memory: a restart loses sessions. The functions do not assume more than that the caller is on the home worker, so
 * that a durable store can stand behind them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "base/str.h"
#include "broker/link.h"
#include "loop/wheel.h"
#include "registry/registry.h"

struct message;
struct shard;
struct subscription;

enum { SESSION_INLINE_ID_BYTES = 24, SESSION_NEVER_EXPIRES = 0xffffffff };

/* A QoS 2 message that a client sent: its packet identifier is in use until PUBREL. */
struct incoming {
    uint16_t packet_id;
    bool is_stored;    /* PUBREC was, or may be, sent; false while its outcome is not known */
    bool is_inherited; /* from an earlier connection, and not sent again on this one */
};

/* Whoever waits for the outcome of one; told of the session's end by a cleared `session`. */
struct unsettled {
    struct list link;
    struct session *session;
    uint16_t packet_id;
};

struct session {
    uint64_t hash;
    uint64_t number; /* unique in the process, for No Local and the log */
    struct shard *shard;
    struct link *link; /* NULL: not connected */
    struct principal principal;
    struct subscription *subscriptions;
    struct list in_flight, queued;
    struct list unsettled;
    struct incoming *incoming;
    struct timer timer; /* of the will's delay and the session's end; while the client is there, of its silence */
    struct message *will;
    uint64_t detached_ms;
    uint32_t expiry_s; /* SESSION_NEVER_EXPIRES: never */
    uint32_t will_delay_s;
    uint32_t n_subscriptions;
    uint32_t n_assigned; /* packet identifiers given out */
    uint32_t n_queued, queued_bytes;
    uint32_t n_queued_qos0; /* retained messages, and what may not overtake them */
    uint64_t match_mark;    /* broker/subscriptions.c: the publish that found this session last, */
    uint32_t match_index;   /* and where it stands among its matches */
    uint16_t n_incoming, n_inherited, incoming_capacity;
    uint16_t n_in_flight, n_resend;
    uint16_t window; /* the client's Receive Maximum, at most our own bound */
    uint16_t client_id_bytes;
    uint32_t n_tracked;      /* messages that somebody follows (tracker.h) and that the client has not acknowledged */
    uint32_t ack_timeout_ms; /* how long its silence about them is borne */
    uint32_t answered_ms;    /* low bits of when it acknowledged something last, or had nothing to */
    uint8_t origin;          /* the adapter's own, for the hook that publishes wills */
    bool is_large;           /* not from the slab: the client id did not fit */
    bool was_resumed;        /* by its present link */
    char client_id[];
};

struct session_request {
    struct principal principal; /* taken over, whatever comes */
    struct str client_id;       /* copied */
    bool clean_start;
    uint32_t expiry_s;
    uint16_t receive_maximum; /* the client's */
    uint8_t origin;           /* kept for the adapter */
    struct message *will;     /* taken over; NULL: none */
    uint32_t will_delay_s;
};

/* Finds or makes the session and links it. One that is linked already is taken over: its old link is told and its will
 * published unless the will's delay outlives the takeover [MQTT-3.1.4-3, 3.1.3-9]. With clean_start an old one ends first
 * [MQTT-3.1.2-4]. `*out_present` is the CONNACK's Session Present. NULL: no memory, or as many
 * sessions as there may be. What waits is sent by session_pump(),
 * to be called once the CONNACK is out. */
struct session *session_attach(struct shard *shard, const struct session_request *request, struct link *link, bool *out_present)
    __attribute__((warn_unused_result));

/* Whether such a session has a link, which session_attach() would take it from. */
bool session_is_linked(const struct shard *shard, const struct principal *principal, struct str client_id);

/* The client's connection has gone. With `publishes_will` its will is due [MQTT-3.1.2-8], else deleted [MQTT-3.14.4-3]. The
 * session may be ended by this call. A session that `link` does not own any more is left alone. */
void session_detach(struct session *ss, struct link *link, bool publishes_will);

/* A new expiry interval, from a DISCONNECT (section 3.14.2.2.2). */
void session_set_expiry(struct session *ss, uint32_t expiry_s);

/* Ends a session: its subscriptions and messages are gone; a will that is due is published [MQTT-3.1.2-10]. */
void session_end(struct session *ss);

/* Sends what waits. Also when the link has room again. */
void session_pump(struct session *ss);

/* A message that somebody follows waits for the client: it has `timeout_ms` from now on to acknowledge it, or anything before it.
 * For outgoing.c. */
void session_expect_answer(struct session *ss, uint32_t timeout_ms);

static inline struct str session_client_id(const struct session *ss)
{
    return (struct str){ss->client_id, ss->client_id_bytes};
}

/* Incoming QoS 2 (section 4.3.3, method B). NULL when the packet identifier is free. */
struct incoming *session_find_incoming(struct session *ss, uint16_t packet_id);

/* Notes a packet identifier as in use, its outcome not yet known. E_NOMEM. */
MUST_USE err session_add_incoming(struct session *ss, uint16_t packet_id);

/* PUBREL came, or the message was refused. False: it was not in use. */
bool session_remove_incoming(struct session *ss, uint16_t packet_id);

/* The client sends one again that it had sent on an earlier connection: it fills the present one's window from now on (section
 * 4.9; n_incoming - n_inherited are those that do). */
void session_claim_incoming(struct session *ss, struct incoming *incoming);

/* Adds or replaces a subscription; `filter` without `$share/`. `*out_existed` tells which. E_LIMIT: the session has as many
 * as it may. E_NOMEM. */
struct subscription_options;
MUST_USE err session_subscribe(struct session *ss, struct str filter, const struct subscription_options *options,
                               bool *out_existed);

/* Whether it has a subscription with this filter. */
bool session_is_subscribed(const struct session *ss, struct str filter);

/* False: there was none. What is already on its way is still delivered [MQTT-3.10.4-3]. */
bool session_unsubscribe(struct session *ss, struct str filter);

/* Sends the retained messages that match (section 3.3.1.3), however many there are, unless twice as much as the limits allow
 * waits for the client already. */
void session_send_retained(struct session *ss, struct str filter, const struct subscription_options *options);

/* Waits with the session for the outcome of an incoming QoS 2 message, whatever becomes of its connection. */
void session_add_unsettled(struct session *ss, struct unsettled *u, uint16_t packet_id);

/* Who waits for the outcome of the message with this packet identifier; NULL: it is known. */
struct unsettled *session_find_unsettled(struct session *ss, uint16_t packet_id);

/* The outcome is known. Stored: the packet identifier stays in use until PUBREL; refused: it is free again. A no-op when the
 * session has ended. */
void session_settle(struct unsettled *u, bool is_stored);
