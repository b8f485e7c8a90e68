/* manage: the management interface of tenants, devices and credentials over HTTP, as Hono has it (docs/REGISTRY.md): routes below /v1 for the
 * administration port. One table of operations gives the routes, what each is allowed, and the OpenAPI document. Changes are requests to the
 * registry's table; passwords are hashed by the pool before they go there. One thread: that of the loop. */
#pragma once

#include "http/http_route.h"
#include "registry/registry_request.h"

struct config_admin_user;
struct hash_pool;
struct loop;
struct manage;
struct table;

/* A change that has been made, for audit and notifications. Views of the call. */
struct manage_change {
    enum registry_op op;
    struct str tenant, device; /* device empty: of the tenant */
    struct str user, at, version;
    const json_t *document; /* of creations and updates of tenants and devices; else NULL */
};

struct manage_options {
    struct loop *loop;
    struct table *table;
    struct hash_pool *pool;
    const struct config_admin_user *users; /* borrowed; none: nobody is asked who he is */
    size_t user_count;
    unsigned bcrypt_cost;                                                 /* of passwords that are hashed here */
    unsigned bcrypt_max_cost;                                             /* of hashes that a client brings */
    void (*on_change)(void *context, const struct manage_change *change); /* NULL: nobody asks */
    void *context;
};

/* Copies the options. */
struct manage *manage_new(const struct manage_options *options);

/* The routes, as long as `m` lives. */
const struct http_route *manage_routes(const struct manage *m, size_t *out_n);

/* Other users from now on; borrowed. Requests under way go on. */
void manage_use_users(struct manage *m, const struct config_admin_user *users, size_t user_count);

/* After the last request was answered. NULL is a no-op. */
void manage_free(struct manage *m);
