/* fanout_carrier: brings parked events to their subscriptions again, on a worker that is chosen by the subscription: one job each, for that
 * subscription alone, with the retries, replies and dead letters that it has now. Internal to fanout/. */
#pragma once

#include "fanout/fanout_park_disk.h"
#include "fanout/fanout_plane.h"

/* Sets up the carrier of a fan-out, for fanout_carrier(). */
void fanout_carrier_init(struct fanout *f);
