#include "admin/manage_auth.h"

#include <string.h>

#include "base/base64.h"

enum { MAX_ENCODED_BYTES = 4096 };

/* Everybody is looked at, whoever it is, so that the time does not tell which names there are. */
static const struct config_admin_user *find_by_password(const struct config_admin_user *users, size_t count, struct str name,
                                                        struct str password)
{
    const struct config_admin_user *found = NULL;

    for (size_t i = 0; i < count; i++) {
        bool is_right = str_equal_secret(users[i].password, password);

        if (str_equal(users[i].id, name) && users[i].password.n && is_right)
            found = &users[i];
    }
    return found;
}

static const struct config_admin_user *find_by_token(const struct config_admin_user *users, size_t count, struct str token)
{
    const struct config_admin_user *found = NULL;

    for (size_t i = 0; i < count; i++)
        if (str_equal_secret(users[i].token, token) && token.n)
            found = &users[i];
    return found;
}

static const struct config_admin_user *find_basic(const struct config_admin_user *users, size_t count, struct str encoded)
{
    char decoded[BASE64_DECODED_BYTES(MAX_ENCODED_BYTES)];
    const struct config_admin_user *user = NULL;
    struct str text = {decoded, 0}, name;
    bool has_colon;

    if (encoded.n > MAX_ENCODED_BYTES || !base64_decode(encoded, decoded, &text.n))
        return NULL;
    name = str_take(&text, ':', &has_colon);
    if (has_colon)
        user = find_by_password(users, count, name, text);
    explicit_bzero(decoded, sizeof decoded);
    return user;
}

static const struct config_admin_user *find_user(const struct config_admin_user *users, size_t count,
                                                 const struct http_request *r)
{
    struct str value = http_message_header(r, STR("Authorization")), scheme;
    bool has_rest;

    if (!value.p)
        return NULL;
    scheme = str_take(&value, ' ', &has_rest);
    while (value.n && value.p[0] == ' ')
        value = str_from_offset(value, 1);
    if (str_equal_nocase(scheme, STR("Basic")))
        return find_basic(users, count, value);
    if (str_equal_nocase(scheme, STR("Bearer")))
        return find_by_token(users, count, value);
    return NULL;
}

static bool may_touch(const struct config_admin_user *user, struct str tenant)
{
    if (user->tenants.count == 0)
        return true;
    for (size_t i = 0; i < user->tenants.count; i++)
        if (tenant.n && str_equal(user->tenants.items[i], tenant))
            return true;
    return false;
}

enum manage_auth manage_auth_check(const struct config_admin_user *users, size_t count, const struct http_request *r,
                                   bool is_write, struct str tenant, const struct config_admin_user **out_user)
{
    *out_user = NULL;
    if (count == 0)
        return MANAGE_AUTH_OK;
    *out_user = find_user(users, count, r);
    if (!*out_user)
        return MANAGE_AUTH_UNKNOWN;
    if ((is_write && (*out_user)->role != CONFIG_ROLE_WRITE) || !may_touch(*out_user, tenant))
        return MANAGE_AUTH_DENIED;
    return MANAGE_AUTH_OK;
}
