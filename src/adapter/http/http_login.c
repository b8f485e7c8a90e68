#include "adapter/http/http_login.h"

#include "base/base64.h"
#include "base/utf8.h"
#include "loop/tls_peer.h"
#include "registry/device_token.h"
#include "registry/registry.h"

enum { MAX_ENCODED_BYTES = 2048 };

static const struct {
    uint16_t status;
    const char *text;
} answers[REGISTRY_RESULTS] = {
    [REGISTRY_BAD_CREDENTIALS] = {401, "credentials are missing or wrong"},
    [REGISTRY_ADAPTER_DISABLED] = {403, "the tenant does not use this adapter"},
    [REGISTRY_DEVICE_DISABLED] = {404, "the device is disabled"},
    [REGISTRY_TENANT_REFUSED] = {403, "this address serves another tenant"},
    [REGISTRY_UNAVAILABLE] = {503, "temporarily unavailable"},
    [REGISTRY_PENDING] = {HTTP_LOGIN_PENDING, NULL}, /* not an answer */
};

/* The Authorization header; false when there are several. */
static bool find_authorization(const struct http_request *r, struct str *out)
{
    *out = (struct str){0};
    for (size_t i = 0; i < r->n_headers; i++) {
        if (!str_equal_nocase(r->headers[i].name, STR("Authorization")))
            continue;
        if (out->p)
            return false;
        *out = r->headers[i].value;
    }
    return true;
}

static struct str skip_spaces(struct str value)
{
    while (value.n && value.p[0] == ' ')
        value = str_from_offset(value, 1);
    return value;
}

/* `Basic` and the base64 of user:password, split at the first colon. */
static bool read_basic(struct str value, char *decoded, struct registry_login *login)
{
    bool has_colon;
    struct str scheme = str_take(&value, ' ', &has_colon), text = {decoded, 0};

    if (!str_equal_nocase(scheme, STR("Basic")))
        return false;
    value = skip_spaces(value);
    if (value.n == 0 || value.n > MAX_ENCODED_BYTES || !base64_decode(value, decoded, &text.n) || !utf8_is_valid(text))
        return false;
    login->user_name = str_take(&text, ':', &has_colon);
    login->has_user_name = login->has_password = has_colon;
    login->password = text;
    return has_colon;
}

/* `Bearer` and a token (RFC 6750 section 2.1). Which device it is may stand in the path, as /telemetry/<tenant>/<auth id>. */
static bool read_bearer(struct str value, struct str path, struct registry_login *login)
{
    bool more;
    struct str scheme = str_take(&value, ' ', &more);

    login->token = skip_spaces(value);
    if (!str_equal_nocase(scheme, STR("Bearer")) || !device_token_is_one(login->token))
        return false;
    path = str_from_offset(path, 1);
    (void)str_take(&path, '/', &more);
    if (!more || str_starts_with(path, STR("res/")))
        return true; /* the token says it */
    login->token_tenant = str_take(&path, '/', &more);
    login->token_auth_id = path;
    return true;
}

uint16_t http_login_check(const struct http_edge_listener *listener, const struct http_exchange *x, struct registry_wait *wait,
                          struct principal *out_principal, const char **out_text)
{
    const struct config_listener *config = http_edge_listener_config(listener);
    struct registry_login login = {
        .tenant = config->tenant,
        .is_tenant_fixed = config->is_tenant_fixed,
        .is_anonymous_allowed = config->is_anonymous,
        .adapter = CONFIG_ADAPTER_HTTP,
        .peer = x->tls ? tls_peer_of(x->tls) : NULL,
        .listener = config->id,
        .peer_fd = x->fd,
        .wait = wait,
    };
    char decoded[BASE64_DECODED_BYTES(MAX_ENCODED_BYTES)];
    enum registry_result result = REGISTRY_BAD_CREDENTIALS;
    struct str authorization;

    if (!find_authorization(&x->request, &authorization)) {
        *out_text = "the header Authorization is given twice";
        return 400;
    }
    if (!authorization.p || read_basic(authorization, decoded, &login) || read_bearer(authorization, x->request.path, &login))
        result = registry_authenticate(listener->edge->generation->registry, &login, out_principal);
    explicit_bzero(decoded, sizeof decoded);
    if (result == REGISTRY_OK)
        return 0;
    if (result == REGISTRY_PENDING)
        return HTTP_LOGIN_PENDING;
    http_edge_count(HTTP_EDGE_LOGINS_REFUSED, 1);
    *out_text = answers[result].text;
    return answers[result].status;
}
