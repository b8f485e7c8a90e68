/* certificate_login: lets devices in by the certificate that they have shown in TLS, if a CA that their tenant trusts has issued it (trust.h), and one
 * of them has credentials of type `x509-cert` with its name. For registry.c. */
#pragma once

#include "registry/registry.h"

/* Once, by the main thread; a no-op when done. */
void certificate_login_register_metrics(void);

/* Judges `login->peer`, which has a certificate. False: it belongs to nobody here, but the listener trusts it, so that something else may say who it is;
 * then there is no principal, and the result is of no account. Any thread; computes for 0.7 ms with P-256 and no intermediate. */
MUST_USE bool certificate_login_enter(struct registry *registry, const struct registry_login *login,
                                      struct principal *out_principal, enum registry_result *out_result);
