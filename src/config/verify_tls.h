/* verify_tls: what concerns several options of TLS. Main thread. */
#pragma once

#include "config/config.h"

/* Whether anything of it stands in the file that asks for TLS. */
bool verify_tls_is_given(const struct config_tls *tls);

/* Checks TLS that is used, at the address that `id` names; the files are not looked into. */
void verify_tls_check(const struct config_tls *tls, struct str id, const char *file, unsigned line,
                      struct config_errors *errors);
