/* mqtt_login: a CONNECT whose sender is not known yet: a password that takes its time. The connection reads nothing more until the answer is there,
 * and then the same packet again. One thread, the worker's. */
#pragma once

#include "adapter/mqtt/mqtt_conn.h"
#include "registry/registry.h"

/* Asks who `login` is, with what the connection waits by. On REGISTRY_PENDING the caller answers HANDLE_WAIT. */
MUST_USE enum registry_result mqtt_login_ask(struct mqtt_conn *c, struct registry_login *login,
                                             struct principal *out_principal);

/* The connection closes. A no-op when it does not wait. */
void mqtt_login_cancel(struct mqtt_conn *c);
