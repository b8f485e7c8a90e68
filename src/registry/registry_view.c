#include "registry/registry_view.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/base64.h"
#include "base/check.h"
#include "base/moment.h"
#include "base/siphash.h"
#include "loop/loop.h"
#include "registry/certificate_login.h"
#include "registry/credentials_document.h"
#include "registry/password_check.h"
#include "registry/provision.h"
#include "registry/registry_key.h"
#include "registry/registry_private.h"
#include "registry/registry_state.h"
#include "registry/registry_wait.h"
#include "registry/trust_cache.h"
#include "registry/usage.h"

enum {
    CACHE_MAX_ENTRIES = 100000, /* of a thread */
    SECOND_CHANCES = 16,        /* entries that stay for being asked for, before one has to go all the same */
    RETIRED_MS = 10000,         /* longer than any turn of a loop: what was replaced may still be looked at */
    RETIRED_MANY = 20000,       /* no turn replaces so many: */
    RETIRED_MANY_MS = 1000,     /* then those before them may go sooner */
    RELEASED_AT_ONCE = 16,      /* by a question: all at once would take a while */
    CATCH_UP_MS = 500,          /* before something that is not there is refused */
    MAX_KEY_BYTES = 520,
    ADAPTER_NAMES = CONFIG_ADAPTER_TYPES,
};

/* What one question came to. */
struct cached {
    struct registry *entry; /* NULL: absent, or the configuration says */
    struct list link;       /* by age */
    uint64_t hash;
    bool is_absent;
    bool is_used;                                              /* since it was last passed over */
    uint64_t checked;                                          /* when the table last had not changed since */
    uint64_t tenant_offset, device_offset, credentials_offset; /* of the states it was made of; 0: there was none */
    size_t key_n;
    char key[];
};

/* Something that is not in the cache any more. */
struct retired {
    struct retired *next;
    struct registry *entry;
    uint64_t at_ms;
};

/* Of one thread. */
struct view_cache {
    struct view_cache *next;
    struct registry_view *view;
    struct table_reader reader;
    bool is_present;     /* the reader, which else rests: an old one keeps the database from using its space again */
    uint64_t seen;       /* changes */
    uint64_t configured; /* the number of the configuration's registry beside which the entries stand */
    struct map entries;
    struct list by_age;                /* the entries, the oldest first */
    char account[SCHEMA_MAX_ID_BYTES]; /* whose the last log-in was */
    struct retired *oldest, *newest;
    size_t n_retired;
};

struct registry_view {
    struct table *table;
    struct password_check *checks;
    struct trust_cache *trust;
    struct mail *changed;
    struct mailbox *home;
    atomic_bool is_posted;
    atomic_uint_fast64_t changes;
    pthread_mutex_t lock; /* of the list of caches: when a thread asks for the first time, and at the end */
    struct view_cache *caches;
    void (*provision)(void *context, struct provision *p); /* NULL: no devices are made */
    void *provisioner;
};

/* As with metrics: the thread's own, found without a look-up. */
static _Thread_local struct view_cache *thread_cache;

/* --- life --- */

struct registry_view *registry_view_new(struct hash_pool *pool, struct mail *changed, struct mailbox *home)
{
    struct registry_view *view = mem_alloc_zero(MEM_REGISTRY, sizeof *view);

    view->checks = password_check_new(pool);
    view->trust = trust_cache_new();
    certificate_login_register_metrics();
    view->changed = changed;
    view->home = home;
    atomic_init(&view->changes, 1);
    pthread_mutex_init(&view->lock, NULL);
    return view;
}

struct trust_cache *registry_view_trust(struct registry_view *view)
{
    return view->trust;
}

void registry_view_use_table(struct registry_view *view, struct table *table)
{
    view->table = table;
}

void registry_view_use_provisioner(struct registry_view *view, void (*take)(void *context, struct provision *p), void *context)
{
    view->provision = take;
    view->provisioner = context;
}

/* Whether what is told of has been there before: nobody depends on what is new. */
static bool may_concern_somebody(const struct table_change *change)
{
    char kind = change->key.n > 1 ? change->key.p[0] : '\0';

    if (kind != 't' && kind != 'd' && kind != 'c')
        return false;
    return !change->value.p || memmem(change->value.p, change->value.n, "\"updated\"", 9);
}

void registry_view_on_applied(void *context, const struct table_change *change)
{
    struct registry_view *view = context;

    atomic_fetch_add(&view->changes, 1);
    if (may_concern_somebody(change) && !atomic_exchange(&view->is_posted, true))
        mailbox_post(view->home, view->changed);
}

void registry_view_on_rebuild(void *context, unsigned partition)
{
    struct registry_view *view = context;

    (void)partition;
    atomic_fetch_add(&view->changes, 1);
}

void registry_view_accept_changes(struct registry_view *view)
{
    atomic_store(&view->is_posted, false);
}

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void release_oldest(struct view_cache *c)
{
    struct retired *r = c->oldest;

    c->oldest = r->next;
    if (!c->oldest)
        c->newest = NULL;
    c->n_retired--;
    registry_unref(r->entry);
    mem_free(MEM_REGISTRY, r);
}

static void release_some(struct view_cache *c)
{
    uint64_t now = now_ms();

    for (unsigned i = 0; i < RELEASED_AT_ONCE && c->oldest; i++) {
        if (now - c->oldest->at_ms < (c->n_retired > RETIRED_MANY ? RETIRED_MANY_MS : RETIRED_MS))
            return;
        release_oldest(c);
    }
}

/* An entry may be in somebody's hands until the turn ends. */
static void retire(struct view_cache *c, struct registry *entry)
{
    struct retired *r;

    if (!entry)
        return;
    r = mem_alloc(MEM_REGISTRY, sizeof *r);
    *r = (struct retired){.entry = entry, .at_ms = now_ms()};
    if (c->newest)
        c->newest->next = r;
    else
        c->oldest = r;
    c->newest = r;
    c->n_retired++;
}

static void drop_cached(struct view_cache *c, struct cached *cached)
{
    (void)map_remove(&c->entries, cached->hash, cached); /* it is there */
    list_remove(&cached->link);
    retire(c, cached->entry);
    mem_free(MEM_REGISTRY, cached);
}

static struct cached *oldest_cached(struct view_cache *c)
{
    return CONTAINER_OF(c->by_age.next, struct cached, link);
}

/* Makes room for another entry: the oldest goes, but those that were asked for meanwhile are as new. */
static void evict(struct view_cache *c)
{
    for (unsigned i = 0; i < SECOND_CHANCES && oldest_cached(c)->is_used; i++) {
        struct cached *cached = oldest_cached(c);

        cached->is_used = false;
        list_remove(&cached->link);
        list_push(&c->by_age, &cached->link);
    }
    drop_cached(c, oldest_cached(c));
}

static void empty_cache(struct view_cache *c)
{
    struct list *link;

    while ((link = list_pop(&c->by_age))) {
        struct cached *cached = CONTAINER_OF(link, struct cached, link);

        retire(c, cached->entry);
        mem_free(MEM_REGISTRY, cached);
    }
    map_free(&c->entries, MEM_REGISTRY);
    c->entries = (struct map){0};
}

void registry_view_close(struct registry_view *view)
{
    struct view_cache *c;

    while (view && (c = view->caches)) {
        view->caches = c->next;
        if (thread_cache == c)
            thread_cache = NULL;
        empty_cache(c);
        while (c->oldest)
            release_oldest(c);
        if (c->reader.table)
            table_reader_close(&c->reader);
        mem_free(MEM_REGISTRY, c);
    }
}

void registry_view_free(struct registry_view *view)
{
    if (!view)
        return;
    registry_view_close(view);
    password_check_free(view->checks);
    trust_cache_free(view->trust);
    pthread_mutex_destroy(&view->lock);
    mem_free(MEM_REGISTRY, view);
}

/* The thread's cache. NULL: the table cannot be read. */
static struct view_cache *use_cache(struct registry_view *view)
{
    struct view_cache *c = thread_cache;
    uint64_t changes = atomic_load(&view->changes);

    if (!c || c->view != view) {
        c = mem_alloc_zero(MEM_REGISTRY, sizeof *c);
        c->view = view;
        list_init(&c->by_age);
        if (table_reader_open(view->table, &c->reader) != E_OK) {
            mem_free(MEM_REGISTRY, c);
            return NULL;
        }
        c->is_present = true;
        c->seen = changes;
        pthread_mutex_lock(&view->lock);
        c->next = view->caches;
        view->caches = c;
        pthread_mutex_unlock(&view->lock);
        thread_cache = c;
    } else if (c->seen != changes) {
        c->is_present = false;
        c->seen = changes;
    }
    if (c->oldest)
        release_some(c);
    return c;
}

static struct table_reader *use_reader(struct view_cache *c)
{
    if (!c->is_present)
        table_reader_renew(&c->reader);
    c->is_present = true;
    return &c->reader;
}

static void rest(struct view_cache *c)
{
    if (c->is_present)
        table_reader_rest(&c->reader);
    c->is_present = false;
}

static bool is_served(struct str value)
{
    json_t *state = registry_state_read(value);
    bool is_managed = state && !str_equal(document_get_text(state, "source"), STR("configuration"));
    bool is_enabled = document_get_bool(json_object_get(state, "document"), "enabled", true);

    json_decref(state);
    return is_managed && is_enabled;
}

bool registry_view_next_tenant(struct table_reader *reader, struct str after, struct table_item *out_item)
{
    struct registry_key prefix = registry_key_tenant((struct str){0});

    while (table_reader_next(reader, REGISTRY_PARTITION_KEY, registry_key_str(&prefix), after, out_item)) {
        if (is_served(out_item->value))
            return true;
        after = out_item->key;
    }
    return false;
}

/* --- entries --- */

static struct str copy(struct registry *entry, struct str text)
{
    return arena_copy(&entry->arena, MEM_REGISTRY, text);
}

static struct config_strings *copy_strings(struct registry *entry, const json_t *list)
{
    struct config_strings *strings = arena_alloc(&entry->arena, MEM_REGISTRY, sizeof *strings);

    strings->count = json_array_size(list);
    strings->items = arena_alloc(&entry->arena, MEM_REGISTRY, (strings->count + 1) * sizeof *strings->items);
    for (size_t i = 0; i < strings->count; i++)
        strings->items[i] = copy(entry, document_text(json_array_get(list, i)));
    return strings;
}

/* Numbers and truths as headers have them: their JSON. */
static struct str copy_scalar(struct registry *entry, const json_t *value)
{
    char *text;
    struct str copied;

    if (json_is_string(value))
        return copy(entry, document_text(value));
    text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    ASSERT(text);
    copied = copy(entry, str_from(text));
    free(text);
    return copied;
}

static struct config_properties *copy_properties(struct registry *entry, const json_t *object)
{
    struct config_properties *properties = arena_alloc(&entry->arena, MEM_REGISTRY, sizeof *properties);
    const char *name;
    json_t *value;

    properties->items = arena_alloc(&entry->arena, MEM_REGISTRY, (json_object_size(object) + 1) * sizeof *properties->items);
    json_object_foreach((json_t *)(uintptr_t)object, name, value) properties->items[properties->count++] =
        (struct config_property){copy(entry, str_from(name)), copy_scalar(entry, value)};
    return properties;
}

static const char *const adapter_names[ADAPTER_NAMES] = {
    [CONFIG_ADAPTER_MQTT] = "hono-mqtt", [CONFIG_ADAPTER_HTTP] = "hono-http", [CONFIG_ADAPTER_COAP] = "hono-coap",
    [CONFIG_ADAPTER_AMQP] = "hono-amqp", [CONFIG_ADAPTER_LORA] = "hono-lora", [CONFIG_ADAPTER_SIGFOX] = "hono-sigfox",
};

static uint32_t adapters_of(const json_t *tenant)
{
    const json_t *list = json_object_get(tenant, "adapters");
    uint32_t adapters = list ? 0 : (1u << CONFIG_ADAPTER_TYPES) - 1;

    for (size_t i = 0; i < json_array_size(list); i++)
        for (int type = 0; type < ADAPTER_NAMES; type++)
            if (document_get_bool(json_array_get(list, i), "enabled", false) &&
                str_equal(document_get_text(json_array_get(list, i), "type"), str_from(adapter_names[type])))
                adapters |= 1u << type;
    return adapters;
}

/* What a document does not say is as Hono has it: no bound, calendar months. */
static struct config_allowance allowance_of(const json_t *limit, const char *max_key)
{
    const json_t *period = json_object_get(limit, "period");
    struct config_allowance allowance = {
        .max = document_get_integer(limit, max_key, -1),
        .period = str_equal(document_get_text(period, "mode"), STR("days")) ? CONFIG_PERIOD_DAYS : CONFIG_PERIOD_MONTHLY,
        .days = document_get_integer(period, "no-of-days", 1),
    };

    if (moment_parse(document_get_text(limit, "effective-since"), &allowance.since_ms) != E_OK)
        allowance.since_ms = 0; /* checked when it was stored */
    return allowance;
}

static void fill_tenant(struct registry *entry, struct str id, const json_t *document)
{
    const json_t *limits = json_object_get(document, "resource-limits");
    struct config_tenant_limits *bounds = arena_alloc(&entry->arena, MEM_REGISTRY, sizeof *bounds);

    *bounds = (struct config_tenant_limits){
        .max_ttl_s = document_get_integer(limits, "max-ttl", -1),
        .max_ttl_telemetry_qos0_s = document_get_integer(limits, "max-ttl-telemetry-qos0", -1),
        .max_ttl_telemetry_qos1_s = document_get_integer(limits, "max-ttl-telemetry-qos1", -1),
        .max_ttl_command_response_s = document_get_integer(limits, "max-ttl-command-response", -1),
        .max_connections = document_get_integer(limits, "max-connections", -1),
        .minimum_message_size = document_get_integer(document, "minimum-message-size", 0),
        .data_volume = allowance_of(json_object_get(limits, "data-volume"), "max-bytes"),
        .connection_duration = allowance_of(json_object_get(limits, "connection-duration"), "max-minutes"),
    };
    *entry->tenants = (struct registry_tenant){
        .id = copy(entry, id),
        .is_enabled = document_get_bool(document, "enabled", true),
        .adapters = adapters_of(document),
        .defaults = copy_properties(entry, json_object_get(document, "defaults")),
        .limits = bounds,
        .mapper = copy(entry, document_get_text(document, "downstream-message-mapper")),
        .command_mapper = copy(entry, document_get_text(document, "upstream-message-mapper")),
        .registry = entry,
    };
}

/* Whether any of its credentials could let it in now. */
static bool has_credentials(const json_t *state, int64_t now)
{
    const json_t *list = json_object_get(state, "document");

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i), *secrets = json_object_get(entry, "secrets");

        for (size_t k = 0; document_get_bool(entry, "enabled", true) && k < json_array_size(secrets); k++)
            if (credentials_document_is_valid(json_array_get(secrets, k), now))
                return true;
    }
    return false;
}

static bool has_authority(const json_t *device, struct str name)
{
    const json_t *authorities = json_object_get(device, "authorities");

    for (size_t i = 0; i < json_array_size(authorities); i++)
        if (str_equal(document_text(json_array_get(authorities, i)), name))
            return true;
    return false;
}

static void fill_device(struct registry *entry, struct str id, const json_t *document)
{
    struct device_entry *dev = arena_alloc(&entry->arena, MEM_REGISTRY, sizeof *dev);
    struct str mapper = document_get_text(document, "downstream-message-mapper");
    struct str command_mapper = document_get_text(document, "upstream-message-mapper");

    dev->device = (struct registry_device){
        .id = copy(entry, id),
        .tenant = entry->tenants,
        .is_enabled = document_get_bool(document, "enabled", true),
        .mapper = mapper.n ? copy(entry, mapper) : entry->tenants->mapper,
        .command_mapper = command_mapper.n ? copy(entry, command_mapper) : entry->tenants->command_mapper,
        .via = copy_strings(entry, json_object_get(document, "via")),
        .via_groups = copy_strings(entry, json_object_get(document, "viaGroups")),
        .member_of = copy_strings(entry, json_object_get(document, "memberOf")),
        .defaults = copy_properties(entry, json_object_get(document, "defaults")),
    };
    dev->device.may_provision = has_authority(document, STR("auto-provisioning-enabled"));
    dev->device.is_gateway = dev->device.member_of->count > 0;
    dev->device.has_gateways = dev->device.via->count > 0 || dev->device.via_groups->count > 0;
    map_add(&entry->devices_by_id, MEM_REGISTRY, 0, dev);
}

/* What both say, from the table where it says something, else from the configuration. */
static struct registry *make_entry(struct registry *configured, struct str tenant, const json_t *tenant_state,
                                   struct str device, const json_t *device_state)
{
    const struct registry_tenant *ten = registry_configured_tenant(configured, tenant);
    const struct device_entry *dev = device.n ? registry_configured_device(configured, tenant, device) : NULL;
    struct registry *entry;
    struct device_entry *own;

    if (!tenant_state && !ten)
        return NULL;
    entry = mem_alloc_zero(MEM_REGISTRY, sizeof *entry);
    atomic_init(&entry->refs, 1);
    entry->parent = registry_ref(configured);
    entry->tenants = arena_alloc(&entry->arena, MEM_REGISTRY, sizeof *entry->tenants);
    if (tenant_state) {
        fill_tenant(entry, tenant, json_object_get(tenant_state, "document"));
    } else {
        *entry->tenants = *ten;
        entry->tenants->registry = entry;
    }
    entry->tenants->usage = usage_ref(tenant);
    if (device_state) {
        fill_device(entry, device, json_object_get(device_state, "document"));
    } else if (dev) {
        own = arena_alloc(&entry->arena, MEM_REGISTRY, sizeof *own);
        *own = *dev;
        own->device.tenant = entry->tenants;
        map_add(&entry->devices_by_id, MEM_REGISTRY, 0, own);
    }
    return entry;
}

/* --- the cache --- */

static bool has_key(const void *entry, const void *key)
{
    const struct cached *cached = entry;

    return str_equal((struct str){cached->key, cached->key_n}, *(const struct str *)key);
}

/* The state under a key, unless it only repeats the configuration; and where the state was written. */
static json_t *read_state(struct view_cache *c, struct registry_key key, uint64_t *out_offset)
{
    struct table_item item;
    json_t *state;

    *out_offset = 0;
    if (!table_reader_get(use_reader(c), REGISTRY_PARTITION_KEY, registry_key_str(&key), &item))
        return NULL;
    *out_offset = item.offset + 1;
    state = registry_state_read(item.value);
    if (str_equal(document_get_text(state, "source"), STR("configuration"))) {
        json_decref(state);
        return NULL;
    }
    return state;
}

static uint64_t offset_at(struct view_cache *c, struct registry_key key)
{
    struct table_item item;

    return table_reader_get(use_reader(c), REGISTRY_PARTITION_KEY, registry_key_str(&key), &item) ? item.offset + 1 : 0;
}

static void decode(struct view_cache *c, struct cached *cached, struct registry *configured, struct str tenant,
                   struct str device)
{
    json_t *tenant_state = read_state(c, registry_key_tenant(tenant), &cached->tenant_offset);
    json_t *device_state = NULL, *credentials = NULL;
    bool has_device;

    cached->device_offset = cached->credentials_offset = 0;
    if (device.n) {
        device_state = read_state(c, registry_key_device(tenant, device), &cached->device_offset);
        credentials = read_state(c, registry_key_credentials(tenant, device), &cached->credentials_offset);
    }
    retire(c, cached->entry);
    cached->entry = NULL;
    has_device = device_state || !device.n || registry_configured_device(configured, tenant, device);
    cached->is_absent = !has_device || (!tenant_state && !registry_configured_tenant(configured, tenant));
    if (!cached->is_absent && (tenant_state || device_state))
        cached->entry = make_entry(configured, tenant, tenant_state, device, device_state);
    if (cached->entry)
        cached->entry->is_locked = device_state && !has_credentials(credentials, (int64_t)loop_wall_ms());
    json_decref(tenant_state);
    json_decref(device_state);
    json_decref(credentials);
}

static bool is_fresh(struct view_cache *c, const struct cached *cached, struct str tenant, struct str device)
{
    return cached->tenant_offset == offset_at(c, registry_key_tenant(tenant)) &&
           (!device.n || (cached->device_offset == offset_at(c, registry_key_device(tenant, device)) &&
                          cached->credentials_offset == offset_at(c, registry_key_credentials(tenant, device))));
}

static struct cached *find_cached(struct view_cache *c, struct registry *configured, struct str tenant, struct str device)
{
    char text[MAX_KEY_BYTES];
    struct str key = {text, tenant.n + 1 + device.n};
    struct cached *cached;
    uint64_t hash;

    if (c->configured != configured->number) {
        empty_cache(c); /* which lets go of the configuration before */
        c->configured = configured->number;
    }
    memcpy(text, tenant.p, tenant.n);
    text[tenant.n] = '/';
    if (device.n)
        memcpy(text + tenant.n + 1, device.p, device.n);
    hash = siphash(key);
    cached = map_find(&c->entries, hash, &key, has_key);
    if (cached)
        cached->is_used = true;
    if (cached && cached->checked == c->seen)
        return cached;
    if (cached && is_fresh(c, cached, tenant, device)) {
        cached->checked = c->seen;
        return cached;
    }
    if (!cached) {
        if (c->entries.n_entries >= CACHE_MAX_ENTRIES)
            evict(c);
        cached = mem_alloc_zero(MEM_REGISTRY, sizeof *cached + key.n);
        cached->hash = hash;
        cached->key_n = key.n;
        memcpy(cached->key, key.p, key.n);
        map_add(&c->entries, MEM_REGISTRY, hash, cached);
        list_push(&c->by_age, &cached->link);
    }
    decode(c, cached, configured, tenant, device);
    cached->checked = c->seen;
    return cached;
}

struct registry *registry_view_find(struct registry_view *view, struct registry *configured, struct str tenant,
                                    struct str device, bool *out_is_absent)
{
    struct view_cache *c;
    struct cached *cached;

    *out_is_absent = true;
    if (tenant.n == 0 || tenant.n > SCHEMA_MAX_ID_BYTES || device.n > SCHEMA_MAX_ID_BYTES) {
        *out_is_absent = false; /* longer than any that is managed; the configuration may have it */
        return NULL;
    }
    c = use_cache(view);
    if (!c)
        return NULL;
    cached = find_cached(c, configured, tenant, device);
    rest(c);
    *out_is_absent = cached->is_absent;
    return cached->entry;
}

bool registry_view_find_account(struct registry_view *view, struct str tenant, struct str type, struct str auth_id,
                                struct str *out_device)
{
    struct view_cache *c = use_cache(view);
    struct registry_key key;
    struct table_item item;
    bool is_there;

    if (!c || tenant.n > SCHEMA_MAX_ID_BYTES)
        return false;
    key = registry_key_login(tenant, type, auth_id);
    is_there = table_reader_get(use_reader(c), REGISTRY_PARTITION_KEY, registry_key_str(&key), &item) &&
               item.value.n <= sizeof c->account;
    if (is_there) {
        memcpy(c->account, item.value.p, item.value.n); /* the reader rests now */
        *out_device = (struct str){c->account, item.value.n};
    }
    rest(c);
    return is_there;
}

struct table_reader *registry_view_reader(struct registry_view *view)
{
    struct view_cache *c = use_cache(view);

    return c ? use_reader(c) : NULL;
}

void registry_view_rest(struct registry_view *view)
{
    if (thread_cache && thread_cache->view == view)
        rest(thread_cache);
}

/* --- passwords --- */

static void on_caught_up(struct mail *m)
{
    struct table_barrier *barrier = CONTAINER_OF(m, struct table_barrier, mail);
    struct registry_wait *wait = CONTAINER_OF(barrier, struct registry_wait, barrier);

    wait->has_caught_up = true;
    wait->mail.on_mail(&wait->mail);
}

bool registry_view_catch_up(struct registry_view *view, struct registry_wait *wait)
{
    if (!wait || wait->has_caught_up)
        return false;
    wait->barrier = (struct table_barrier){.mail = {.on_mail = on_caught_up}, .home = wait->home};
    table_catch_up(view->table, REGISTRY_PARTITION_KEY, CATCH_UP_MS, &wait->barrier);
    return true;
}

bool registry_view_provision(struct registry_view *view, struct registry_wait *wait, struct provision *p)
{
    if (!view->provision || !wait || wait->has_provisioned) {
        provision_free(p);
        return false;
    }
    p->wait = wait;
    view->provision(view->provisioner, p);
    return true;
}

static const json_t *find_credentials(const json_t *state, struct str type, struct str auth_id)
{
    return credentials_document_find(json_object_get(state, "document"), type, auth_id);
}

/* --- pre-shared keys --- */

/* TLS asks for one key: while two are valid, as in a change, it is the first. */
static struct str valid_key(const json_t *credentials)
{
    const json_t *secrets = json_object_get(credentials, "secrets");

    for (size_t i = 0; document_get_bool(credentials, "enabled", true) && i < json_array_size(secrets); i++) {
        const json_t *secret = json_array_get(secrets, i);

        if (credentials_document_is_valid(secret, (int64_t)loop_wall_ms()))
            return document_get_text(secret, "key");
    }
    return (struct str){0};
}

size_t registry_view_read_psk(struct registry_view *view, struct str tenant, struct str auth_id, unsigned char *to, size_t room)
{
    enum { MAX_ENCODED_BYTES = 512 };
    struct view_cache *c = use_cache(view);
    char decoded[BASE64_DECODED_BYTES(MAX_ENCODED_BYTES)];
    struct str device, key;
    json_t *state;
    uint64_t offset;
    size_t n = 0;

    if (!c || !registry_view_find_account(view, tenant, STR("psk"), auth_id, &device))
        return 0;
    state = read_state(c, registry_key_credentials(tenant, device), &offset);
    rest(c);
    key = valid_key(find_credentials(state, STR("psk"), auth_id));
    if (key.n == 0 || key.n > MAX_ENCODED_BYTES || !base64_decode(key, decoded, &n) || n > room)
        n = 0;
    memcpy(to, decoded, n);
    explicit_bzero(decoded, sizeof decoded);
    json_decref(state);
    return n;
}

enum registry_view_check registry_view_check(struct registry_view *view, const struct registry_login *login, struct str tenant,
                                             struct str auth_id, struct str device)
{
    struct view_cache *c = use_cache(view);
    struct str password = login->has_password ? login->password : STR("");
    json_t *state = NULL;
    enum password_check_result result;
    uint64_t offset;

    if (!c)
        return REGISTRY_VIEW_BUSY;
    if (device.n)
        state = read_state(c, registry_key_credentials(tenant, device), &offset);
    rest(c);
    result = password_check_ask(view->checks, find_credentials(state, STR("hashed-password"), auth_id),
                                registry_state_version(state), auth_id, password, login->wait);
    json_decref(state);
    if (result == PASSWORD_CHECK_RIGHT)
        return REGISTRY_VIEW_RIGHT;
    if (result == PASSWORD_CHECK_PENDING)
        return REGISTRY_VIEW_PENDING;
    if (result == PASSWORD_CHECK_BUSY)
        return REGISTRY_VIEW_BUSY;
    return registry_view_catch_up(view, login->wait) ? REGISTRY_VIEW_PENDING : REGISTRY_VIEW_WRONG;
}
