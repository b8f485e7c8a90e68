/* token_login: lets devices in by a JSON Web Token (device_token.h) that was signed with a key among their `rpk` credentials. For registry.c. */
#pragma once

#include "registry/registry.h"

/* Judges `login->token`. False: it is none, and perhaps a password that looks like one; then nothing is written. The principal ends with the
 * token. Any thread; computes up to 0.3 ms for each key of the device. */
MUST_USE bool token_login_enter(struct registry *registry, const struct registry_login *login, struct principal *out_principal,
                                enum registry_result *out_result);
