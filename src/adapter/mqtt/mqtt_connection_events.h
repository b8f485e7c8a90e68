/* mqtt_connection_events: a device has connected or disconnected, told to the applications of its tenant as Eclipse Hono does, with
 * `hono.connection_events` (docs/wire/device-data.md). Rules have events of their own (mqtt_events.h). Runs on the worker. */
#pragma once

#include "adapter/mqtt/mqtt_conn.h"

/* For the worker's set-up; its objects may be out until the worker has stopped. */
struct slab mqtt_connection_events_slab(void);

/* An open connection of a device begins, or ends: a record in hono.event.TENANT behind the one before. Nobody waits for it; one that is
 * not stored is counted. A no-op without the option, on listeners without Hono's endpoints, and for clients that are no device. */
void mqtt_connection_events_tell(struct mqtt_conn *c, bool is_connected);
