/* manage_auth: who may use the management interface: users of the configuration, by name and password (Basic, RFC 7617) or by token (Bearer, RFC
 * 6750), who may read or also write, everything or some tenants. Never logs; one thread. */
#pragma once

#include <stdbool.h>

#include "config/config.h"
#include "http/http_exchange.h"

enum manage_auth { MANAGE_AUTH_OK, MANAGE_AUTH_UNKNOWN, MANAGE_AUTH_DENIED };

/* Whether a request may do something to a tenant (empty: to all of them). `*out_user` is set when it is known; without any users everybody may do
 * everything, and it is NULL. */
enum manage_auth manage_auth_check(const struct config_admin_user *users, size_t count, const struct http_request *r,
                                   bool is_write, struct str tenant, const struct config_admin_user **out_user);
