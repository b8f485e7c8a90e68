#include "admin/manage_import_item.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "registry/credentials_compare.h"
#include "registry/credentials_document.h"
#include "registry/device_document.h"
#include "registry/registry_key.h"
#include "registry/registry_state.h"

enum {
    MAX_TOLD = 5000, /* lines that failed, or were left alone, that are told one by one */
    MAX_LINE_BYTES = 2 * DOCUMENT_MAX_BYTES,
    CATCH_UP_MS = 500,
};

/* What a line wants changed. */
enum { NEW_DEVICE = 1u << 0, OTHER_DEVICE = 1u << 1, OTHER_CREDENTIALS = 1u << 2 };

/* One line of it. */
struct item {
    struct manage_import *import;
    size_t line, line_bytes;
    json_t *object; /* owns id, device and credentials */
    json_t *device, *credentials;
    struct str id;
    unsigned wanted;                                     /* that is still to be done */
    char device_version[REGISTRY_VERSION_MAX_BYTES + 1]; /* of what is there */
    char credentials_version[REGISTRY_VERSION_MAX_BYTES + 1];
    struct document_fault fault;
    char version[UUID_BYTES], at[MOMENT_BYTES];
    struct registry_request request;
    struct buf text;
    struct table_write write;
    struct table_barrier barrier;
    struct hash_job job;
};

/* --- the end of a line --- */

static void note_error(const struct item *item)
{
    struct manage_import *import = item->import;
    json_t *error;

    if (json_array_size(import->errors) == MAX_TOLD)
        return;
    error = json_object();
    document_set(error, "line", json_integer((json_int_t)item->line));
    document_set(error, "status", json_integer(item->fault.status));
    document_set_text(error, "error", str_from(item->fault.text));
    if (item->fault.field[0])
        document_set_text(error, "field", str_from(item->fault.field));
    ASSERT(json_array_append_new(import->errors, error) == 0);
}

static void end_item(struct item *item, enum manage_outcome outcome)
{
    struct manage_import *import = item->import;

    import->counts[outcome]++;
    if (outcome == MANAGE_LINE_FAILED)
        note_error(item);
    if (outcome == MANAGE_LINE_EXISTING && json_array_size(import->left_alone) < MAX_TOLD)
        ASSERT(json_array_append_new(import->left_alone, json_integer((json_int_t)item->line)) == 0);
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
    end_item(item, MANAGE_LINE_FAILED);
}

/* --- what is there --- */

static void keep_version(char to[REGISTRY_VERSION_MAX_BYTES + 1], const json_t *state)
{
    struct str version = registry_state_version(state);

    if (version.n <= REGISTRY_VERSION_MAX_BYTES)
        memcpy(to, version.p ? version.p : "", version.n);
    to[version.n <= REGISTRY_VERSION_MAX_BYTES ? version.n : 0] = '\0';
}

/* Finds what the line wants changed. */
static void compare_item(struct item *item, struct table_reader *reader)
{
    struct str tenant = str_from(item->import->call->tenant);
    json_t *device = registry_state_device(reader, tenant, item->id);
    json_t *credentials = device ? registry_state_credentials(reader, tenant, item->id) : NULL;

    item->wanted = 0;
    if (!device)
        item->wanted = NEW_DEVICE;
    else if (!json_equal(json_object_get(device, "document"), item->device))
        item->wanted = OTHER_DEVICE;
    if (device && item->credentials && !credentials_compare_equal(json_object_get(credentials, "document"), item->credentials))
        item->wanted |= OTHER_CREDENTIALS;
    keep_version(item->device_version, device);
    keep_version(item->credentials_version, credentials ? credentials : device); /* as an ETag of what was never written */
    json_decref(device);
    json_decref(credentials);
}

/* For a dry run: the owner of the table finds that out by itself. */
static err check_logins(struct item *item, struct table_reader *reader)
{
    struct document_place list = document_member(NULL, "credentials");

    for (size_t i = 0; i < json_array_size(item->credentials); i++) {
        const json_t *entry = json_array_get(item->credentials, i);
        struct registry_key key = registry_key_login(str_from(item->import->call->tenant), document_get_text(entry, "type"),
                                                     document_get_text(entry, "auth-id"));
        struct document_place element = document_element(&list, i), here = document_member(&element, "auth-id");
        struct table_item found;

        if (table_reader_get(reader, REGISTRY_PARTITION_KEY, registry_key_str(&key), &found) &&
            !str_equal(found.value, item->id))
            return document_refuse(&item->fault, 409, &here, "is used by another device with this type");
    }
    return E_OK;
}

/* E_INVAL: the fault says why the line can bring nothing. */
static err look_at_table(struct item *item)
{
    struct table_reader reader = {0};
    err e = E_OK;

    if (table_reader_open(item->import->call->m->options.table, &reader) != E_OK)
        return document_refuse(&item->fault, 503, NULL, "temporarily unavailable");
    compare_item(item, &reader);
    if (item->import->is_dry)
        e = check_logins(item, &reader);
    table_reader_close(&reader);
    return e;
}

/* --- writing --- */

static void settle_item(struct item *item);

static void tell_change(const struct item *item)
{
    const struct manage_options *options = &item->import->call->m->options;
    const struct manage_change change = {
        .op = item->request.op,
        .tenant = item->request.tenant,
        .device = item->request.device,
        .user = item->request.user,
        .at = item->request.at,
        .version = item->request.version,
        .document = item->request.op == REGISTRY_CREDENTIALS_UPDATE ? NULL : item->device,
    };

    if (options->on_change)
        options->on_change(options->context, &change);
}

static void write_item(struct item *item);

/* Goes on with what is left of it. */
static void finish_write(struct item *item)
{
    tell_change(item);
    if (item->request.op == REGISTRY_DEVICE_CREATE) {
        end_item(item, MANAGE_LINE_CREATED);
        return;
    }
    if (item->request.op == REGISTRY_CREDENTIALS_UPDATE)
        item->wanted = 0;
    else if (strcmp(item->credentials_version, item->device_version) == 0)
        memcpy(item->credentials_version, item->version, sizeof item->version);
    item->wanted &= ~(unsigned)OTHER_DEVICE;
    if (item->wanted)
        write_item(item);
    else
        end_item(item, MANAGE_LINE_UPDATED);
}

static void on_caught_up(struct mail *m)
{
    settle_item(CONTAINER_OF(m, struct item, barrier.mail)); /* whether or not the view has it by now */
}

/* The owner has a device that this instance does not see yet. */
static void catch_up(struct item *item)
{
    const struct manage_options *options = &item->import->call->m->options;

    item->barrier = (struct table_barrier){.mail = {.on_mail = on_caught_up}, .home = &options->loop->mailbox};
    table_catch_up(options->table, REGISTRY_PARTITION_KEY, CATCH_UP_MS, &item->barrier);
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
        finish_write(item);
    } else if (item->request.op == REGISTRY_DEVICE_CREATE && reply.fault.status == 409 && !reply.fault.field[0]) {
        catch_up(item);
    } else {
        item->fault = reply.fault;
        end_item(item, MANAGE_LINE_FAILED);
    }
}

static void write_item(struct item *item)
{
    const struct manage_call *c = item->import->call;
    bool is_new = item->wanted & NEW_DEVICE, is_device = is_new || item->wanted & OTHER_DEVICE;

    item->request = (struct registry_request){
        .op = is_new      ? REGISTRY_DEVICE_CREATE
              : is_device ? REGISTRY_DEVICE_UPDATE
                          : REGISTRY_CREDENTIALS_UPDATE,
        .tenant = str_from(c->tenant),
        .device = item->id,
        .version = uuid_make(item->version),
        .if_match = is_new ? (struct str){0} : str_from(is_device ? item->device_version : item->credentials_version),
        .at = {item->at, moment_format((int64_t)loop_wall_ms(), item->at)},
        .user = str_from(c->user),
        .source = STR("import"),
        .document = is_device ? item->device : item->credentials,
        .credentials = is_new ? item->credentials : NULL,
    };
    buf_consume(&item->text, buf_size(&item->text));
    buf_free(&item->write.reply, MEM_TABLE);
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

static void submit_hashes(struct item *item)
{
    struct manage_import *import = item->import;

    item->job = (struct hash_job){
        .mail = {.on_mail = on_item_hashed}, .home = &import->call->m->options.loop->mailbox, .run = hash_item};
    if (hash_pool_submit(import->call->m->options.pool, &item->job) == E_OK)
        import->n_hashes++;
    else
        fail_item(item, 503, "too many passwords wait to be hashed");
}

/* Does what the line wants, as far as it may. */
static void settle_item(struct item *item)
{
    bool was_refused = item->wanted & NEW_DEVICE;

    if (look_at_table(item) != E_OK)
        end_item(item, MANAGE_LINE_FAILED);
    else if (was_refused && item->wanted & NEW_DEVICE)
        fail_item(item, 503, "was made by another instance, or removed, in this moment");
    else if (item->wanted == 0)
        end_item(item, MANAGE_LINE_UNCHANGED);
    else if (!(item->wanted & NEW_DEVICE) && !item->import->is_update)
        end_item(item, MANAGE_LINE_EXISTING);
    else if (item->import->is_dry)
        end_item(item, item->wanted & NEW_DEVICE ? MANAGE_LINE_CREATED : MANAGE_LINE_UPDATED);
    else if (credentials_document_plain(item->credentials) > 0)
        submit_hashes(item);
    else
        write_item(item);
}

/* --- the lines --- */

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
    err e;

    if (line.n > MAX_LINE_BYTES)
        return document_refuse(&item->fault, 413, NULL, "has %zu bytes, at most %d", line.n, MAX_LINE_BYTES);
    if (document_parse(line, false, &item->object, &item->fault) != E_OK || check_members(item->object, &item->fault) != E_OK)
        return E_INVAL;
    item->id = document_get_text(item->object, "id");
    if (schema_check_device_id(item->id, &item->fault) != E_OK)
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
    return e;
}

void manage_import_item_begin(struct manage_import *import, struct str line)
{
    struct item *item = mem_alloc_zero(MEM_HTTP, sizeof *item);

    item->import = import;
    item->line = import->line;
    item->line_bytes = line.n;
    import->n_items++;
    import->n_item_bytes += line.n;
    if (read_item(item, line) == E_OK)
        settle_item(item);
    else
        end_item(item, MANAGE_LINE_FAILED);
}
