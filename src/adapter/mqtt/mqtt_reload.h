/* mqtt_reload: gives every worker the next generation of configuration, registry and rules (registry/generation.h).
 *
 * Each worker changes between two packets: what it handles before sees the old one, what comes after sees the new one. Clients
 * that the new registry does not let in are told (MQTT 5: 0x98) and closed, sessions of devices and tenants that have gone end,
 * and everybody else's principal moves to the new registry, so that the old generation dies soon: some at once, the rest in the
 * turns that follow (broker/broker_refresh.h). What a client was promised in
 * its CONNACK (Receive Maximum, Maximum Packet Size, Topic Alias Maximum) holds for as long as it is connected. */
#pragma once

#include "adapter/mqtt/mqtt_adapter.h"

/* Begins; `generation` has the same listeners at the same addresses as the one before, and a reference is taken for each worker.
 * `done` (its on_mail set by the caller) is posted to `home` when all workers use it and every session has been looked at. The
 * main thread, which also registers the metrics of rules it has not seen; one call at a time. */
void mqtt_reload_use(struct mqtt_adapter *a, struct generation *generation, struct mail *done, struct mailbox *home);

/* Looks at every session once more, since what is managed has changed (registry/registry_view.h): who may not be here any more is
 * told and closed as above. `done` is posted to `home` afterwards. The main thread; one call at a time, also during a reload. */
void mqtt_reload_look(struct mqtt_adapter *a, struct mail *done, struct mailbox *home);

/* The first generation of a worker, and its end. Only for mqtt_worker.c. */
struct mqtt_worker;
void mqtt_reload_init(struct mqtt_worker *mw, struct generation *generation);
void mqtt_reload_fini(struct mqtt_worker *mw);

/* The bounds that a configuration sets on sessions. */
struct broker_limits mqtt_reload_broker_limits(const struct config *config);
