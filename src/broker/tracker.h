/* tracker: follows one message to all the sessions that get it, on whichever worker, for somebody who has to know when nobody
 * will do anything with it any more: a record of Kafka is committed only then.
 *
 * Two things are told, both by the tracker's mail to its home: first that every worker has looked for subscribers (decided),
 * later that no session has the message any more (over). broker_publish_tracked() may find that it is decided at once; then the
 * mail only tells the end. Between the two the home holds the tracker itself, so that one mail is enough for both.
 *
 * Counts are atomic, everything else is the home's. Lies inside the object that waits. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/mail.h"

struct mailbox;

struct tracker {
    struct mail mail;     /* on_mail is set by the home */
    struct mailbox *home; /* set by the home */
    uint32_t ack_timeout_ms;
    bool is_decided; /* the home's own, see tracker_note_decided() */
    atomic_uint deciding;
    atomic_uint refs;
    atomic_uint matched;      /* sessions that were to get it */
    atomic_uint acknowledged; /* by those that have it: at QoS 0 written to them */
    atomic_uint losses;       /* 1u << enum broker_metric for each way in which others lost it */
    atomic_bool is_crowded;   /* some session's queue was half full when it got it */
};

/* Ready for a publish, or for another one after the end. `mail.on_mail` and `home` are left as they are. */
void tracker_start(struct tracker *t, uint32_t ack_timeout_ms);

/* --- for the broker; any thread --- */

/* So many workers will look for subscribers; before any of them does. */
void tracker_expect(struct tracker *t, unsigned workers);

/* One of them has. True: it was the last, and it is for the caller to tell: the home that calls goes on by
 * tracker_note_decided(), everybody else posts t->mail to t->home. */
bool tracker_decide(struct tracker *t);

/* A session gets it; told once by one of the others what came of it. */
void tracker_match(struct tracker *t);
void tracker_acknowledge(struct tracker *t);
void tracker_lose(struct tracker *t, unsigned why);

/* --- for the home --- */

/* What the mail, or broker_publish_tracked() says: all have looked. True: it is over already, and no mail will come. */
bool tracker_note_decided(struct tracker *t);
