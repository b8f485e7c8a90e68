#include "registry/registry_request.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"

static const char *const op_names[REGISTRY_OPS] = {
    [REGISTRY_TENANT_CREATE] = "tenant-create",   [REGISTRY_TENANT_UPDATE] = "tenant-update",
    [REGISTRY_TENANT_DELETE] = "tenant-delete",   [REGISTRY_DEVICE_CREATE] = "device-create",
    [REGISTRY_DEVICE_UPDATE] = "device-update",   [REGISTRY_DEVICE_DELETE] = "device-delete",
    [REGISTRY_DEVICES_DELETE] = "devices-delete", [REGISTRY_CREDENTIALS_UPDATE] = "credentials-update",
};

const char *registry_request_op_name(enum registry_op op)
{
    return op_names[op];
}

static void set_if_given(json_t *object, const char *name, struct str text)
{
    if (text.p)
        document_set_text(object, name, text);
}

/* Dumps and gives up the value. */
static err dump(json_t *value, enum mem_sub sub, struct buf *out)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS);
    err e = text ? buf_append(out, sub, str_from(text)) : E_NOMEM;

    if (text)
        explicit_bzero(text, strlen(text)); /* it may have keys */
    free(text);
    json_decref(value);
    return e;
}

err registry_request_write(const struct registry_request *request, struct buf *out)
{
    json_t *object = json_object();

    document_set(object, "v", json_integer(REGISTRY_FORMAT));
    document_set_text(object, "op", str_from(op_names[request->op]));
    set_if_given(object, "tenant", request->tenant);
    set_if_given(object, "device", request->device);
    set_if_given(object, "version", request->version);
    set_if_given(object, "if-match", request->if_match);
    set_if_given(object, "at", request->at);
    set_if_given(object, "user", request->user);
    set_if_given(object, "source", request->source);
    if (request->document)
        document_set(object, "document", json_incref(request->document));
    if (request->credentials)
        document_set(object, "credentials", json_incref(request->credentials));
    return dump(object, MEM_REGISTRY, out);
}

err registry_request_write_reply(const struct registry_reply *reply, struct buf *out)
{
    json_t *object = json_object();

    document_set(object, "v", json_integer(REGISTRY_FORMAT));
    document_set(object, "status", json_integer(reply->fault.status));
    if (reply->fault.status) {
        document_set_text(object, "error", str_from(reply->fault.text));
        document_set_text(object, "field", str_from(reply->fault.field));
    }
    if (reply->has_more)
        document_set(object, "more", json_true());
    return dump(object, MEM_TABLE, out);
}

err registry_request_read_reply(struct str text, struct registry_reply *out)
{
    json_t *object = json_loadb(text.p ? text.p : "", text.n, JSON_REJECT_DUPLICATES, NULL);
    int64_t status = document_get_integer(object, "status", -1);
    err e = E_INVAL;

    *out = (struct registry_reply){0};
    if (document_get_integer(object, "v", 0) == REGISTRY_FORMAT && (status == 0 || (status >= 400 && status <= 599))) {
        out->fault.status = (uint16_t)status;
        out->has_more = document_get_bool(object, "more", false);
        (void)snprintf(out->fault.text, sizeof out->fault.text, "%.*s", STR_ARG(document_get_text(object, "error")));
        (void)snprintf(out->fault.field, sizeof out->fault.field, "%.*s", STR_ARG(document_get_text(object, "field")));
        e = E_OK;
    }
    json_decref(object);
    return e;
}
