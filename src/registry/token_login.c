#include "registry/token_login.h"

#include "base/base64.h"
#include "loop/loop.h"
#include "registry/certificate.h"
#include "registry/credentials_document.h"
#include "registry/device_token.h"
#include "registry/registry_private.h"
#include "registry/registry_state.h"
#include "registry/registry_view.h"

enum { MS_PER_S = 1000 };

static bool is_signed_with(const struct device_token *token, const json_t *secret)
{
    struct str key = document_get_text(secret, "key");
    char der[BASE64_DECODED_BYTES(CERTIFICATE_KEY_BYTES)];
    size_t n;

    return key.n > 0 && key.n <= CERTIFICATE_KEY_BYTES && base64_decode(key, der, &n) &&
           device_token_verify(token, (struct str){der, n}) == DEVICE_TOKEN_OK;
}

/* By any key that holds now, so that keys can be changed while devices still use the old one. */
static bool is_signed(const struct device_token *token, const json_t *credentials, int64_t now_ms)
{
    const json_t *secrets = json_object_get(credentials, "secrets");
    bool is_enabled = document_get_bool(credentials, "enabled", true);
    size_t n_keys = 0;

    for (size_t i = 0; is_enabled && i < json_array_size(secrets); i++) {
        const json_t *secret = json_array_get(secrets, i);

        if (!credentials_document_is_valid(secret, now_ms))
            continue;
        n_keys++;
        if (is_signed_with(token, secret))
            return true;
    }
    if (n_keys == 0)
        device_token_verify_nobody(token);
    return false;
}

/* Whether the device has signed it. What is not there takes as long as what does not fit. */
static bool check(struct registry *registry, const struct device_token *token, struct str device, int64_t now_ms)
{
    struct str tenant = str_from(token->tenant), auth_id = str_from(token->auth_id);
    struct table_reader *reader = registry_view_reader(registry->view);
    json_t *state = reader && device.n ? registry_state_credentials(reader, tenant, device) : NULL;
    bool is_right =
        is_signed(token, credentials_document_find(json_object_get(state, "document"), STR("rpk"), auth_id), now_ms);

    json_decref(state);
    return is_right;
}

/* Within the time that clocks may differ by, a token is taken that is over by ours; its device then has that long. */
static int64_t end_of(const struct device_token *token, int64_t now_s)
{
    return token->expires_at_s > now_s ? token->expires_at_s : token->expires_at_s + DEVICE_TOKEN_SKEW_S;
}

static enum registry_result enter(struct registry *registry, const struct registry_login *login,
                                  const struct device_token *token, struct principal *out_principal)
{
    struct str tenant = str_from(token->tenant), device = {0};
    int64_t now_ms = (int64_t)loop_wall_ms();
    struct registry_found found;
    bool is_right;

    if (login->is_tenant_fixed && !str_equal(tenant, login->tenant))
        return REGISTRY_TENANT_REFUSED;
    if (!registry->view)
        return REGISTRY_BAD_CREDENTIALS;
    (void)registry_view_find_account(registry->view, tenant, STR("rpk"), str_from(token->auth_id), &device); /* else empty */
    found = registry_find_both(registry, tenant, device);
    if (found.tenant && found.tenant->is_enabled && !registry_has_adapter(found.tenant, login->adapter))
        return REGISTRY_ADAPTER_DISABLED;
    is_right = check(registry, token, device, now_ms);
    if (!is_right && registry_view_catch_up(registry->view, login->wait))
        return REGISTRY_PENDING;
    if (!is_right || !found.tenant || !found.tenant->is_enabled || !found.device)
        return REGISTRY_BAD_CREDENTIALS;
    if (login->out_expires_at_s)
        *login->out_expires_at_s = end_of(token, now_ms / MS_PER_S);
    return registry_let_in(&found, out_principal);
}

bool token_login_enter(struct registry *registry, const struct registry_login *login, struct principal *out_principal,
                       enum registry_result *out_result)
{
    struct device_token token;
    enum device_token_result read = device_token_read(login->token, login->token_tenant, login->token_auth_id, &token);

    if (read == DEVICE_TOKEN_MALFORMED)
        return false;
    if (read == DEVICE_TOKEN_OK)
        read = device_token_check_time(&token, (int64_t)loop_wall_ms() / MS_PER_S);
    *out_result = read == DEVICE_TOKEN_OK ? enter(registry, login, &token, out_principal) : REGISTRY_BAD_CREDENTIALS;
    return true;
}
