/* registry_loader: shows the tenants and devices of the configuration in the registry's table, so that the management interface knows of them: each
 * that is not there yet is created, with the source `configuration`. What they may is still what the configuration says, until somebody
 * changes them by the management interface. The main thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"
#include "base/mail.h"

struct config;
struct mailbox;
struct table;

enum { REGISTRY_LOADER_AT_ONCE = 64 };

struct registry_loader {
    struct table *table;
    struct mailbox *home;
    struct config *config; /* a reference; NULL: nothing is being loaded */
    size_t tenant, device; /* the next one: a tenant, then its devices; device counts from 1 */
    unsigned n_asked;
    bool is_stopped;
    size_t n_created, n_refused;
    void (*on_done)(struct registry_loader *loader);
};

/* Begins; on_done() runs when all are there, perhaps within the call. While it runs, another start is a no-op. */
void registry_loader_start(struct registry_loader *loader, struct config *config);

/* Asks nothing more and reads the table no more, which may be closed now; answers still come, and on_done() after the last one. */
void registry_loader_stop(struct registry_loader *loader);
