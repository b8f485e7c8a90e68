/* authority_login: lets devices in whom somebody outside the process vouches for (authority.h). They are devices of the registry all the same: without
 * one by that name, enabled and of an enabled tenant that uses the adapter, nobody is let in. For registry.c. */
#pragma once

#include "registry/registry.h"

/* Judges a token of the identity provider. False: it is none; nothing is written then. Any thread, does not block; computes for 0.3 ms. */
MUST_USE bool authority_login_judge_token(struct registry *registry, const struct registry_login *login,
                                          struct principal *out_principal, enum registry_result *out_result);

/* Whether the webhook has a say about log-ins like this, with a name or a token. */
bool authority_login_has_webhook(const struct registry *registry, const struct registry_login *login);

/* Asks it. False: it does not decide; nothing is written then. Any thread, does not block. */
MUST_USE bool authority_login_ask_webhook(struct registry *registry, const struct registry_login *login,
                                          struct principal *out_principal, enum registry_result *out_result);
