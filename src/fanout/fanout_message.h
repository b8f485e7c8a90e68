/* fanout_message: what one leg sends besides the event itself: a subscriber's reply, or the event with what became of it (dead letter,
 * parked). Owned by the leg, in one arena. Internal to fanout/; one thread. */
#pragma once

#include "fanout/fanout_event.h"
#include "fanout/fanout_park.h"
#include "proto/http1/http1_response.h"

struct fanout_leg;

struct fanout_message {
    struct arena arena;
    struct cloudevent reply;        /* of a reply */
    const struct cloudevent *event; /* that, or the job's */
    struct cloudevent_extras extras;
    struct buf lines, document;
    struct fanout_text text;
    struct fanout_parcel parcel;
    struct fanout_leg *leg;
};

/* What a response is, as a reply. */
enum fanout_reply { FANOUT_REPLY_NONE, FANOUT_REPLY_EVENT, FANOUT_REPLY_MALFORMED };

/* Takes a reply out of a successful response. `*out_message` with FANOUT_REPLY_EVENT; NULL out of memory, then as malformed. A body that does
 * not claim to be an event is none. */
enum fanout_reply fanout_message_read_reply(const struct fanout_leg *leg, const struct http1_response_head *response,
                                            struct str body, struct fanout_message **out_message);

/* The event as a dead letter, after a failure at `target` with this answer (status 0: none). Never NULL. */
struct fanout_message *fanout_message_new_failure(const struct fanout_leg *leg, const struct fanout_target *target,
                                                  struct str body);

/* Writes header and body for HTTP, once. E_NOMEM. */
MUST_USE err fanout_message_text(struct fanout_message *message, const struct fanout_leg *leg, struct fanout_text *out_text);

/* NULL is a no-op. */
void fanout_message_free(struct fanout_message *message);
