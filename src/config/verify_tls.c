#include "config/verify_tls.h"

#include "config/report.h"

bool verify_tls_is_given(const struct config_tls *tls)
{
    return tls->cert.count || tls->key.count || tls->client_ca.count || tls->crl.count ||
           tls->client_auth != CONFIG_CLIENT_AUTH_AUTO || tls->has_psk;
}

void verify_tls_check(const struct config_tls *tls, struct str id, const char *file, unsigned line,
                      struct config_errors *errors)
{
    if (tls->cert.count == 0 && !tls->has_psk)
        report_error(errors, file, line, "%.*s.tls.cert is missing: which certificate is shown to clients?", STR_ARG(id));
    if (tls->key.count && tls->key.count != tls->cert.count)
        report_error(errors, file, line, "%.*s.tls.key: must have as many files as cert (%zu), has %zu", STR_ARG(id),
                     tls->cert.count, tls->key.count);
    if (tls->client_ca.count && tls->client_auth == CONFIG_CLIENT_AUTH_NONE)
        report_error(errors, file, line, "%.*s.tls.client_ca: has no use with client_auth: none", STR_ARG(id));
    if (tls->crl.count && !tls->client_ca.count)
        report_error(errors, file, line, "%.*s.tls.crl: has no use without client_ca", STR_ARG(id));
}
