/* mqtt_provision: a gateway that may register devices publishes for one that is not there: the packet waits until it is. One thread, the worker's. */
#pragma once

#include "adapter/mqtt/mqtt_conn.h"

struct mqtt_provision;

/* For the packet at the front of the connection's input, which is about `device` (empty: the sender) of `tenant` (empty: the sender's). HANDLE_WAIT: the device is being made, and the
 * connection resumes when that has come to an end. HANDLE_DONE: it is there, or will not be. */
enum handle mqtt_provision_ask(struct mqtt_conn *c, struct str tenant, struct str device);

/* The connection lets go of everything. A no-op when it does not wait. */
void mqtt_provision_cancel(struct mqtt_conn *c);
