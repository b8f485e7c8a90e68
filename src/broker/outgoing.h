/* outgoing: the messages of one session that are on their way to its client: in flight (sent, not acknowledged, in the order
 * sent [MQTT-4.4.0-1, 4.6.0-5]) and queued behind them. Belongs to the session; home worker only. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"

struct message;
struct session;
struct tracker;

enum outgoing_stage {
    OUTGOING_QUEUED,
    OUTGOING_PUBLISHED, /* waits for PUBACK or PUBREC */
    OUTGOING_RELEASED,  /* PUBREL was sent, waits for PUBCOMP; the message itself is gone */
};

/* One message for one session. From the shard's slab. */
struct outgoing {
    struct list link;
    struct message *message;
    struct tracker *tracker; /* NULL: nobody follows it, or it was told what came of it */
    uint32_t *more_ids;      /* the subscription identifiers, when there is more than one; owned */
    uint32_t id;             /* the only one */
    uint32_t serial;         /* how many packet identifiers the session had given out before */
    uint16_t n_ids;
    uint16_t packet_id;
    uint8_t qos;
    uint8_t stage;
    bool retain;
    bool must_resend; /* in flight on an earlier connection */
};

/* What a session is to get. */
struct outgoing_request {
    struct message *message; /* borrowed; a reference is taken when it must wait */
    struct tracker *tracker; /* NULL: nobody follows it. While the client is there, a message that is followed is queued beyond
                                the limits: whoever follows it bounds how many there are */
    const uint32_t *ids;
    uint16_t n_ids;
    uint8_t qos;
    bool retain;
    bool is_kept; /* a retained message: queued beyond the limits, so that none is left out */
};

/* Delivers, queues or drops one message, and counts which [MQTT-4.6.0-6: in order of arrival]. */
void outgoing_deliver(struct session *ss, const struct outgoing_request *request);

/* Sends what waits, as far as the client's Receive Maximum [MQTT-3.3.4-9] and the output's room allow: first what must be sent
 * again, then the queue. */
void outgoing_pump(struct session *ss);

/* How a client's answer fits what it was sent. */
enum outgoing_answer {
    OUTGOING_ANSWERED,
    OUTGOING_UNKNOWN,  /* nothing with this packet identifier is in flight: it was answered before */
    OUTGOING_MISMATCH, /* something is, but this is no answer to it */
};

/* The client's answers. */
enum outgoing_answer outgoing_on_puback(struct session *ss, uint16_t packet_id);
enum outgoing_answer outgoing_on_pubrec(struct session *ss, uint16_t packet_id, bool is_error);
enum outgoing_answer outgoing_on_pubcomp(struct session *ss, uint16_t packet_id);

/* Marks everything in flight to be sent again; the next outgoing_pump() does it [MQTT-4.4.0-1]. */
void outgoing_resume(struct session *ss);

/* Sends once more, marked as a duplicate, what the client has not acknowledged on this connection: for clients before MQTT 5 only
 * [MQTT-4.4.0-1]. Everything that the session has of a tracker's. False: there is nothing in flight, or no client. */
bool outgoing_repeat(struct session *ss, const struct tracker *tracker);

/* Frees everything. */
void outgoing_clear(struct session *ss);
