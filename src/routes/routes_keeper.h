/* routes_keeper: between routes_keeper.c, which keeps the lease, and routes_publish.c, which says by its renewals what was seen and done. All on
 * worker 0. */
#pragma once

#include "routes/routes_private.h"

/* --- routes_keeper.c --- */

struct routes_keeper_request *routes_keeper_send(struct routes_keeper *k, enum routes_keeper_slot slot,
                                                 const struct routes_record *record);
bool routes_keeper_is_out(const struct routes_keeper *k, enum routes_keeper_slot slot);

/* The beginning of a request that renews the lease. */
struct routes_record routes_keeper_record(struct routes_keeper *k, enum routes_kind kind);

/* Such a request was answered: the lease lasts longer, or is lost. */
void routes_keeper_extend(struct routes_keeper *k, const struct routes_keeper_request *req, enum routes_reason reason);

/* The next step of the orderly end. */
void routes_keeper_leave(struct routes_keeper *k);

/* --- routes_publish.c --- */

void routes_keeper_init_publication(struct routes_keeper *k);

/* The least that our workers have seen. */
uint64_t routes_keeper_seen(const struct routes_keeper *k);

/* Publishes soon, if there is something. */
void routes_keeper_want_publication(struct routes_keeper *k);

/* Whether something was done that is not published. */
bool routes_keeper_has_marks(struct routes_keeper *k);

void routes_keeper_on_published(struct routes_keeper *k, struct routes_keeper_request *req, enum routes_reason reason);
void routes_keeper_on_renewed(struct routes_keeper *k, struct routes_keeper_request *req, enum routes_reason reason);
