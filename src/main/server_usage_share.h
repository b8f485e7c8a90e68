/* server_usage_share: what tenants have used of their limits, between instances (registry/usage.h): each second this one tells the others
 * by a report in the routes (routes/routes.h), and adds up what they have told. Volumes and times of an instance that is gone count
 * on, its connections do not. So a limit holds over all instances, but for what is used within about a second. Only for main/. */
#pragma once

#include "base/map.h"
#include "base/str.h"
#include "loop/wheel.h"

struct routes;
struct usage_state;
struct worker;

/* All-zero: nothing is shared. */
struct server_usage_share {
    struct routes *routes;
    struct worker *worker; /* whose thread adds up: worker 0 */
    struct map accounts;   /* by tenant */
    struct timer timer;
};

/* Before the routes are started; `worker` is worker 0. Main thread. */
void server_usage_share_open(struct server_usage_share *share, struct routes *routes, struct worker *worker);

/* Tells the others. Any thread. */
void server_usage_share_tell(struct server_usage_share *share, struct str tenant, const struct usage_state *state);

/* After the workers have stopped. */
void server_usage_share_close(struct server_usage_share *share);
