#include "registry/credentials_compare.h"

#include "base/check.h"
#include "registry/credentials_document.h"

/* Whether two objects have the same members, apart from those that `ignored` names. */
static bool are_members_equal(const json_t *a, const json_t *b, const char *const *ignored)
{
    json_t *left = json_copy((json_t *)(uintptr_t)a), *right = json_copy((json_t *)(uintptr_t)b);
    bool is_equal;

    ASSERT(left && right);
    for (; *ignored; ignored++) {
        (void)json_object_del(left, *ignored); /* or there is none */
        (void)json_object_del(right, *ignored);
    }
    is_equal = json_equal(left, right);
    json_decref(left);
    json_decref(right);
    return is_equal;
}

static bool is_same_account(const json_t *a, const json_t *b)
{
    static const char *const of_accounts[] = {"secrets", "issuer-dn", NULL}, *const of_secrets[] = {"id", CREDENTIALS_NEW_MARK,
                                                                                                    NULL};
    const json_t *left = json_object_get(a, "secrets"), *right = json_object_get(b, "secrets");
    bool is_same = are_members_equal(a, b, of_accounts) && json_array_size(left) == json_array_size(right);

    for (size_t i = 0; i < json_array_size(left) && is_same; i++)
        is_same = are_members_equal(json_array_get(left, i), json_array_get(right, i), of_secrets);
    return is_same;
}

bool credentials_compare_equal(const json_t *a, const json_t *b)
{
    bool is_equal = json_array_size(a) == json_array_size(b);

    for (size_t i = 0; i < json_array_size(a) && is_equal; i++) {
        const json_t *entry = json_array_get(a, i);
        const json_t *other =
            credentials_document_find(b, document_get_text(entry, "type"), document_get_text(entry, "auth-id"));

        is_equal = other && is_same_account(entry, other);
    }
    return is_equal;
}
