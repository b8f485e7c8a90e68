/* principal: who a connection speaks for, as entries of a registry. Immutable; any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "config/config.h"

struct registry;
struct usage;

struct registry_tenant {
    struct str id;
    bool is_enabled;
    uint32_t adapters;                         /* bit 1u << enum config_adapter_type: switched on */
    const struct config_properties *defaults;  /* lowest rank in the merge of headers */
    const struct config_tenant_limits *limits; /* what it may use */
    struct str mapper;                         /* of what its devices send; empty: none */
    struct str command_mapper;                 /* of the commands that they get; empty: none */
    struct registry *registry;                 /* what a principal keeps alive; NULL in tests without one */
    struct usage *usage;                       /* what it uses of its limits (usage.h); NULL in tests without a registry */
};

struct registry_device {
    struct str id;
    struct str auth_id; /* the name it logs in with; empty: it cannot */
    const struct registry_tenant *tenant;
    bool is_enabled;
    bool is_gateway;                          /* some device of the tenant names it in `via` */
    bool may_provision;                       /* as a gateway it may have devices registered */
    bool has_gateways;                        /* it may be reached by a gateway */
    struct str mapper;                        /* its own or the tenant's; empty: none */
    struct str command_mapper;                /* the same, of the commands that it gets */
    const struct config_strings *via;         /* ids of the gateways that may act for it */
    const struct config_strings *via_groups;  /* groups whose members may */
    const struct config_strings *member_of;   /* groups it belongs to as a gateway */
    const struct config_properties *defaults; /* outrank the tenant's */
};

/* Who a connection speaks for. All-zero: nobody. An anonymous client has a tenant and no device. */
struct principal {
    const struct registry_tenant *tenant;
    const struct registry_device *device;
};

/* Another owned copy, for a second holder. Nobody gives nobody. */
struct principal principal_copy(const struct principal *principal);

/* Gives the principal back and leaves nobody. Nobody is a no-op. */
void principal_release(struct principal *principal);
