/* mqtt_extras: what few connections need, made with the first use of any of it, so that an idle client does not pay for it.
 * One thread. */
#pragma once

#include "adapter/mqtt/mqtt_conn.h"
#include "adapter/mqtt/mqtt_expiry.h"

struct mqtt_aliases;
struct mqtt_aliases_out;
struct mqtt_errors;
struct mqtt_mapping;
struct mqtt_provision;

struct mqtt_extras {
    struct mqtt_aliases *aliases;         /* that the client has set */
    struct mqtt_aliases_out *aliases_out; /* that we have set */
    struct mqtt_errors *errors;           /* subscriptions to errors (mqtt_errors.h) */
    struct mqtt_mapping *mapping;         /* of the packet that is with a mapper (mqtt_mapper.h) */
    struct mqtt_provision *provision;     /* of a device that is being made (mqtt_provision.h) */
    struct mqtt_expiry expiry;            /* of what it logged in with */
};

/* The connection's, made if need be. It must be open. Never NULL. */
struct mqtt_extras *mqtt_extras_make(struct mqtt_conn *c);

/* Releases all of it, if there is any. */
void mqtt_extras_free(struct mqtt_conn *c);
