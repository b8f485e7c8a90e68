/* fanout_park: the port to a place where events wait whose delivery failed (on_exhausted: park), until they are tried again. What is parked
 * is there when the answer says so. Implemented elsewhere; NULL in struct fanout_settings: there is none. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "base/mail.h"
#include "base/str.h"
#include "proto/cloudevents/cloudevent.h"

struct mailbox;

/* One event of one subscription. Owned by the requester and left alone until its mail comes; so are all views. */
struct fanout_parcel {
    struct mail mail;     /* on_mail is set by the requester */
    struct mailbox *home; /* set by the requester */
    struct str channel;   /* "namespace/name" */
    struct str uid;
    const struct cloudevent *event;
    struct cloudevent_extras extras; /* attributes that say what happened */
    struct str lines;                /* header lines that go with the event, besides its own */
    err result;                      /* E_OK: it is kept. E_LIMIT: no room. E_IO: the disk failed */

    /* The park's. */
    struct mail travel;
    struct list link;
    struct fanout_park *park;
};

struct fanout_park {
    /* Takes a parcel; its mail comes exactly once. Any worker; does not block. */
    void (*put)(struct fanout_park *park, struct fanout_parcel *parcel);
};

static inline void fanout_park_put(struct fanout_park *park, struct fanout_parcel *parcel)
{
    park->put(park, parcel);
}
