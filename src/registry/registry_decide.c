#include "registry/registry_decide.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "registry/credentials_document.h"
#include "registry/dn.h"
#include "registry/registry_key.h"
#include "registry/registry_request.h"
#include "registry/tenant_document.h"

enum { COUNT_BYTES = 24 };

/* One request under way. */
struct decision {
    struct table_txn *txn;
    const json_t *request;
    struct str tenant, device; /* ids; empty: the request has none */
    struct registry_reply reply;
};

#define REFUSE(d, status, place, ...) document_refuse(&(d)->reply.fault, (status), (place), __VA_ARGS__)

/* --- states --- */

/* The state under a key; NULL: none, or `*out_e` is an error. The caller owns it. */
static json_t *load(struct decision *d, struct registry_key key, err *out_e)
{
    struct str value;
    json_t *state;

    if (!table_txn_get(d->txn, registry_key_str(&key), &value))
        return NULL;
    state = json_loadb(value.p, value.n, 0, NULL);
    if (document_get_integer(state, "v", 0) == REGISTRY_FORMAT)
        return state;
    json_decref(state);
    *out_e = REFUSE(d, 503, NULL, "%.*s was written by a later version of the program", STR_ARG(registry_key_str(&key)));
    return NULL;
}

static err put(struct decision *d, struct registry_key key, struct str value)
{
    if (table_txn_put(d->txn, registry_key_str(&key), value) != E_OK)
        return REFUSE(d, 413, NULL, "too large to be stored");
    return E_OK;
}

static err put_state(struct decision *d, struct registry_key key, const json_t *state)
{
    char *text = json_dumps(state, JSON_COMPACT | JSON_SORT_KEYS);
    err e;

    ASSERT(text);
    e = put(d, key, str_from(text));
    explicit_bzero(text, strlen(text)); /* it may have keys */
    free(text);
    return e;
}

static err drop(struct decision *d, struct registry_key key)
{
    if (table_txn_remove(d->txn, registry_key_str(&key)) != E_OK)
        return REFUSE(d, 413, NULL, "too large to be stored");
    return E_OK;
}

static json_t *new_state(const struct decision *d, json_t *document)
{
    json_t *state = json_object();

    document_set(state, "v", json_integer(REGISTRY_FORMAT));
    document_set_text(state, "version", document_get_text(d->request, "version"));
    document_set(state, "document", json_incref(document));
    return state;
}

/* The tenant, unless it is being deleted. The caller owns it; NULL: 404. */
static json_t *load_tenant(struct decision *d)
{
    err e = E_OK;
    json_t *state = load(d, registry_key_tenant(d->tenant), &e);

    if (state && !json_object_get(state, "deleting"))
        return state;
    json_decref(state);
    ERR_IGNORE(REFUSE(d, 404, NULL, "there is no tenant %.*s", STR_ARG(d->tenant))); /* it is told by the NULL, too */
    return NULL;
}

static json_t *load_device(struct decision *d)
{
    err e = E_OK;
    json_t *state = load(d, registry_key_device(d->tenant, d->device), &e);

    if (!state)
        ERR_IGNORE(REFUSE(d, 404, NULL, "there is no device %.*s", STR_ARG(d->device))); /* as above */
    return state;
}

static err check_version(struct decision *d, const json_t *state)
{
    struct str want = document_get_text(d->request, "if-match");

    if (want.p && !str_equal(want, document_get_text(state, "version")))
        return REFUSE(d, 412, NULL, "another version is there");
    return E_OK;
}

/* --- what belongs to one tenant only --- */

static err check_alias(struct decision *d, struct str alias)
{
    struct registry_key key = registry_key_alias(alias), other_key = registry_key_tenant(alias);
    struct document_place here = document_member(NULL, "alias");
    struct str owner;

    if (table_txn_get(d->txn, registry_key_str(&key), &owner) && !str_equal(owner, d->tenant))
        return REFUSE(d, 409, &here, "is that of another tenant");
    if (!str_equal(alias, d->tenant) && table_txn_get(d->txn, registry_key_str(&other_key), &owner))
        return REFUSE(d, 409, &here, "is the id of another tenant");
    return E_OK;
}

/* Tenants that trust one CA are of one group, so any of the others tells. */
static err check_subject(struct decision *d, struct str dn, struct str group, const struct document_place *place)
{
    struct registry_key prefix = registry_key_subject(dn, (struct str){0}), own = registry_key_subject(dn, d->tenant);
    struct str after = {0};
    struct table_item item;

    while (table_txn_next(d->txn, registry_key_str(&prefix), after, &item)) {
        after = item.key;
        if (str_equal(item.key, registry_key_str(&own)))
            continue;
        if (group.n == 0 || !str_equal(item.value, group))
            return REFUSE(d, 409, place, "is trusted by another tenant that is not of the same trust-anchor-group");
        return E_OK;
    }
    return E_OK;
}

static err put_tenant_indices(struct decision *d, const json_t *tenant)
{
    struct document_place list = document_member(NULL, "trusted-ca");
    struct str alias = document_get_text(tenant, "alias"), group = document_get_text(tenant, "trust-anchor-group");
    const json_t *cas = json_object_get(tenant, "trusted-ca");

    if (alias.n && (check_alias(d, alias) != E_OK || put(d, registry_key_alias(alias), d->tenant) != E_OK))
        return E_INVAL;
    for (size_t i = 0; i < json_array_size(cas); i++) {
        struct document_place element = document_element(&list, i), here = document_member(&element, "subject-dn");
        struct str dn = document_get_text(json_array_get(cas, i), "subject-dn");

        if (check_subject(d, dn, group, &here) != E_OK)
            return E_INVAL;
        if (put(d, registry_key_subject(dn, d->tenant), group.n ? group : STR("-")) != E_OK)
            return E_INVAL;
    }
    return E_OK;
}

static err drop_tenant_indices(struct decision *d, const json_t *tenant)
{
    struct str alias = document_get_text(tenant, "alias");
    const json_t *cas = json_object_get(tenant, "trusted-ca");
    err e = alias.n ? drop(d, registry_key_alias(alias)) : E_OK;

    for (size_t i = 0; i < json_array_size(cas) && e == E_OK; i++)
        e = drop(d, registry_key_subject(document_get_text(json_array_get(cas, i), "subject-dn"), d->tenant));
    return e;
}

/* --- devices --- */

static int64_t device_count(struct decision *d)
{
    struct registry_key key = registry_key_count(d->tenant);
    struct str value;
    uint64_t n = 0;

    if (table_txn_get(d->txn, registry_key_str(&key), &value) && !str_to_u64(value, INT64_MAX, &n))
        n = 0;
    return (int64_t)n;
}

static err set_device_count(struct decision *d, int64_t n)
{
    char text[COUNT_BYTES];

    if (n <= 0)
        return drop(d, registry_key_count(d->tenant));
    (void)snprintf(text, sizeof text, "%lld", (long long)n); /* fits */
    return put(d, registry_key_count(d->tenant), str_from(text));
}

typedef struct registry_key (*relation)(struct str tenant, struct str other, struct str device);

static const struct {
    const char *member;
    relation key;
} relations[] = {
    {"via", registry_key_via},
    {"memberOf", registry_key_member},
};

/* Adds or removes the keys by which a device is found from its gateways and groups. */
static err set_relations(struct decision *d, const json_t *device, struct str id, bool is_there)
{
    err e = E_OK;

    for (size_t r = 0; r < ARRAY_LEN(relations); r++) {
        const json_t *others = json_object_get(device, relations[r].member);

        for (size_t i = 0; i < json_array_size(others) && e == E_OK; i++) {
            struct registry_key key = relations[r].key(d->tenant, document_text(json_array_get(others, i)), id);

            e = is_there ? put(d, key, STR("1")) : drop(d, key);
        }
    }
    return e;
}

static err drop_logins(struct decision *d, const json_t *credentials)
{
    err e = E_OK;

    for (size_t i = 0; i < json_array_size(credentials) && e == E_OK; i++) {
        const json_t *entry = json_array_get(credentials, i);

        e = drop(d, registry_key_login(d->tenant, document_get_text(entry, "type"), document_get_text(entry, "auth-id")));
    }
    return e;
}

/* Removes a device with all that belongs to it, but does not count. */
static err drop_device(struct decision *d, struct str id)
{
    err e = E_OK;
    json_t *device = load(d, registry_key_device(d->tenant, id), &e);
    json_t *credentials = e == E_OK ? load(d, registry_key_credentials(d->tenant, id), &e) : NULL;

    if (e == E_OK)
        e = set_relations(d, json_object_get(device, "document"), id, false);
    if (e == E_OK && credentials) {
        e = drop_logins(d, json_object_get(credentials, "document"));
        if (e == E_OK)
            e = drop(d, registry_key_credentials(d->tenant, id));
    }
    if (e == E_OK)
        e = drop(d, registry_key_device(d->tenant, id));
    json_decref(device);
    json_decref(credentials);
    return e;
}

/* Removes some devices of the tenant; says whether there are others. */
static err drop_devices(struct decision *d)
{
    struct registry_key prefix = registry_key_device(d->tenant, (struct str){0}), after = {0};
    struct table_item item;
    int64_t n = 0;

    while (table_txn_next(d->txn, registry_key_str(&prefix), registry_key_str(&after), &item)) {
        if (n == REGISTRY_DELETED_AT_ONCE) {
            d->reply.has_more = true;
            break;
        }
        ASSERT(item.key.n <= sizeof after.text);
        after.n = item.key.n;
        memcpy(after.text, item.key.p, item.key.n);
        if (drop_device(d, str_from_offset(registry_key_str(&after), prefix.n)) != E_OK)
            return E_INVAL;
        n++;
    }
    return n ? set_device_count(d, d->reply.has_more ? device_count(d) - n : 0) : E_OK;
}

/* The status that is kept with a device. */
static json_t *new_status(const struct decision *d, const json_t *before)
{
    json_t *status = before ? json_copy(json_object_get(before, "status")) : NULL;
    struct str at = document_get_text(d->request, "at"), user = document_get_text(d->request, "user");

    if (!status)
        status = json_object();
    document_set_text(status, before ? "updated" : "created", at);
    if (user.n)
        document_set_text(status, "last-user", user);
    if (!before && str_equal(document_get_text(d->request, "source"), STR("device")))
        document_set(status, "auto-provisioned", json_true());
    return status;
}

/* --- credentials --- */

/* The auth-id that a CA's template makes of a certificate's name. */
static err apply_template(struct decision *d, json_t *entry, const json_t *tenant, const struct document_place *place)
{
    struct document_place here = document_member(place, "cert");
    const json_t *ca = tenant_document_find_ca(tenant, document_get_text(entry, "issuer-dn"));
    struct str form = document_get_text(ca, "auth-id-template");
    char auth_id[DN_BYTES];
    size_t n;

    (void)json_object_del(entry, "issuer-dn"); /* it is there */
    if (!form.n)
        return E_OK;
    if (dn_expand(form, document_get_text(entry, "auth-id"), auth_id, &n) != E_OK || n == 0)
        return REFUSE(d, 400, &here, "has a name of which the CA's auth-id-template makes no auth-id");
    document_set_text(entry, "auth-id", (struct str){auth_id, n});
    return E_OK;
}

static err put_login(struct decision *d, const json_t *entry, const struct document_place *place)
{
    struct document_place here = document_member(place, "auth-id");
    struct registry_key key =
        registry_key_login(d->tenant, document_get_text(entry, "type"), document_get_text(entry, "auth-id"));
    struct str owner;

    if (table_txn_get(d->txn, registry_key_str(&key), &owner))
        return REFUSE(d, 409, &here, "is used by %s with this type",
                      str_equal(owner, d->device) ? "another element" : "another device");
    return put(d, key, d->device);
}

/* Puts `credentials` in the place of what the device has. `tenant` is the document of the tenant. */
static err put_credentials(struct decision *d, json_t *credentials, const json_t *tenant)
{
    err e = E_OK;
    json_t *before = load(d, registry_key_credentials(d->tenant, d->device), &e), *state;
    const json_t *stored = json_object_get(before, "document");
    int64_t max = document_get_integer(json_object_get(tenant, "registration-limits"), "max-credentials-per-device", -1);

    if (e == E_OK && max >= 0 && (int64_t)json_array_size(credentials) > max)
        e = REFUSE(d, 403, NULL, "the tenant allows %lld credentials for each device", (long long)max);
    if (e == E_OK)
        e = credentials_document_merge(credentials, stored, &d->reply.fault);
    if (e == E_OK)
        e = drop_logins(d, stored);
    for (size_t i = 0; i < json_array_size(credentials) && e == E_OK; i++) {
        struct document_place here = document_element(NULL, i);
        json_t *entry = json_array_get(credentials, i);

        if (json_object_get(entry, "issuer-dn"))
            e = apply_template(d, entry, tenant, &here);
        if (e == E_OK)
            e = put_login(d, entry, &here);
    }
    if (e == E_OK) {
        state = new_state(d, credentials);
        if (before)
            document_set_text(state, "updated", document_get_text(d->request, "at"));
        e = put_state(d, registry_key_credentials(d->tenant, d->device), state);
        json_decref(state);
    }
    json_decref(before);
    return e;
}

/* --- the requests --- */

static err put_tenant(struct decision *d, const json_t *before)
{
    json_t *document = json_object_get(d->request, "document"), *state = new_state(d, document);
    err e = put_tenant_indices(d, document);

    document_set_text(state, before ? "updated" : "created", document_get_text(d->request, "at"));
    if (before)
        document_set_text(state, "created", document_get_text(before, "created"));
    document_set_text(state, "source", document_get_text(d->request, "source"));
    if (e == E_OK)
        e = put_state(d, registry_key_tenant(d->tenant), state);
    json_decref(state);
    return e;
}

static err create_tenant(struct decision *d)
{
    struct registry_key key = registry_key_tenant(d->tenant), alias_key = registry_key_alias(d->tenant);
    struct str there;

    if (table_txn_get(d->txn, registry_key_str(&key), &there))
        return REFUSE(d, 409, NULL, "there is a tenant %.*s", STR_ARG(d->tenant));
    if (table_txn_get(d->txn, registry_key_str(&alias_key), &there))
        return REFUSE(d, 409, NULL, "%.*s is the alias of a tenant", STR_ARG(d->tenant));
    return put_tenant(d, NULL);
}

static err update_tenant(struct decision *d)
{
    json_t *before = load_tenant(d);
    err e = before ? check_version(d, before) : E_INVAL;

    if (e == E_OK)
        e = drop_tenant_indices(d, json_object_get(before, "document"));
    if (e == E_OK)
        e = put_tenant(d, before);
    json_decref(before);
    return e;
}

/* With many devices it takes several decisions; from the first on there is no such tenant for anybody else. */
static err delete_tenant(struct decision *d)
{
    err e = E_OK;
    json_t *state = load(d, registry_key_tenant(d->tenant), &e);
    bool is_deleting = json_object_get(state, "deleting");

    if (e == E_OK && !state)
        e = REFUSE(d, 404, NULL, "there is no tenant %.*s", STR_ARG(d->tenant));
    if (e == E_OK && !is_deleting) {
        e = check_version(d, state);
        if (e == E_OK)
            e = drop_tenant_indices(d, json_object_get(state, "document"));
    }
    if (e == E_OK)
        e = drop_devices(d);
    if (e == E_OK && !d->reply.has_more) {
        e = drop(d, registry_key_tenant(d->tenant));
    } else if (e == E_OK && !is_deleting) {
        document_set(state, "deleting", json_true());
        e = put_state(d, registry_key_tenant(d->tenant), state);
    }
    json_decref(state);
    return e;
}

static err put_device(struct decision *d, const json_t *before)
{
    json_t *document = json_object_get(d->request, "document"), *state = new_state(d, document);
    err e;

    document_set(state, "status", new_status(d, before));
    document_set_text(state, "source", document_get_text(d->request, "source"));
    e = put_state(d, registry_key_device(d->tenant, d->device), state);
    json_decref(state);
    return e == E_OK ? set_relations(d, document, d->device, true) : e;
}

static err create_device(struct decision *d)
{
    struct registry_key key = registry_key_device(d->tenant, d->device);
    json_t *state = load_tenant(d), *credentials = json_object_get(d->request, "credentials");
    const json_t *tenant = json_object_get(state, "document");
    int64_t max = document_get_integer(json_object_get(tenant, "registration-limits"), "max-devices", -1), n;
    err e = state ? E_OK : E_INVAL;
    struct str there;

    n = e == E_OK ? device_count(d) : 0;
    if (e == E_OK && table_txn_get(d->txn, registry_key_str(&key), &there))
        e = REFUSE(d, 409, NULL, "there is a device %.*s", STR_ARG(d->device));
    if (e == E_OK && max >= 0 && n >= max)
        e = REFUSE(d, 403, NULL, "the tenant allows %lld devices", (long long)max);
    if (e == E_OK)
        e = put_device(d, NULL);
    if (e == E_OK && credentials)
        e = put_credentials(d, credentials, tenant);
    if (e == E_OK)
        e = set_device_count(d, n + 1);
    json_decref(state);
    return e;
}

static err update_device(struct decision *d)
{
    json_t *tenant = load_tenant(d), *before = tenant ? load_device(d) : NULL;
    err e = before ? check_version(d, before) : E_INVAL;

    if (e == E_OK)
        e = set_relations(d, json_object_get(before, "document"), d->device, false);
    if (e == E_OK)
        e = put_device(d, before);
    json_decref(tenant);
    json_decref(before);
    return e;
}

static err delete_device(struct decision *d)
{
    json_t *tenant = load_tenant(d), *before = tenant ? load_device(d) : NULL;
    err e = before ? check_version(d, before) : E_INVAL;

    if (e == E_OK)
        e = drop_device(d, d->device);
    if (e == E_OK)
        e = set_device_count(d, device_count(d) - 1);
    json_decref(tenant);
    json_decref(before);
    return e;
}

static err delete_devices(struct decision *d)
{
    json_t *tenant = load_tenant(d);
    err e = tenant ? drop_devices(d) : E_INVAL;

    json_decref(tenant);
    return e;
}

/* A device that came from the configuration belongs to whoever changes it, with its log-ins. */
static err take_over(struct decision *d, json_t *device)
{
    if (!str_equal(document_get_text(device, "source"), STR("configuration")))
        return E_OK;
    document_set_text(device, "source", document_get_text(d->request, "source"));
    return put_state(d, registry_key_device(d->tenant, d->device), device);
}

/* The version of credentials that were never written is that of their device. */
static err update_credentials(struct decision *d)
{
    json_t *tenant = load_tenant(d), *device = tenant ? load_device(d) : NULL, *before = NULL;
    err e = device ? E_OK : E_INVAL;

    if (e == E_OK)
        before = load(d, registry_key_credentials(d->tenant, d->device), &e);
    if (e == E_OK)
        e = check_version(d, before ? before : device);
    if (e == E_OK)
        e = take_over(d, device);
    if (e == E_OK)
        e = put_credentials(d, json_object_get(d->request, "document"), json_object_get(tenant, "document"));
    json_decref(tenant);
    json_decref(device);
    json_decref(before);
    return e;
}

static err (*const requests[REGISTRY_OPS])(struct decision *d) = {
    [REGISTRY_TENANT_CREATE] = create_tenant,   [REGISTRY_TENANT_UPDATE] = update_tenant,
    [REGISTRY_TENANT_DELETE] = delete_tenant,   [REGISTRY_DEVICE_CREATE] = create_device,
    [REGISTRY_DEVICE_UPDATE] = update_device,   [REGISTRY_DEVICE_DELETE] = delete_device,
    [REGISTRY_DEVICES_DELETE] = delete_devices, [REGISTRY_CREDENTIALS_UPDATE] = update_credentials,
};

static bool is_list(enum registry_op op)
{
    return op == REGISTRY_CREDENTIALS_UPDATE;
}

/* Requests come from instances of this program, perhaps of another version, so their form is looked at once more. */
static err decide(struct decision *d)
{
    struct str op = document_get_text(d->request, "op");
    const json_t *document = json_object_get(d->request, "document");
    bool needs_device = str_starts_with(op, STR("device-")) || str_starts_with(op, STR("credentials-"));
    bool needs_document = op.n && !str_equal(str_from_offset(op, op.n - STR("delete").n), STR("delete"));

    d->tenant = document_get_text(d->request, "tenant");
    d->device = document_get_text(d->request, "device");
    if (document_get_integer(d->request, "v", 0) != REGISTRY_FORMAT)
        return REFUSE(d, 503, NULL, "the request is of another version of the program");
    if (schema_check_tenant_id(d->tenant, &d->reply.fault) != E_OK ||
        (needs_device && schema_check_device_id(d->device, &d->reply.fault) != E_OK))
        return E_INVAL;
    for (int i = 0; i < REGISTRY_OPS; i++) {
        if (!str_equal(op, str_from(registry_request_op_name((enum registry_op)i))))
            continue;
        if (needs_document && !(is_list((enum registry_op)i) ? json_is_array(document) : json_is_object(document)))
            return REFUSE(d, 400, NULL, "the request has no document");
        return requests[i](d);
    }
    return REFUSE(d, 503, NULL, "the request is of another version of the program");
}

enum table_verdict registry_decide(void *context, struct table_txn *txn, struct str request, struct buf *out_reply)
{
    struct decision d = {.txn = txn};
    json_t *object = json_loadb(request.p ? request.p : "", request.n, JSON_REJECT_DUPLICATES, NULL);
    enum table_verdict verdict;

    (void)context;
    d.request = object;
    verdict = decide(&d) == E_OK ? TABLE_ACCEPTED : TABLE_REFUSED;
    if (registry_request_write_reply(&d.reply, out_reply) != E_OK)
        verdict = TABLE_REFUSED; /* an accepted change that is not told would be taken for a failed one */
    json_decref(object);
    return verdict;
}
