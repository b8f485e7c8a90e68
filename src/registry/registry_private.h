/* registry_private: what a registry consists of, for registry.c and registry_view.c. */
#pragma once

#include <stdatomic.h>

#include "base/arena.h"
#include "base/map.h"
#include "registry/registry.h"

/* What lies behind a registry_device. */
struct device_entry {
    struct registry_device device;
    struct str password; /* empty: it cannot log in */
};

/* That of a configuration; or one tenant, and perhaps one device, as the table has them (registry_view.h), which is its own registry so that
 * a principal keeps alive what it needs and no more. */
struct registry {
    atomic_uint refs;
    uint64_t number;                /* later ones have higher ones; 0: of the table */
    struct config *config;          /* whose texts the entries borrow; NULL: of the table */
    struct registry_view *view;     /* what is managed, and goes before the configuration; NULL: nothing */
    struct authority *authority;    /* who else is asked; NULL: nobody */
    struct revocation_lists *lists; /* of CAs; NULL: there are none */
    struct registry *parent;        /* of the table: the configuration's, from which it may have the tenant or the device */
    bool is_locked;                 /* of the table: the device has no credentials that could let it in */
    struct arena arena;
    struct registry_tenant *tenants;
    struct map tenants_by_id;
    struct map devices_by_id;      /* of all tenants, by tenant and device id */
    struct map devices_by_auth_id; /* those that can log in, by tenant and auth id */
};

/* A tenant and one of its devices, from wherever they are; borrowed as a registration is. NULL: there is none. */
struct registry_found {
    const struct registry_tenant *tenant;
    const struct device_entry *device;
};

/* `device` empty: the tenant alone. */
struct registry_found registry_find_both(struct registry *registry, struct str tenant, struct str device);

/* What is left of a log-in once the credentials have been found right: whether the adapter is switched on was asked before. */
MUST_USE enum registry_result registry_let_in(const struct registry_found *found, struct principal *out_principal);

/* Whether devices of the tenant may use the adapter. */
bool registry_has_adapter(const struct registry_tenant *tenant, enum config_adapter_type adapter);

/* The configuration's entries; NULL: there are none. */
const struct registry_tenant *registry_configured_tenant(const struct registry *registry, struct str id);
struct device_entry *registry_configured_device(const struct registry *registry, struct str tenant, struct str id);
