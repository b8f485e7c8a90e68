/* Many devices at a time, as lines of JSON: {"id": ..., "device": {...}, "credentials": [...]}. A request holds one page of them: what is there already
 * is left alone, so that an import that was cut short is simply sent again; an export says where the next page begins. */
#include "admin/manage_call.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "registry/credentials_document.h"
#include "registry/device_document.h"
#include "registry/registry_key.h"
#include "registry/registry_state.h"

enum {
    AT_ONCE =
        1024, /* lines on their way to the table: two batches of its owner, so that one is read while the other is written */
    AT_ONCE_BYTES = 4 << 20,
    HASHES_AT_ONCE = 32, /* devices that log in wait behind them */
    MAX_ERRORS = 100,    /* that are told one by one */
    MAX_LINE_BYTES = 2 * DOCUMENT_MAX_BYTES,
    MAX_EXPORT_BYTES = 4 << 20,
    MAX_EXPORT_LINES = 1000,
};

/* One import. */
struct manage_import {
    struct manage_call *call;
    struct str rest; /* of the body */
    size_t line, n_created, n_existing, n_failed;
    unsigned n_items, n_hashes; /* under way */
    size_t n_item_bytes;        /* of their lines */
    json_t *errors;
    struct task task;
};

/* One line of it. */
struct item {
    struct manage_import *import;
    size_t line, line_bytes;
    json_t *object; /* owns id, device and credentials */
    json_t *device, *credentials;
    struct document_fault fault;
    char version[UUID_BYTES], at[MOMENT_BYTES];
    struct registry_request request;
    struct buf text;
    struct table_write write;
    struct hash_job job;
};

/* --- import --- */

static void note_error(const struct item *item)
{
    struct manage_import *import = item->import;
    json_t *error;

    import->n_failed++;
    if (json_array_size(import->errors) == MAX_ERRORS)
        return;
    error = json_object();
    document_set(error, "line", json_integer((json_int_t)item->line));
    document_set(error, "status", json_integer(item->fault.status));
    document_set_text(error, "error", str_from(item->fault.text));
    if (item->fault.field[0])
        document_set_text(error, "field", str_from(item->fault.field));
    ASSERT(json_array_append_new(import->errors, error) == 0);
}

static void end_item(struct item *item)
{
    struct manage_import *import = item->import;

    if (item->text.p)
        explicit_bzero(item->text.p, item->text.cap);
    buf_free(&item->text, MEM_REGISTRY);
    buf_free(&item->write.reply, MEM_TABLE);
    json_decref(item->object);
    import->n_items--;
    import->n_item_bytes -= item->line_bytes;
    mem_free(MEM_HTTP, item);
    loop_defer(import->call->m->options.loop, &import->task);
}

static void fail_item(struct item *item, uint16_t status, const char *text)
{
    ERR_IGNORE(document_refuse(&item->fault, status, NULL, "%s", text)); /* it is told in the answer */
    note_error(item);
    end_item(item);
}

static void tell_created(const struct item *item)
{
    const struct manage_options *options = &item->import->call->m->options;
    const struct manage_change change = {
        .op = REGISTRY_DEVICE_CREATE,
        .tenant = item->request.tenant,
        .device = item->request.device,
        .user = item->request.user,
        .at = item->request.at,
        .version = item->request.version,
        .document = item->device,
    };

    if (options->on_change)
        options->on_change(options->context, &change);
}

static void on_item_written(struct mail *m)
{
    struct item *item = CONTAINER_OF(m, struct item, write.mail);
    struct registry_reply reply;

    if ((item->write.result != E_OK && item->write.result != E_DENIED) ||
        registry_request_read_reply(buf_str(&item->write.reply), &reply) != E_OK) {
        fail_item(item, manage_call_status(item->write.result), "temporarily unavailable");
        return;
    }
    if (item->write.result == E_OK) {
        item->import->n_created++;
        tell_created(item);
        end_item(item);
    } else if (reply.fault.status == 409 && !reply.fault.field[0]) {
        item->import->n_existing++;
        end_item(item);
    } else {
        item->fault = reply.fault;
        note_error(item);
        end_item(item);
    }
}

static void write_item(struct item *item)
{
    const struct manage_call *c = item->import->call;

    item->request.document = item->device;
    item->request.credentials = item->credentials;
    if (registry_request_write(&item->request, &item->text) != E_OK) {
        fail_item(item, 503, "no memory");
        return;
    }
    item->write = (struct table_write){.mail = {.on_mail = on_item_written},
                                       .home = &c->m->options.loop->mailbox,
                                       .partition_key = REGISTRY_PARTITION_KEY,
                                       .request = buf_str(&item->text)};
    table_write(c->m->options.table, &item->write);
}

static void hash_item(struct hash_job *job)
{
    struct item *item = CONTAINER_OF(job, struct item, job);

    ERR_IGNORE(credentials_document_hash(item->credentials, item->import->call->m->options.bcrypt_cost,
                                         &item->fault)); /* the fault tells */
}

static void on_item_hashed(struct mail *m)
{
    struct item *item = CONTAINER_OF(m, struct item, job.mail);

    item->import->n_hashes--;
    loop_defer(item->import->call->m->options.loop, &item->import->task);
    if (item->job.is_dropped || item->fault.status)
        fail_item(item, 503, "temporarily unavailable");
    else
        write_item(item);
}

static err check_members(const json_t *object, struct document_fault *fault)
{
    static const char *const names[] = {"id", "device", "credentials"};
    const char *name;
    json_t *value;

    if (!json_is_object(object))
        return document_refuse(fault, 400, NULL, "must be an object");
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        struct document_place here = document_member(NULL, name);
        size_t i = 0;

        while (i < ARRAY_LEN(names) && strcmp(names[i], name) != 0)
            i++;
        if (i == ARRAY_LEN(names))
            return document_refuse(fault, 400, &here, "there is no such member");
    }
    return E_OK;
}

static err read_item(struct item *item, struct str line)
{
    const struct manage_call *c = item->import->call;
    struct str id;
    err e = E_OK;

    if (line.n > MAX_LINE_BYTES)
        return document_refuse(&item->fault, 413, NULL, "has %zu bytes, at most %d", line.n, MAX_LINE_BYTES);
    if (document_parse(line, false, &item->object, &item->fault) != E_OK || check_members(item->object, &item->fault) != E_OK)
        return E_INVAL;
    id = document_get_text(item->object, "id");
    if (schema_check_device_id(id, &item->fault) != E_OK)
        return E_INVAL;
    if (!json_object_get(item->object, "device"))
        document_set(item->object, "device", json_object());
    item->device = json_object_get(item->object, "device");
    item->credentials = json_object_get(item->object, "credentials");
    e = device_document_normalise(item->device, &item->fault);
    if (e == E_OK && item->credentials) {
        e = credentials_document_normalise(item->credentials, c->m->options.bcrypt_max_cost, &item->fault);
        credentials_document_adopt(item->credentials);
    }
    item->request = (struct registry_request){
        .op = REGISTRY_DEVICE_CREATE,
        .tenant = str_from(c->tenant),
        .device = id,
        .version = uuid_make(item->version),
        .at = {item->at, moment_format((int64_t)loop_wall_ms(), item->at)},
        .user = str_from(c->user),
        .source = STR("import"),
    };
    return e;
}

static void begin_item(struct manage_import *import, struct str line)
{
    struct item *item = mem_alloc_zero(MEM_HTTP, sizeof *item);

    item->import = import;
    item->line = import->line;
    item->line_bytes = line.n;
    import->n_items++;
    import->n_item_bytes += line.n;
    if (read_item(item, line) != E_OK) {
        note_error(item);
        end_item(item);
        return;
    }
    if (credentials_document_plain(item->credentials) == 0) {
        write_item(item);
        return;
    }
    item->job = (struct hash_job){
        .mail = {.on_mail = on_item_hashed}, .home = &import->call->m->options.loop->mailbox, .run = hash_item};
    if (hash_pool_submit(import->call->m->options.pool, &item->job) == E_OK)
        import->n_hashes++;
    else
        fail_item(item, 503, "too many passwords wait to be hashed");
}

static void finish_import(struct manage_import *import)
{
    struct manage_call *c = import->call;
    json_t *body = json_object();

    document_set(body, "created", json_integer((json_int_t)import->n_created));
    document_set(body, "existing", json_integer((json_int_t)import->n_existing));
    document_set(body, "failed", json_integer((json_int_t)import->n_failed));
    document_set(body, "errors", import->errors);
    mem_free(MEM_HTTP, import);
    manage_call_respond(c, 200, body, (struct str){0});
}

static bool has_room(const struct manage_import *import)
{
    return import->n_items < AT_ONCE && import->n_item_bytes < AT_ONCE_BYTES && import->n_hashes < HASHES_AT_ONCE;
}

/* In a task, since a line that is refused at once makes room for the next. */
static void import_more(struct task *t)
{
    struct manage_import *import = CONTAINER_OF(t, struct manage_import, task);
    bool has_more = import->rest.n > 0;

    while (has_more && has_room(import)) {
        struct str line = str_take(&import->rest, '\n', &has_more);

        import->line++;
        while (line.n && (line.p[line.n - 1] == '\r' || line.p[line.n - 1] == ' '))
            line.n--;
        if (line.n)
            begin_item(import, line);
        has_more = import->rest.n > 0;
    }
    if (import->n_items == 0 && !loop_is_deferred(&import->task))
        finish_import(import);
}

void manage_import_run(struct manage_call *c)
{
    struct manage_import *import;
    struct table_reader reader = {0};
    bool is_there = false;

    if (table_reader_open(c->m->options.table, &reader) == E_OK) {
        is_there = registry_state_has_tenant(&reader, str_from(c->tenant));
        table_reader_close(&reader);
    }
    if (!is_there) {
        manage_call_fail(c, 404, "there is no such tenant");
        return;
    }
    import = mem_alloc_zero(MEM_HTTP, sizeof *import);
    import->call = c;
    import->rest = c->x->request.body;
    import->errors = json_array();
    import->task.run = import_more;
    ASSERT(import->errors);
    loop_defer(c->m->options.loop, &import->task);
}

/* --- export --- */

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
