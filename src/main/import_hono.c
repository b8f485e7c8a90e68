#include "main/import_hono.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "registry/credentials_document.h"
#include "registry/device_document.h"
#include "registry/tenant_document.h"

/* A file on its way into the list. */
struct reader {
    struct import_list *list;
    struct import_place place; /* where the value begins */
};

#define LOST(r, ...) import_list_tell((r)->list, IMPORT_LOST, (r)->place, __VA_ARGS__)

/* --- documents as this registry takes them --- */

/* What a document belongs to, for messages. */
struct owner {
    struct str tenant, device; /* device empty: the tenant itself */
};

static void tell_member(struct reader *r, enum import_kind kind, const struct owner *owner, const struct schema *schema,
                        const char *name)
{
    import_list_tell(r->list, kind, r->place, "%.*s%s%.*s: %s.%s %s", STR_ARG(owner->tenant), owner->device.n ? "/" : "",
                     STR_ARG(owner->device), schema->name, name, kind == IMPORT_MOVED ? "is in ext now" : "is left out");
}

static const struct schema_member *find_member(const struct schema *schema, const char *name)
{
    for (size_t i = 0; i < schema->count; i++)
        if (strcmp(schema->members[i].name, name) == 0)
            return &schema->members[i];
    return NULL;
}

/* Puts a member that the schema does not have into `ext`, if there is such a thing. */
static enum import_kind move_to_ext(const struct schema *schema, json_t *object, const char *name, json_t *value)
{
    json_t *ext = json_object_get(object, "ext");

    if (!find_member(schema, "ext") || (ext && (!json_is_object(ext) || json_object_get(ext, name))))
        return IMPORT_LOST;
    if (!ext) {
        ext = json_object();
        document_set(object, "ext", ext);
    }
    document_set(ext, name, json_incref(value));
    return IMPORT_MOVED;
}

static void fit(struct reader *r, const struct owner *owner, const struct schema *schema, json_t *object);

static void fit_member(struct reader *r, const struct owner *owner, const struct schema_member *member, json_t *value)
{
    if (member->type == SCHEMA_OBJECT)
        fit(r, owner, member->of, value);
    for (size_t i = 0; member->type == SCHEMA_LIST && i < json_array_size(value); i++)
        fit(r, owner, member->of, json_array_get(value, i));
}

/* Brings an object into the form of the schema, as far as that is a matter of which members there are; null is none. */
static void fit(struct reader *r, const struct owner *owner, const struct schema *schema, json_t *object)
{
    json_t *members = json_copy(object), *value;
    const char *name;

    json_object_foreach(members, name, value)
    {
        const struct schema_member *member = find_member(schema, name);

        if (member && !json_is_null(value)) {
            fit_member(r, owner, member, value);
            continue;
        }
        if (!member && !json_is_null(value))
            tell_member(r, move_to_ext(schema, object, name, value), owner, schema, name);
        (void)json_object_del(object, name); /* it is there */
    }
    json_decref(members);
}

static void remove_members(json_t *object, const char *const *names)
{
    for (; *names; names++)
        (void)json_object_del(object, *names); /* or there is none */
}

/* --- tenants --- */

static bool is_wanted(struct reader *r, struct str tenant, size_t *n_skipped)
{
    if (import_list_wants(r->list, tenant))
        return true;
    ++*n_skipped;
    return false;
}

/* Takes a copy of the document, which may have been of a file-based registry before Hono 1.0: with one CA. */
static void take_tenant(struct reader *r, struct str id, const json_t *document)
{
    static const char *const others[] = {"tenant-id", "id", "_id", NULL};
    const struct owner owner = {.tenant = id};
    struct import_tenant *ten;
    json_t *copy, *ca;

    if (id.n == 0) {
        r->list->n_failed_tenants++;
        LOST(r, "a tenant has no id");
        return;
    }
    if (!is_wanted(r, id, &r->list->n_skipped_tenants))
        return;
    ten = import_list_tenant(r->list, id);
    if (ten->document) {
        r->list->n_failed_tenants++;
        LOST(r, "tenant %.*s is there twice", STR_ARG(id));
        return;
    }
    copy = json_deep_copy(document);
    remove_members(copy, others);
    ca = json_object_get(copy, "trusted-ca");
    if (json_is_object(ca)) {
        json_t *list = json_array();

        ASSERT(json_array_append(list, ca) == 0);
        document_set(copy, "trusted-ca", list);
    }
    fit(r, &owner, &tenant_schema, copy);
    ten->document = copy;
    ten->place = r->place;
    r->list->n_tenants++;
}

/* --- devices --- */

static bool is_unfit(struct reader *r, struct str tenant, struct str device)
{
    if (tenant.n && device.n)
        return false;
    r->list->n_failed_devices++;
    if (tenant.n)
        LOST(r, "a device of %.*s has no id", STR_ARG(tenant));
    else
        LOST(r, "the tenant of %.*s is not known: --tenant says it", STR_ARG(device));
    return true;
}

static struct import_device *find_or_add(struct reader *r, struct str tenant, struct str device)
{
    struct import_device *d = import_list_find(r->list, tenant, device);

    return d ? d : import_list_add(r->list, tenant, device, r->place);
}

static void take_device(struct reader *r, struct str tenant, struct str id, const json_t *document)
{
    static const char *const others[] = {"id", NULL};
    const struct owner owner = {tenant, id};
    struct import_device *d;
    json_t *copy;

    if (is_unfit(r, tenant, id) || !is_wanted(r, tenant, &r->list->n_skipped_devices))
        return;
    d = import_list_find(r->list, tenant, id);
    if (d && d->device) {
        r->list->n_failed_devices++;
        LOST(r, "%.*s/%.*s is there twice", STR_ARG(tenant), STR_ARG(id));
        return;
    }
    d = find_or_add(r, tenant, id);
    d->place = r->place;
    copy = json_is_object(document) ? json_deep_copy(document) : json_object();
    remove_members(copy, others);
    fit(r, &owner, &device_schema, copy);
    import_list_set_device(d, copy);
    json_decref(copy);
}

static void take_account(struct reader *r, struct str tenant, struct str id, const json_t *entry)
{
    static const char *const others[] = {"device-id", NULL};
    const struct owner owner = {tenant, id};
    struct str type = document_get_text(entry, "type");
    enum credentials_type found = credentials_document_find_type(type);
    json_t *copy;

    if (found == CREDENTIALS_TYPES) {
        LOST(r, "%.*s/%.*s: there are no credentials of the type %.*s here", STR_ARG(tenant), STR_ARG(id), STR_ARG(type));
        return;
    }
    copy = json_deep_copy(entry);
    remove_members(copy, others);
    fit(r, &owner, credentials_document_schema(found), copy);
    import_list_add_credentials(find_or_add(r, tenant, id), copy);
    json_decref(copy);
}

static void take_credentials(struct reader *r, struct str tenant, struct str id, const json_t *credentials)
{
    if (!import_list_wants(r->list, tenant))
        return; /* it is counted with its device */
    if (!tenant.n || !id.n) {
        LOST(r, "credentials without a tenant or a device");
        return;
    }
    import_list_set_credentials(find_or_add(r, tenant, id));
    for (size_t i = 0; i < json_array_size(credentials); i++)
        take_account(r, tenant, id, json_array_get(credentials, i));
}

/* --- the forms --- */

static struct str asked_tenant(const struct reader *r)
{
    return str_from(r->list->only_tenant);
}

static void tell_others(struct reader *r, const json_t *object, struct str tenant, struct str id, const char *const *known)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        const char *const *k = known;

        while (*k && strcmp(*k, name) != 0)
            k++;
        if (!*k)
            LOST(r, "%.*s/%.*s: %s is left out", STR_ARG(tenant), STR_ARG(id), name);
    }
}

static void take_file_devices(struct reader *r, const json_t *object)
{
    static const char *const known[] = {"device-id", "data", NULL};
    struct str tenant = document_get_text(object, "tenant");
    const json_t *list = json_object_get(object, "devices");

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        struct str id = document_get_text(entry, "device-id");

        if (import_list_wants(r->list, tenant))
            tell_others(r, entry, tenant, id, known);
        take_device(r, tenant, id, json_object_get(entry, "data"));
    }
}

static void take_file_credentials(struct reader *r, const json_t *object)
{
    struct str tenant = document_get_text(object, "tenant");
    const json_t *list = json_object_get(object, "credentials");

    if (!import_list_wants(r->list, tenant))
        return; /* as above */
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        struct str id = document_get_text(entry, "device-id");

        if (tenant.n && id.n)
            take_account(r, tenant, id, entry);
        else
            LOST(r, "credentials without a tenant or a device");
    }
}

static void take_stored_tenant(struct reader *r, const json_t *object)
{
    take_tenant(r, document_get_text(object, "tenant-id"), json_object_get(object, "tenant"));
}

static void take_file_tenant(struct reader *r, const json_t *object)
{
    take_tenant(r, document_get_text(object, "tenant-id"), object);
}

static void take_stored_device(struct reader *r, const json_t *object)
{
    take_device(r, document_get_text(object, "tenant-id"), document_get_text(object, "device-id"),
                json_object_get(object, "device"));
}

static void take_stored_credentials(struct reader *r, const json_t *object)
{
    take_credentials(r, document_get_text(object, "tenant-id"), document_get_text(object, "device-id"),
                     json_object_get(object, "credentials"));
}

static void take_row(struct reader *r, const json_t *object)
{
    struct str id = document_get_text(object, "id");

    if (r->list->only_tenant)
        take_device(r, asked_tenant(r), id, object);
    else
        take_tenant(r, id, object);
}

static void take_line(struct reader *r, const json_t *object)
{
    static const char *const known[] = {"id", "device", "credentials", NULL};
    struct str id = document_get_text(object, "id");

    if (r->list->only_tenant)
        tell_others(r, object, asked_tenant(r), id, known);
    take_device(r, asked_tenant(r), id, json_object_get(object, "device"));
    if (r->list->only_tenant && json_object_get(object, "credentials"))
        take_credentials(r, asked_tenant(r), id, json_object_get(object, "credentials"));
}

static void take_result(struct reader *r, const json_t *object)
{
    const json_t *list = json_object_get(object, "result");

    for (size_t i = 0; i < json_array_size(list); i++)
        take_row(r, json_array_get(list, i));
}

/* The first that fits counts. */
static const struct {
    const char *text, *other_text; /* members that are texts */
    const char *list, *object;     /* and others; NULL: does not matter */
    void (*take)(struct reader *r, const json_t *object);
} forms[] = {
    {"tenant", NULL, "devices", NULL, take_file_devices},
    {"tenant", NULL, "credentials", NULL, take_file_credentials},
    {"tenant-id", "device-id", "credentials", NULL, take_stored_credentials},
    {"tenant-id", "device-id", NULL, "device", take_stored_device},
    {"tenant-id", NULL, NULL, "tenant", take_stored_tenant},
    {"tenant-id", NULL, NULL, NULL, take_file_tenant},
    {NULL, NULL, "result", NULL, take_result},
    {"id", NULL, NULL, "device", take_line},
    {"id", NULL, "credentials", NULL, take_line},
    {"id", NULL, NULL, NULL, take_row},
};

static void take_value(struct reader *r, const json_t *value)
{
    for (size_t i = 0; i < json_array_size(value); i++)
        take_value(r, json_array_get(value, i));
    if (json_is_array(value))
        return;
    for (size_t i = 0; i < ARRAY_LEN(forms); i++)
        if ((!forms[i].text || json_is_string(json_object_get(value, forms[i].text))) &&
            (!forms[i].other_text || json_is_string(json_object_get(value, forms[i].other_text))) &&
            (!forms[i].list || json_is_array(json_object_get(value, forms[i].list))) &&
            (!forms[i].object || json_is_object(json_object_get(value, forms[i].object)))) {
            forms[i].take(r, value);
            return;
        }
    r->list->n_failed_devices++;
    LOST(r, "is neither a tenant nor a device nor credentials in any form that is known");
}

/* --- files --- */

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Moves the place over `n` bytes and white space. */
static void skip(struct reader *r, struct str *rest, size_t n)
{
    size_t i = 0;

    while (i < rest->n && (i < n || is_space(rest->p[i])))
        r->place.line += rest->p[i++] == '\n';
    *rest = str_from_offset(*rest, i);
}

err import_hono_read(struct import_list *l, const char *file, struct str text, struct errinfo *ei)
{
    struct reader r = {l, {file, 1}};

    skip(&r, &text, 0);
    while (text.n) {
        json_error_t error;
        json_t *value = json_loadb(text.p, text.n, JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &error);

        if (!value)
            return errinfo_set(ei, E_INVAL, "%s:%u: %s", file, r.place.line + (unsigned)error.line - 1, error.text);
        take_value(&r, value);
        json_decref(value);
        skip(&r, &text, (size_t)error.position);
    }
    return E_OK;
}

void import_hono_check(struct import_list *l)
{
    for (struct import_tenant *ten = l->tenants; ten; ten = ten->next)
        for (struct import_device *d = ten->first; d; d = d->next) {
            d->is_orphan = !d->device;
            if (d->is_orphan)
                import_list_tell(l, IMPORT_LOST, d->place, "%s/%s: the device of these credentials is in none of the files",
                                 ten->id, d->id);
        }
}
