#include "registry/authority_login.h"

#include "registry/authority.h"
#include "registry/registry_private.h"
#include "registry/registry_view.h"

/* The tenant that a user name names, else the listener's. */
static struct str tenant_of(const struct registry_login *login)
{
    bool has_tenant;
    struct str tenant = login->user_name;

    (void)str_take(&tenant, '@', &has_tenant);
    return login->has_user_name && has_tenant ? tenant : login->tenant;
}

/* Somebody outside says that it is this device: it has to be one of ours. */
static enum registry_result let_in(struct registry *registry, const struct registry_login *login,
                                   const struct authority_answer *answer, struct principal *out_principal)
{
    struct str tenant = {answer->tenant, answer->tenant_n};
    struct registry_found found;

    if (tenant.n == 0)
        tenant = tenant_of(login);
    if (login->is_tenant_fixed && !str_equal(tenant, login->tenant))
        return REGISTRY_TENANT_REFUSED;
    found = registry_find_both(registry, tenant, (struct str){answer->device, answer->device_n});
    if (found.tenant && found.tenant->is_enabled && !registry_has_adapter(found.tenant, login->adapter))
        return REGISTRY_ADAPTER_DISABLED;
    if (!found.tenant || !found.device) /* another instance may have just made it */
        return registry->view && registry_view_catch_up(registry->view, login->wait) ? REGISTRY_PENDING
                                                                                     : REGISTRY_BAD_CREDENTIALS;
    if (!found.tenant->is_enabled)
        return REGISTRY_BAD_CREDENTIALS;
    if (login->out_expires_at_s)
        *login->out_expires_at_s = answer->expires_at_s;
    return registry_let_in(&found, out_principal);
}

/* False: there is no verdict. */
static bool use(struct registry *registry, const struct registry_login *login, enum authority_verdict verdict,
                const struct authority_answer *answer, struct principal *out_principal, enum registry_result *out_result)
{
    switch (verdict) {
    case AUTHORITY_NONE:
        return false;
    case AUTHORITY_ALLOWED:
        *out_result = let_in(registry, login, answer, out_principal);
        break;
    case AUTHORITY_DENIED:
        *out_result = REGISTRY_BAD_CREDENTIALS;
        break;
    case AUTHORITY_UNAVAILABLE:
        *out_result = REGISTRY_UNAVAILABLE;
        break;
    case AUTHORITY_PENDING:
        *out_result = REGISTRY_PENDING;
        break;
    }
    return true;
}

bool authority_login_judge_token(struct registry *registry, const struct registry_login *login, struct principal *out_principal,
                                 enum registry_result *out_result)
{
    struct authority *authority = registry->authority;
    struct authority_answer answer;
    enum authority_verdict verdict;

    if (!authority || !registry->config->authentication.jwks.url.n || !login->token.n)
        return false;
    verdict = authority->judge_token(authority, registry->config, login, &answer);
    return use(registry, login, verdict, &answer, out_principal, out_result);
}

bool authority_login_has_webhook(const struct registry *registry, const struct registry_login *login)
{
    bool has_name = login->has_user_name && login->user_name.n;

    return registry->authority && registry->config->authentication.webhook.url.n && (has_name || login->token.n);
}

bool authority_login_ask_webhook(struct registry *registry, const struct registry_login *login, struct principal *out_principal,
                                 enum registry_result *out_result)
{
    struct authority_answer answer;
    enum authority_verdict verdict;

    if (login->is_tenant_fixed && !str_equal(tenant_of(login), login->tenant)) {
        *out_result = REGISTRY_TENANT_REFUSED;
        return true;
    }
    verdict = registry->authority->ask_webhook(registry->authority, registry->config, login, &answer);
    return use(registry, login, verdict, &answer, out_principal, out_result);
}
