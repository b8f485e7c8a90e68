#include "registry/registry_state.h"

#include "base/check.h"
#include "registry/credentials_document.h"
#include "registry/registry_key.h"
#include "registry/registry_request.h"

static bool get(struct table_reader *reader, struct registry_key key, struct table_item *out)
{
    return table_reader_get(reader, REGISTRY_PARTITION_KEY, registry_key_str(&key), out);
}

json_t *registry_state_read(struct str value)
{
    json_t *state = json_loadb(value.p, value.n, 0, NULL);

    if (document_get_integer(state, "v", 0) == REGISTRY_FORMAT && !json_object_get(state, "deleting"))
        return state;
    json_decref(state);
    return NULL;
}

static json_t *load(struct table_reader *reader, struct registry_key key)
{
    struct table_item item;

    return get(reader, key, &item) ? registry_state_read(item.value) : NULL;
}

json_t *registry_state_tenant(struct table_reader *reader, struct str tenant)
{
    return load(reader, registry_key_tenant(tenant));
}

bool registry_state_has_tenant(struct table_reader *reader, struct str tenant)
{
    json_t *state = registry_state_tenant(reader, tenant);

    json_decref(state);
    return state != NULL;
}

json_t *registry_state_device(struct table_reader *reader, struct str tenant, struct str device)
{
    return registry_state_has_tenant(reader, tenant) ? load(reader, registry_key_device(tenant, device)) : NULL;
}

json_t *registry_state_credentials(struct table_reader *reader, struct str tenant, struct str device)
{
    return registry_state_has_tenant(reader, tenant) ? load(reader, registry_key_credentials(tenant, device)) : NULL;
}

bool registry_state_is_gateway(struct table_reader *reader, struct str tenant, struct str id, const json_t *device)
{
    struct registry_key prefix = registry_key_via(tenant, id, (struct str){0});
    struct table_item item;

    return json_array_size(json_object_get(device, "memberOf")) > 0 ||
           table_reader_next(reader, REGISTRY_PARTITION_KEY, registry_key_str(&prefix), (struct str){0}, &item);
}

json_t *registry_state_show(const json_t *state)
{
    json_t *document = json_deep_copy(json_object_get(state, "document")), *status = json_object_get(state, "status");

    ASSERT(document);
    if (status)
        document_set(document, "status", json_incref(status));
    return document;
}

json_t *registry_state_show_credentials(const json_t *state)
{
    json_t *document = state ? json_deep_copy(json_object_get(state, "document")) : json_array();

    ASSERT(document);
    credentials_document_conceal(document);
    return document;
}

struct str registry_state_version(const json_t *state)
{
    return document_get_text(state, "version");
}
