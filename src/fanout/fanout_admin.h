/* fanout_admin: what the administration port says about the fan-out, and takes:
 *
 *   GET    /config     which generation holds, from where, and how the last reload went
 *   PUT    /config     a new configuration; its generation stands in it, or in ?generation=N
 *   DELETE /config     takes away what was put
 *   GET    /channels   the channels with their subscriptions
 *   GET    /parked     how many events are parked, and the oldest of them
 *   GET    /subscriptions, /subscriptions/NAMESPACE/NAME, /subscriptions/NAMESPACE/NAME/UID
 *                      how they fare: under way, outcomes, breaker, last error
 *
 * The main thread. */
#pragma once

#include "fanout/fanout_control.h"
#include "http/http_route.h"

struct fanout;
struct fanout_admin;
struct fanout_park_disk;

/* All are borrowed; `park` is NULL where there is none; `home` is the main thread's mailbox. Never NULL. */
struct fanout_admin *fanout_admin_new(struct fanout_control *control, const struct config *config,
                                      struct fanout_park_disk *park, struct fanout *plane, struct mailbox *home);

/* After the port was closed. NULL is a no-op. */
void fanout_admin_free(struct fanout_admin *admin);

/* The routes, as long as it lives. */
const struct http_route *fanout_admin_routes(const struct fanout_admin *admin, size_t *out_n);
