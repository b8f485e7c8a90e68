/* registry_provision: makes the devices that the registry is to make by itself (registry/provision.h): changes the table, has that told like any other
 * change, and tells applications with a provisioning event. The main thread, but for registry_provision_take(). */
#pragma once

#include <stdbool.h>

#include "base/mail.h"

struct manage_change;
struct provision;
struct registry_records;
struct table;

struct registry_provisioner {
    struct table *table;
    struct mailbox *home; /* of the main loop */
    struct registry_records *records;
    void (*on_change)(void *context, const struct manage_change *change);
    void *context;
    bool is_stopped; /* nobody is answered any more */
};

/* For registry_view_use_provisioner(), with the provisioner as context. Any thread. */
void registry_provision_take(void *context, struct provision *p);
