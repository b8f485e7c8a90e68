/* GET /v1/export/{tenantId}: many devices as lines of JSON, {"id": ..., "device": {...}, "credentials": [...]}, as an import takes them. A request
 * shows one page of them and says where the next one begins. */
#include "admin/manage_call.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "registry/registry_key.h"
#include "registry/registry_state.h"

enum {
    MAX_EXPORT_BYTES = 4 << 20,
    MAX_EXPORT_LINES = 1000,
};

static bool read_flag(struct manage_call *c, const char *name)
{
    struct str value;
    bool is_true;

    if (!manage_call_query(c, name, 0, &value))
        return false;
    is_true = str_equal(value, STR("true"));
    mem_free(MEM_HTTP, (char *)(uintptr_t)value.p);
    return is_true;
}

static err append_line(struct table_reader *reader, const struct manage_call *c, struct str id, const json_t *device,
                       bool has_secrets, struct buf *out)
{
    json_t *line = json_object(), *credentials = registry_state_credentials(reader, str_from(c->tenant), id);
    char *text;
    err e;

    document_set_text(line, "id", id);
    document_set(line, "device", json_incref(json_object_get(device, "document")));
    if (credentials && has_secrets)
        document_set(line, "credentials", json_incref(json_object_get(credentials, "document")));
    else if (credentials)
        document_set(line, "credentials", registry_state_show_credentials(credentials));
    text = json_dumps(line, JSON_COMPACT);
    ASSERT(text);
    e = buf_append(out, MEM_HTTP, str_from(text));
    if (e == E_OK)
        e = buf_append(out, MEM_HTTP, STR("\n"));
    free(text);
    json_decref(line);
    json_decref(credentials);
    return e;
}

/* Writes a page; the id behind which the next one begins is in `next`, empty: there is none. */
static err export_page(struct manage_call *c, struct table_reader *reader, uint64_t limit, bool has_secrets,
                       struct registry_key *at, struct str *out_next, struct buf *out)
{
    struct registry_key prefix = registry_key_device(str_from(c->tenant), (struct str){0});
    struct table_item item;
    uint64_t n = 0;
    err e = E_OK;

    *out_next = (struct str){0};
    while (e == E_OK &&
           table_reader_next(reader, REGISTRY_PARTITION_KEY, registry_key_str(&prefix), registry_key_str(at), &item)) {
        json_t *device;

        if (n == limit || buf_size(out) > MAX_EXPORT_BYTES) {
            *out_next = str_from_offset(registry_key_str(at), prefix.n);
            break;
        }
        at->n = item.key.n;
        memcpy(at->text, item.key.p, item.key.n);
        device = registry_state_read(item.value);
        if (device) {
            e = append_line(reader, c, str_from_offset(registry_key_str(at), prefix.n), device, has_secrets, out);
            n++;
        }
        json_decref(device);
    }
    return e;
}

void manage_export_run(struct manage_call *c)
{
    struct table_reader reader = {0};
    struct registry_key at;
    struct str after = {0}, next;
    struct buf lines = {0};
    bool has_secrets = read_flag(c, "secrets"), has_after = manage_call_query(c, "after", 0, &after);
    uint64_t limit;
    err e = E_IO;

    if (!manage_call_number(c, "limit", 1, MAX_EXPORT_LINES, MAX_EXPORT_LINES, &limit) ||
        (has_after && schema_check_device_id(after, &c->fault) != E_OK) || c->fault.status) {
        mem_free(MEM_HTTP, (char *)(uintptr_t)after.p);
        manage_call_refuse(c);
        return;
    }
    at = registry_key_device(str_from(c->tenant), after);
    if (!has_after)
        at.n = 0;
    mem_free(MEM_HTTP, (char *)(uintptr_t)after.p);
    if (has_secrets && !c->may_write) {
        manage_call_fail(c, 403, "secrets are shown to those only who may also write");
        return;
    }
    if (table_reader_open(c->m->options.table, &reader) == E_OK) {
        e = registry_state_has_tenant(&reader, str_from(c->tenant))
                ? export_page(c, &reader, limit, has_secrets, &at, &next, &lines)
                : E_NOTFOUND;
        table_reader_close(&reader);
    }
    if (e == E_OK)
        manage_call_respond_lines(c, buf_str(&lines), next);
    else if (e == E_NOTFOUND)
        manage_call_fail(c, 404, "there is no such tenant");
    else
        manage_call_fail(c, 503, "temporarily unavailable");
    if (lines.p)
        explicit_bzero(lines.p, lines.cap); /* it may have keys */
    buf_free(&lines, MEM_HTTP);
}
