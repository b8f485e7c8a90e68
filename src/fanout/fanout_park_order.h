/* fanout_park_order: what an operator says about parked events: to try one, or all of a subscription, again now, or to throw them away. What is
 * on its way to its subscriber is left alone. Internal to the park but for the order itself: it is found (choose) by reading and carried out
 * (obey) with the park's next change, some thousands of events at a time. */
#pragma once

#include "fanout/fanout_park_flights.h"

enum fanout_park_action {
    FANOUT_PARK_DISCARD,
    FANOUT_PARK_RETRY, /* due now, and its subscription does not rest */
};

/* Owned by whoever gives it, and left alone until its mail comes; so are all views. */
struct fanout_park_order {
    struct mail mail;     /* on_mail is set by whoever gives it */
    struct mailbox *home; /* and this */
    enum fanout_park_action action;
    uint64_t number;         /* the event; 0: all of a subscription: */
    struct str channel, uid; /* "namespace/name", and its uid */

    /* The answer. E_OK: it is done, on the disk. E_NOTFOUND: no event has that number. E_BUSY: it is on its way just now. E_IO: the disk failed,
     * perhaps after some. */
    err result;
    uint64_t n;           /* events that it was done to */
    uint64_t n_under_way; /* and those that were left alone */

    /* The park's. */
    struct mail travel;
    struct list link;
    struct fanout_park_disk *disk;
    uint64_t wall_ms; /* what is due until then was seen to */
};

/* The next events that an order is about. */
struct fanout_park_chosen {
    uint64_t *numbers;
    size_t n;
    bool has_more; /* than are chosen at a time */
};

/* Finds them. Blocks as reading the disk does. E_*: as order->result; nothing is chosen. */
MUST_USE err fanout_park_order_choose(struct fanout_park_order *order, struct fanout_park_flights *flights,
                                      struct fanout_park_chosen *out_chosen);

/* Does it to them, as part of a change. */
MUST_USE err fanout_park_order_obey(const struct fanout_park_order *order, const struct fanout_park_chosen *chosen,
                                    struct fanout_park_change *change);

/* All-zero is a no-op. */
void fanout_park_order_drop(struct fanout_park_chosen *chosen);
