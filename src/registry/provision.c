#include "registry/provision.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "config/config.h"
#include "loop/mailbox.h"
#include "registry/document.h"
#include "registry/registry_wait.h"
#include "registry/uuid.h"

static struct str put(struct provision *p, size_t *at, struct str text)
{
    struct str here = {p->text + *at, text.n};

    if (text.n)
        memcpy(p->text + *at, text.p, text.n);
    *at += text.n;
    return here;
}

struct provision *provision_new(struct str tenant, struct str device, struct str gateway, json_t *document, json_t *credentials)
{
    struct provision *p = mem_alloc_zero(MEM_REGISTRY, sizeof *p + tenant.n + device.n + gateway.n);
    size_t at = 0;

    p->tenant = put(p, &at, tenant);
    p->device = put(p, &at, device);
    p->gateway = put(p, &at, gateway);
    p->document = document;
    p->credentials = credentials;
    return p;
}

void provision_free(struct provision *p)
{
    if (!p)
        return;
    json_decref(p->document);
    json_decref(p->credentials);
    mem_free(MEM_REGISTRY, p);
}

void provision_answer(struct provision *p, err result)
{
    struct registry_wait *wait = p->wait;

    p->wait = NULL;
    wait->has_provisioned = true;
    wait->is_unavailable = result != E_OK && result != E_DENIED;
    mailbox_post(wait->home, &wait->mail);
}

static void append(json_t *array, json_t *value)
{
    ASSERT(value && json_array_append_new(array, value) == 0);
}

json_t *provision_device_document(bool is_gateway)
{
    json_t *document = json_object(), *authorities = json_array();

    if (is_gateway)
        append(authorities, json_string("auto-provisioning-enabled"));
    document_set(document, "enabled", json_true());
    document_set(document, "authorities", authorities);
    return document;
}

static json_t *text_of(struct str text)
{
    return json_stringn(text.n ? text.p : "", text.n);
}

json_t *provision_document_behind(struct str gateway, const struct config_strings *groups)
{
    json_t *document = json_object(), *via = json_array(), *via_groups = json_array();

    append(via, text_of(gateway));
    for (size_t i = 0; i < groups->count; i++)
        append(via_groups, text_of(groups->items[i]));
    document_set(document, "enabled", json_true());
    document_set(document, "via", via);
    document_set(document, "viaGroups", via_groups);
    return document;
}

json_t *provision_certificate_credentials(struct str auth_id)
{
    json_t *list = json_array(), *entry = json_object(), *secrets = json_array(), *secret = json_object();
    char id[UUID_BYTES];

    document_set_text(secret, "id", uuid_make(id));
    document_set(secret, "is-new", json_true());
    append(secrets, secret);
    document_set_text(entry, "type", STR("x509-cert"));
    document_set_text(entry, "auth-id", auth_id);
    document_set(entry, "secrets", secrets);
    append(list, entry);
    return list;
}
