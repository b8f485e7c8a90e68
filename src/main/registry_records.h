/* registry_records: tells of changes to the registry in Kafka: notifications on hono.notification.registry-tenant and -device, as Hono's registry
 * does, and a record for audit. Those for which there is no room wait, up to a bound. The main thread. */
#pragma once

#include "base/list.h"
#include "base/mail.h"
#include "base/str.h"
#include "core/sink.h"

struct manage_change;

enum { REGISTRY_RECORDS_MAX_WAITING = 10000 };

struct registry_records {
    struct sink *sink;
    struct mailbox *home;
    struct sink_topic *tenants, *devices, *audit; /* audit NULL: nobody wants it */
    struct sink_waiter waiter;
    struct list waiting; /* in their order */
    unsigned n_waiting;
    struct sink_creation creations[3];
    unsigned n_creations; /* whose mail has not come */
};

/* Also has the topics made if they are missing. Registers metrics: before threads start. `audit_topic` may be empty. */
void registry_records_init(struct registry_records *r, struct sink *sink, struct mailbox *home, struct str audit_topic);

/* Tells of a change. Copies what it needs. */
void registry_records_tell(struct registry_records *r, const struct manage_change *change);

/* Tells applications, by an event of the tenant, that a device has been registered by itself or, if not empty, by a gateway. */
void registry_records_tell_provisioned(struct registry_records *r, struct str tenant, struct str device, struct str gateway);

/* After the sink was stopped, and its mails have run. */
void registry_records_fini(struct registry_records *r);
