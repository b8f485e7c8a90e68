/* fanout_park_flights: parked events that are being tried again: which of those that are due go, how many at a time, and how long a
 * subscription rests that has failed several times in a row, so that a large heap of events for one that is down costs next to nothing and keeps
 * nobody else waiting. What it knows of subscriptions is in memory only. Internal to the park; its thread. */
#pragma once

#include "base/map.h"
#include "fanout/fanout_park_disk.h"
#include "fanout/fanout_park_index.h"
#include "loop/mailbox.h"

struct fanout_park_lane;

/* An attempt that is under way, with the record in memory of its own. */
struct fanout_park_flight {
    struct fanout_park_attempt attempt;
    struct mail back;
    struct fanout_park_flights *flights;
    struct list link; /* in flying, then in landed */
    struct fanout_park_lane *lane;
    uint64_t number;
    uint32_t attempts; /* before this one */
    struct fanout_park_record record;
    struct arena arena;
    size_t n_value;
    char value[];
};

struct fanout_park_flights {
    struct fanout_park_index *index; /* borrowed, as the next */
    struct mailbox *home;
    void (*on_landed)(struct fanout_park_flights *flights); /* there is one more in `landed` */
    struct fanout_park_carrier *carrier;                    /* NULL: nothing is tried */
    uint32_t delay_ms, delay_max_ms;
    struct store_txn reader;
    struct list flying, landed; /* those in `landed` have their result, which is not on the disk yet */
    size_t n_flying, flying_bytes;
    struct map lanes;   /* subscriptions that have flights, or failures */
    uint64_t next_lane; /* whose turn it is */
};

/* Sets up; what is borrowed and on_landed are set by the caller, before. E_*: the disk cannot be read. */
MUST_USE err fanout_park_flights_init(struct fanout_park_flights *flights);

/* Forgets all that are under way; they stay parked. All-zero is a no-op. */
void fanout_park_flights_fini(struct fanout_park_flights *flights);

/* Begins what is due and may go. `now_ms` is the loop's clock, `wall_ms` the wall's. Returns after how many milliseconds to look
 * again, unless one lands before. */
uint64_t fanout_park_flights_launch(struct fanout_park_flights *flights, uint64_t now_ms, uint64_t wall_ms);

/* Whether the event with this number is on its way, or has come back and that is not on the disk yet. */
bool fanout_park_flights_has(struct fanout_park_flights *flights, uint64_t number);

/* The subscription with this lane rests no longer. */
void fanout_park_flights_wake(struct fanout_park_flights *flights, uint64_t lane);

/* How long to wait after so many failures: half to all of the delay that they make, so that what failed together is not tried
 * together. `salt` is any number of its own. */
uint64_t fanout_park_flights_delay(const struct fanout_park_flights *flights, uint32_t failures, uint64_t salt);

/* Frees one that has landed. */
void fanout_park_flights_drop(struct fanout_park_flight *flight);
