#include "main/authentication_options.h"

#include "config/report.h"
#include "http/http_url.h"

/* A secret that could not stand in a header is not shown here, either. */
static bool is_header_value(struct str text)
{
    for (size_t i = 0; i < text.n; i++)
        if ((unsigned char)text.p[i] < ' ' || text.p[i] == 0x7f)
            return false;
    return true;
}

static err check_jwks(const struct config_jwks *jwks, const char *file, struct config_errors *errors)
{
    const char *missing = jwks->issuer.n == 0 ? "issuer" : jwks->audience.count == 0 ? "audience" : NULL;
    struct errinfo ei = {0};
    struct http_url url;

    if (!jwks->url.n)
        return E_OK;
    if (http_url_parse(jwks->url, &url, &ei) != E_OK)
        report_error(errors, file, 0, "authentication.jwks.url: %s", ei.text);
    else if (missing)
        report_error(errors, file, 0, "authentication.jwks.%s is missing: whose tokens, and for whom, are taken?", missing);
    else if (jwks->max_age_ms < jwks->refresh_ms)
        report_error(errors, file, 0,
                     "authentication.jwks.max_age: is less than refresh, so that there would be times without keys");
    else
        return E_OK;
    return E_INVAL;
}

err authentication_options_check(const struct config *config, const char *file, struct config_errors *errors)
{
    const struct config_webhook *hook = &config->authentication.webhook;
    struct errinfo ei = {0};
    struct http_url url;
    bool is_bad = false;

    if (hook->url.n && http_url_parse(hook->url, &url, &ei) != E_OK) {
        report_error(errors, file, 0, "authentication.webhook.url: %s", ei.text);
        is_bad = true;
    }
    if (!is_header_value(hook->token)) {
        report_error(errors, file, 0, "authentication.webhook.token: has characters that no header can have");
        is_bad = true;
    }
    return is_bad || check_jwks(&config->authentication.jwks, file, errors) != E_OK ? E_INVAL : E_OK;
}
