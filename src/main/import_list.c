#include "main/import_list.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/siphash.h"

enum { NOTE_BYTES = 1024 };

void import_list_tell(struct import_list *l, enum import_kind kind, struct import_place place, const char *format, ...)
{
    char text[NOTE_BYTES];
    va_list args;

    l->n_lost += kind == IMPORT_LOST;
    if (!l->tell)
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args); /* what does not fit is cut */
    va_end(args);
    l->tell(l->context, kind, place, text);
}

struct import_tenant *import_list_tenant(struct import_list *l, struct str id)
{
    struct import_tenant *ten = l->recent;

    if (ten && str_equal(str_from(ten->id), id))
        return ten;
    for (ten = l->tenants; ten && !str_equal(str_from(ten->id), id);)
        ten = ten->next;
    if (!ten) {
        ten = mem_alloc_zero(MEM_REGISTRY, sizeof *ten);
        ten->id = mem_copy_text(MEM_REGISTRY, id.p, id.n);
        *(l->last ? &l->last->next : &l->tenants) = ten;
        l->last = ten;
    }
    l->recent = ten;
    return ten;
}

bool import_list_wants(const struct import_list *l, struct str tenant)
{
    return !l->only_tenant || str_equal(tenant, str_from(l->only_tenant));
}

struct device_key {
    struct str tenant, id;
};

static bool is_device(const void *entry, const void *key)
{
    const struct import_device *d = entry;
    const struct device_key *k = key;

    return str_equal(str_from(d->id), k->id) && str_equal(str_from(d->tenant->id), k->tenant);
}

struct import_device *import_list_find(const struct import_list *l, struct str tenant, struct str id)
{
    const struct device_key key = {tenant, id};

    return map_find(&l->devices, siphash_pair(tenant, id), &key, is_device);
}

struct import_device *import_list_add(struct import_list *l, struct str tenant, struct str id, struct import_place place)
{
    struct import_device *d = mem_alloc_zero(MEM_REGISTRY, sizeof *d);

    d->tenant = import_list_tenant(l, tenant);
    d->place = place;
    d->id = mem_copy_text(MEM_REGISTRY, id.p, id.n);
    *(d->tenant->last ? &d->tenant->last->next : &d->tenant->first) = d;
    d->tenant->last = d;
    map_add(&l->devices, MEM_REGISTRY, siphash_pair(tenant, id), d);
    l->n_devices++;
    return d;
}

/* The text of a value, in front of it what there was and a comma. */
static char *join(const char *before, const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT), *joined;
    size_t n, n_before = before ? strlen(before) : 0;

    ASSERT(text);
    n = n_before + strlen(text) + 2;
    joined = mem_alloc(MEM_REGISTRY, n);
    (void)snprintf(joined, n, "%s%s%s", n_before ? before : "", n_before ? "," : "", text); /* fits by construction */
    explicit_bzero(text, strlen(text));                                                     /* it may have keys */
    free(text);
    return joined;
}

static void replace(char **text, char *with)
{
    if (*text)
        explicit_bzero(*text, strlen(*text));
    mem_free(MEM_REGISTRY, *text);
    *text = with;
}

void import_list_set_device(struct import_device *d, const json_t *device)
{
    replace(&d->device, join(NULL, device));
}

void import_list_add_credentials(struct import_device *d, const json_t *entry)
{
    replace(&d->credentials, join(d->credentials, entry));
}

void import_list_set_credentials(struct import_device *d)
{
    if (!d->credentials)
        d->credentials = mem_copy_text(MEM_REGISTRY, "", 0);
}

void import_list_add_gateway(struct import_device *d, struct str gateway)
{
    json_t *device = d->device ? json_loads(d->device, 0, NULL) : json_object(), *via = json_object_get(device, "via");
    size_t i = 0;

    ASSERT(device);
    if (!via) {
        via = json_array();
        document_set(device, "via", via);
    }
    while (i < json_array_size(via) && !str_equal(document_text(json_array_get(via, i)), gateway))
        i++;
    if (i == json_array_size(via)) {
        ASSERT(json_array_append_new(via, json_stringn(gateway.p, gateway.n)) == 0);
        import_list_set_device(d, device);
    }
    json_decref(device);
}

static void free_tenant(struct import_tenant *ten)
{
    while (ten->first) {
        struct import_device *d = ten->first;

        ten->first = d->next;
        replace(&d->device, NULL);
        replace(&d->credentials, NULL);
        mem_free(MEM_REGISTRY, d->id);
        mem_free(MEM_REGISTRY, d);
    }
    json_decref(ten->document);
    mem_free(MEM_REGISTRY, ten->id);
    mem_free(MEM_REGISTRY, ten);
}

void import_list_fini(struct import_list *l)
{
    map_free(&l->devices, MEM_REGISTRY);
    while (l->tenants) {
        struct import_tenant *ten = l->tenants;

        l->tenants = ten->next;
        free_tenant(ten);
    }
    *l = (struct import_list){0};
}
