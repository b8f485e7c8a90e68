#include "registry/registry_loader.h"

#include <sys/random.h>

#include <openssl/evp.h>

#include "base/base64.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/moment.h"
#include "config/config.h"
#include "loop/loop.h"
#include "registry/registry_key.h"
#include "registry/registry_request.h"
#include "registry/schema.h"
#include "registry/uuid.h"
#include "table/table.h"

enum { SALT_BYTES = 16, DIGEST_BYTES = 32 };

/* One tenant or device on its way to the table. */
struct asked {
    struct table_write write;
    struct registry_loader *loader;
    struct buf text;
};

static const char *const adapter_names[CONFIG_ADAPTER_TYPES] = {
    [CONFIG_ADAPTER_MQTT] = "hono-mqtt", [CONFIG_ADAPTER_HTTP] = "hono-http", [CONFIG_ADAPTER_COAP] = "hono-coap",
    [CONFIG_ADAPTER_AMQP] = "hono-amqp", [CONFIG_ADAPTER_LORA] = "hono-lora", [CONFIG_ADAPTER_SIGFOX] = "hono-sigfox",
};

/* --- documents --- */

static json_t *text_of(struct str text)
{
    return json_stringn(text.p, text.n);
}

static void append(json_t *list, json_t *value)
{
    ASSERT(value && json_array_append_new(list, value) == 0);
}

static void set_properties(json_t *object, const struct config_properties *properties)
{
    json_t *defaults = json_object();

    for (size_t i = 0; i < properties->count; i++)
        document_set(defaults, properties->items[i].name.p, text_of(properties->items[i].value));
    document_set(object, "defaults", defaults);
}

static json_t *tenant_document(const struct config_tenant *ten)
{
    json_t *object = json_object(), *adapters = json_array(), *limits = json_object();

    document_set(object, "enabled", json_boolean(ten->is_enabled));
    for (size_t i = 0; i < ten->adapter_count; i++) {
        json_t *adapter = json_object();

        document_set_text(adapter, "type", str_from(adapter_names[ten->adapters[i].type]));
        document_set(adapter, "enabled", json_boolean(ten->adapters[i].is_enabled));
        append(adapters, adapter);
    }
    if (json_array_size(adapters))
        document_set(object, "adapters", adapters);
    else
        json_decref(adapters);
    set_properties(object, &ten->defaults);
    document_set(limits, "max-ttl", json_integer(ten->limits.max_ttl_s));
    document_set(limits, "max-ttl-telemetry-qos0", json_integer(ten->limits.max_ttl_telemetry_qos0_s));
    document_set(limits, "max-ttl-telemetry-qos1", json_integer(ten->limits.max_ttl_telemetry_qos1_s));
    document_set(limits, "max-ttl-command-response", json_integer(ten->limits.max_ttl_command_response_s));
    document_set(object, "resource-limits", limits);
    if (ten->mapper.n)
        document_set_text(object, "downstream-message-mapper", ten->mapper);
    if (ten->command_mapper.n)
        document_set_text(object, "upstream-message-mapper", ten->command_mapper);
    return object;
}

static json_t *device_document(const struct config_device *dev)
{
    json_t *object = json_object(), *via = json_array();

    document_set(object, "enabled", json_boolean(dev->is_enabled));
    for (size_t i = 0; i < dev->via.count; i++)
        append(via, text_of(dev->via.items[i]));
    document_set(object, "via", via);
    set_properties(object, &dev->defaults);
    if (dev->mapper.n)
        document_set_text(object, "downstream-message-mapper", dev->mapper);
    if (dev->command_mapper.n)
        document_set_text(object, "upstream-message-mapper", dev->command_mapper);
    return object;
}

static void set_base64(json_t *object, const char *name, const unsigned char *bytes, size_t n)
{
    char text[BASE64_ENCODED_BYTES(DIGEST_BYTES)];

    document_set_text(object, name, (struct str){text, base64_encode((struct str){(const char *)bytes, n}, text)});
}

/* The password stands in the configuration, so a slow hash of it protects nothing. */
static json_t *credentials_document(const struct config_device *dev)
{
    unsigned char salt[SALT_BYTES], digest[DIGEST_BYTES];
    json_t *list = json_array(), *entry = json_object(), *secrets = json_array(), *secret = json_object();
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    char id[UUID_BYTES];
    unsigned n;

    ASSERT(getrandom(salt, sizeof salt, 0) == (ssize_t)sizeof salt);
    ASSERT(context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) && EVP_DigestUpdate(context, salt, sizeof salt) &&
           EVP_DigestUpdate(context, dev->password.p, dev->password.n) && EVP_DigestFinal_ex(context, digest, &n));
    EVP_MD_CTX_free(context);
    document_set_text(entry, "type", STR("hashed-password"));
    document_set_text(entry, "auth-id", dev->auth_id);
    document_set_text(secret, "id", uuid_make(id));
    document_set(secret, "is-new", json_true());
    document_set_text(secret, "hash-function", STR("sha-256"));
    set_base64(secret, "salt", salt, sizeof salt);
    set_base64(secret, "pwd-hash", digest, sizeof digest);
    append(secrets, secret);
    document_set(entry, "secrets", secrets);
    append(list, entry);
    return list;
}

/* --- asking --- */

static void go_on(struct registry_loader *l);

static void on_written(struct mail *m)
{
    struct asked *asked = CONTAINER_OF(m, struct asked, write.mail);
    struct registry_loader *l = asked->loader;

    l->n_created += asked->write.result == E_OK;
    l->n_refused += asked->write.result != E_OK;
    explicit_bzero(asked->text.p, asked->text.cap);
    buf_free(&asked->text, MEM_REGISTRY);
    buf_free(&asked->write.reply, MEM_TABLE);
    mem_free(MEM_REGISTRY, asked);
    l->n_asked--;
    go_on(l);
}

static void ask(struct registry_loader *l, const struct config_tenant *ten, const struct config_device *dev)
{
    struct asked *asked = mem_alloc_zero(MEM_REGISTRY, sizeof *asked);
    char version[UUID_BYTES], at[MOMENT_BYTES];
    struct registry_request request = {
        .op = dev ? REGISTRY_DEVICE_CREATE : REGISTRY_TENANT_CREATE,
        .tenant = ten->id,
        .version = uuid_make(version),
        .at = {at, moment_format((int64_t)loop_wall_ms(), at)},
        .user = STR("configuration"),
        .source = STR("configuration"),
        .document = dev ? device_document(dev) : tenant_document(ten),
    };

    if (dev) {
        request.device = dev->id;
        request.credentials = dev->password.n ? credentials_document(dev) : NULL;
    }
    ASSERT(registry_request_write(&request, &asked->text) == E_OK);
    json_decref(request.document);
    json_decref(request.credentials);
    asked->loader = l;
    asked->write = (struct table_write){.mail = {.on_mail = on_written},
                                        .home = l->home,
                                        .partition_key = REGISTRY_PARTITION_KEY,
                                        .request = buf_str(&asked->text)};
    l->n_asked++;
    table_write(l->table, &asked->write);
}

static bool is_there(struct table_reader *reader, const struct config_tenant *ten, const struct config_device *dev)
{
    struct registry_key key;
    struct table_item item;

    if (ten->id.n > SCHEMA_MAX_ID_BYTES || (dev && dev->id.n > SCHEMA_MAX_ID_BYTES))
        return true; /* longer than what can be managed */
    key = dev ? registry_key_device(ten->id, dev->id) : registry_key_tenant(ten->id);
    return table_reader_get(reader, REGISTRY_PARTITION_KEY, registry_key_str(&key), &item);
}

/* The next one. A tenant's devices come when the tenant is there: all is decided in its order. */
static bool ask_next(struct registry_loader *l, struct table_reader *reader)
{
    const struct config_tenant *ten;
    const struct config_device *dev;

    if (l->tenant == l->config->tenant_count)
        return false;
    ten = &l->config->tenants[l->tenant];
    dev = l->device ? &ten->devices[l->device - 1] : NULL;
    if (!is_there(reader, ten, dev))
        ask(l, ten, dev);
    if (l->device++ == ten->device_count) {
        l->device = 0;
        l->tenant++;
    }
    return true;
}

/* Answers of a table that is being closed come when it can no longer be read. */
static void go_on(struct registry_loader *l)
{
    struct table_reader reader = {0};
    struct config *config;

    if (!l->is_stopped && table_reader_open(l->table, &reader) == E_OK) {
        while (l->n_asked < REGISTRY_LOADER_AT_ONCE && ask_next(l, &reader))
            continue;
        table_reader_close(&reader);
    } else {
        l->is_stopped = true;
    }
    if (l->n_asked || (!l->is_stopped && l->tenant < l->config->tenant_count))
        return;
    config = l->config;
    l->config = NULL;
    config_unref(config);
    l->on_done(l);
}

void registry_loader_start(struct registry_loader *l, struct config *config)
{
    if (l->config)
        return;
    l->config = config_ref(config);
    l->tenant = l->device = l->n_created = l->n_refused = 0;
    go_on(l);
}

void registry_loader_stop(struct registry_loader *l)
{
    l->is_stopped = true;
}
