#include "registry/registry.h"

#include "base/check.h"
#include "base/siphash.h"
#include "loop/tls_peer.h"
#include "registry/authority_login.h"
#include "registry/certificate_login.h"
#include "registry/provision.h"
#include "registry/registry_key.h"
#include "registry/registry_private.h"
#include "registry/registry_view.h"
#include "registry/registry_wait.h"
#include "registry/revocation_list.h"
#include "registry/schema.h"
#include "registry/token_login.h"
#include "registry/usage.h"

struct pair {
    struct str tenant, id;
};

static bool tenant_has_id(const void *entry, const void *key)
{
    return str_equal(((const struct registry_tenant *)entry)->id, *(const struct str *)key);
}

static bool device_has_id(const void *entry, const void *key)
{
    const struct device_entry *dev = entry;
    const struct pair *pair = key;

    return str_equal(dev->device.id, pair->id) && str_equal(dev->device.tenant->id, pair->tenant);
}

static bool device_has_auth_id(const void *entry, const void *key)
{
    const struct device_entry *dev = entry;
    const struct pair *pair = key;

    return str_equal(dev->device.auth_id, pair->id) && str_equal(dev->device.tenant->id, pair->tenant);
}

static struct device_entry *find_device(const struct registry *registry, struct str tenant, struct str id)
{
    struct pair key = {tenant, id};

    return map_find(&registry->devices_by_id, siphash_pair(tenant, id), &key, device_has_id);
}

const struct registry_tenant *registry_configured_tenant(const struct registry *registry, struct str id)
{
    return map_find(&registry->tenants_by_id, siphash(id), &id, tenant_has_id);
}

struct device_entry *registry_configured_device(const struct registry *registry, struct str tenant, struct str id)
{
    return find_device(registry, tenant, id);
}

static struct device_entry *find_login(const struct registry *registry, struct str tenant, struct str auth_id)
{
    struct pair key = {tenant, auth_id};

    return map_find(&registry->devices_by_auth_id, siphash_pair(tenant, auth_id), &key, device_has_auth_id);
}

/* --- from the configuration --- */

/* None listed: every adapter is on. docs/DEVICES.md */
static uint32_t adapters_of(const struct config_tenant *source)
{
    uint32_t adapters = source->adapter_count ? 0 : (1u << CONFIG_ADAPTER_TYPES) - 1;

    for (size_t i = 0; i < source->adapter_count; i++)
        if (source->adapters[i].is_enabled)
            adapters |= 1u << source->adapters[i].type;
    return adapters;
}

static const struct config_strings none;

static void add_device(struct registry *registry, const struct registry_tenant *ten, const struct config_device *source,
                       struct device_entry *dev)
{
    *dev = (struct device_entry){
        .device = {.id = source->id,
                   .auth_id = source->auth_id,
                   .tenant = ten,
                   .is_enabled = source->is_enabled,
                   .has_gateways = source->via.count > 0,
                   .mapper = source->mapper.n ? source->mapper : ten->mapper,
                   .command_mapper = source->command_mapper.n ? source->command_mapper : ten->command_mapper,
                   .via = &source->via,
                   .via_groups = &none,
                   .member_of = &none,
                   .defaults = &source->defaults},
        .password = source->password,
    };
    map_add(&registry->devices_by_id, MEM_REGISTRY, siphash_pair(ten->id, source->id), dev);
    if (source->password.n)
        map_add(&registry->devices_by_auth_id, MEM_REGISTRY, siphash_pair(ten->id, source->auth_id), dev);
}

static void add_devices(struct registry *registry, const struct registry_tenant *ten, const struct config_tenant *source)
{
    struct device_entry *devices = arena_alloc(&registry->arena, MEM_REGISTRY, source->device_count * sizeof *devices);

    for (size_t i = 0; i < source->device_count; i++)
        add_device(registry, ten, &source->devices[i], &devices[i]);
    for (size_t i = 0; i < source->device_count; i++) {
        const struct config_strings *via = &source->devices[i].via;

        for (size_t k = 0; k < via->count; k++)
            find_device(registry, ten->id, via->items[k])->device.is_gateway =
                true; /* config_load() has checked that it exists */
    }
}

struct registry *registry_new(struct config *config)
{
    static atomic_uint_fast64_t last_number;
    struct registry *registry = mem_alloc_zero(MEM_REGISTRY, sizeof *registry);

    atomic_init(&registry->refs, 1);
    registry->number = atomic_fetch_add_explicit(&last_number, 1, memory_order_relaxed) + 1;
    registry->config = config_ref(config);
    registry->tenants = arena_alloc(&registry->arena, MEM_REGISTRY, config->tenant_count * sizeof *registry->tenants);
    for (size_t i = 0; i < config->tenant_count; i++) {
        const struct config_tenant *source = &config->tenants[i];
        struct registry_tenant *ten = &registry->tenants[i];

        *ten = (struct registry_tenant){.id = source->id,
                                        .is_enabled = source->is_enabled,
                                        .adapters = adapters_of(source),
                                        .defaults = &source->defaults,
                                        .limits = &source->limits,
                                        .mapper = source->mapper,
                                        .command_mapper = source->command_mapper,
                                        .registry = registry,
                                        .usage = usage_ref(source->id)};
        map_add(&registry->tenants_by_id, MEM_REGISTRY, siphash(ten->id), ten);
        add_devices(registry, ten, source);
    }
    return registry;
}

void registry_use_view(struct registry *registry, struct registry_view *view)
{
    registry->view = view;
}

void registry_use_authority(struct registry *registry, struct authority *authority)
{
    registry->authority = authority;
}

void registry_use_revocation_lists(struct registry *registry, struct revocation_lists *lists)
{
    registry->lists = lists;
}

const struct revocation_lists *registry_revocation_lists(const struct registry *registry)
{
    return registry->lists;
}

struct registry *registry_ref(struct registry *registry)
{
    atomic_fetch_add_explicit(&registry->refs, 1, memory_order_relaxed);
    return registry;
}

void registry_unref(struct registry *registry)
{
    if (!registry || atomic_fetch_sub_explicit(&registry->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < (registry->config ? registry->config->tenant_count : 1); i++)
        usage_unref(registry->tenants[i].usage);
    map_free(&registry->tenants_by_id, MEM_REGISTRY);
    map_free(&registry->devices_by_id, MEM_REGISTRY);
    map_free(&registry->devices_by_auth_id, MEM_REGISTRY);
    arena_free(&registry->arena, MEM_REGISTRY);
    revocation_list_unref(registry->lists);
    config_unref(registry->config);
    registry_unref(registry->parent);
    mem_free(MEM_REGISTRY, registry);
}

/* --- questions --- */

static bool is_any_device(const void *entry, const void *key)
{
    (void)entry;
    (void)key;
    return true;
}

struct registry_found registry_find_both(struct registry *registry, struct str tenant, struct str device)
{
    struct registry_found found = {0};
    struct registry *managed;
    bool is_absent = false;

    managed = registry->view ? registry_view_find(registry->view, registry, tenant, device, &is_absent) : NULL;
    if (managed) {
        found.tenant = managed->tenants;
        if (device.n)
            found.device = map_find(&managed->devices_by_id, 0, NULL, is_any_device);
    } else if (!is_absent || !device.n) {
        found.tenant = is_absent ? NULL : registry_configured_tenant(registry, tenant);
        if (device.n)
            found.device = find_device(registry, tenant, device);
    } else {
        return registry_find_both(registry, tenant, (struct str){0});
    }
    return found;
}

const struct registry_tenant *registry_find_tenant(struct registry *registry, struct str id)
{
    return registry_find_both(registry, id, (struct str){0}).tenant;
}

size_t registry_tenant_count(const struct registry *registry)
{
    return registry->config->tenant_count;
}

const struct registry_tenant *registry_tenant_at(const struct registry *registry, size_t index)
{
    ASSERT(index < registry->config->tenant_count);
    return &registry->tenants[index];
}

static enum registry_result become(const struct registry_tenant *ten, const struct registry_device *dev,
                                   struct principal *out_principal)
{
    *out_principal = (struct principal){ten, dev};
    (void)registry_ref(ten->registry); /* held by the principal */
    return REGISTRY_OK;
}

bool registry_has_adapter(const struct registry_tenant *ten, enum config_adapter_type adapter)
{
    return ten->adapters & 1u << adapter;
}

enum registry_result registry_let_in(const struct registry_found *found, struct principal *out_principal)
{
    if (!found->device->device.is_enabled)
        return REGISTRY_DEVICE_DISABLED;
    return become(found->tenant, &found->device->device, out_principal);
}

static enum registry_result enter_anonymously(struct registry *registry, const struct registry_login *login,
                                              struct principal *out_principal)
{
    const struct registry_tenant *ten = registry_find_tenant(registry, login->tenant);

    if (login->has_password || !login->is_anonymous_allowed || !ten || !ten->is_enabled)
        return REGISTRY_BAD_CREDENTIALS;
    if (!registry_has_adapter(ten, login->adapter))
        return REGISTRY_ADAPTER_DISABLED;
    return become(ten, NULL, out_principal);
}

/* Whether it is who he says, by what the configuration says or what is managed. */
static enum registry_view_check check_password(struct registry *registry, const struct registry_login *login, struct str tenant,
                                               struct str auth_id, const struct registry_found *found, bool is_managed)
{
    const struct device_entry *dev = is_managed ? NULL : found->device;
    struct str password = login->has_password ? login->password : STR("");
    bool is_right = str_equal_secret(password, dev ? dev->password : STR("nobody's password")) && dev && dev->password.n;

    if (is_right)
        return REGISTRY_VIEW_RIGHT;
    if (!registry->view)
        return REGISTRY_VIEW_WRONG;
    return registry_view_check(registry->view, login, tenant, auth_id, is_managed ? found->device->device.id : (struct str){0});
}

/* Who logs in with this name: managed log-ins first. */
static struct registry_found find_account(struct registry *registry, struct str tenant, struct str auth_id,
                                          bool *out_is_managed)
{
    const struct device_entry *dev = find_login(registry, tenant, auth_id);
    struct registry_found found;
    struct str device;

    *out_is_managed =
        registry->view && registry_view_find_account(registry->view, tenant, STR("hashed-password"), auth_id, &device);
    if (*out_is_managed) {
        found = registry_find_both(registry, tenant, device);
        if (found.device && !found.device->password.n)
            return found;
        *out_is_managed = false; /* it only repeats the configuration */
    }
    found = registry_find_both(registry, tenant, dev ? dev->device.id : (struct str){0});
    if (!dev || (found.device && !str_equal(found.device->password, dev->password)))
        found.device = NULL; /* the device is managed, and its log-ins, too */
    return found;
}

/* Every refusal for bad credentials comes after the look-ups and a comparison, so that its time tells little about what it was
 * that did not fit. */
static enum registry_result enter_by_password(struct registry *registry, const struct registry_login *login,
                                              struct principal *out_principal)
{
    bool has_tenant, is_managed;
    struct str tenant = login->user_name, auth_id = str_take(&tenant, '@', &has_tenant);
    enum registry_view_check check;
    struct registry_found found;

    if (!has_tenant)
        tenant = login->tenant;
    if (login->is_tenant_fixed && !str_equal(tenant, login->tenant))
        return REGISTRY_TENANT_REFUSED;
    found = find_account(registry, tenant, auth_id, &is_managed);
    if (found.tenant && found.tenant->is_enabled && !registry_has_adapter(found.tenant, login->adapter))
        return REGISTRY_ADAPTER_DISABLED;
    check = check_password(registry, login, tenant, auth_id, &found, is_managed);
    if (check == REGISTRY_VIEW_PENDING)
        return REGISTRY_PENDING;
    if (check == REGISTRY_VIEW_BUSY)
        return REGISTRY_UNAVAILABLE;
    if (!found.tenant || !found.tenant->is_enabled || check != REGISTRY_VIEW_RIGHT)
        return REGISTRY_BAD_CREDENTIALS;
    return registry_let_in(&found, out_principal);
}

size_t registry_find_psk(struct registry *registry, struct str listener_tenant, struct str identity, unsigned char *to,
                         size_t room)
{
    bool has_tenant;
    struct str tenant = identity, auth_id = str_take(&tenant, '@', &has_tenant);

    if (!registry->view)
        return 0;
    return registry_view_read_psk(registry->view, has_tenant ? tenant : listener_tenant, auth_id, to, room);
}

/* TLS has seen that the client has the key; whose it is, and whether that one may enter, is found out here. */
static enum registry_result enter_by_key(struct registry *registry, const struct registry_login *login,
                                         struct principal *out_principal)
{
    bool has_tenant;
    struct str tenant = login->peer->psk_identity, auth_id = str_take(&tenant, '@', &has_tenant), device;
    struct registry_found found;

    if (!has_tenant)
        tenant = login->tenant;
    if (login->is_tenant_fixed && !str_equal(tenant, login->tenant))
        return REGISTRY_TENANT_REFUSED;
    if (!registry->view || !registry_view_find_account(registry->view, tenant, STR("psk"), auth_id, &device))
        return REGISTRY_BAD_CREDENTIALS;
    found = registry_find_both(registry, tenant, device);
    if (!found.tenant || !found.tenant->is_enabled || !found.device)
        return REGISTRY_BAD_CREDENTIALS;
    if (!registry_has_adapter(found.tenant, login->adapter))
        return REGISTRY_ADAPTER_DISABLED;
    return registry_let_in(&found, out_principal);
}

/* By what is known here. */
static enum registry_result enter_here(struct registry *registry, const struct registry_login *login,
                                       struct principal *out_principal)
{
    enum registry_result result;

    if (login->token.n && token_login_enter(registry, login, out_principal, &result))
        return result;
    if (login->token.n && !login->has_user_name)
        return REGISTRY_BAD_CREDENTIALS;
    if (!login->has_user_name || login->user_name.n == 0)
        return enter_anonymously(registry, login, out_principal);
    return enter_by_password(registry, login, out_principal);
}

/* With a webhook: before it, after it, or not at all. */
static enum registry_result enter_with_webhook(struct registry *registry, const struct registry_login *login,
                                               struct principal *out_principal)
{
    int order = registry->config->authentication.webhook.order;
    enum registry_result result;

    if (order == CONFIG_WEBHOOK_LAST && !(login->wait && login->wait->was_refused)) {
        result = enter_here(registry, login, out_principal);
        if (result != REGISTRY_BAD_CREDENTIALS)
            return result;
        if (login->wait)
            login->wait->was_refused = true;
    }
    if (authority_login_ask_webhook(registry, login, out_principal, &result))
        return result;
    return order == CONFIG_WEBHOOK_FIRST ? enter_here(registry, login, out_principal) : REGISTRY_BAD_CREDENTIALS;
}

static enum registry_result authenticate(struct registry *registry, const struct registry_login *login,
                                         struct principal *out_principal)
{
    enum registry_result result;

    if (login->out_expires_at_s)
        *login->out_expires_at_s = 0;
    if (login->peer && login->peer->psk_identity.n)
        return enter_by_key(registry, login, out_principal);
    if (login->peer && login->peer->der.n && certificate_login_enter(registry, login, out_principal, &result))
        return result;
    if (authority_login_judge_token(registry, login, out_principal, &result))
        return result;
    if (authority_login_has_webhook(registry, login))
        return enter_with_webhook(registry, login, out_principal);
    return enter_here(registry, login, out_principal);
}

enum registry_result registry_authenticate(struct registry *registry, const struct registry_login *login,
                                           struct principal *out_principal)
{
    enum registry_result result = authenticate(registry, login, out_principal);

    if (registry->view)
        registry_view_rest(registry->view);
    return result;
}

static bool is_among(const struct config_strings *list, struct str text)
{
    for (size_t i = 0; i < list->count; i++)
        if (str_equal(list->items[i], text))
            return true;
    return false;
}

/* By name, or as a member of a group that may. */
static bool may_act_for(const struct registry_device *gateway, const struct registry_device *dev)
{
    if (is_among(dev->via, gateway->id))
        return true;
    for (size_t i = 0; i < gateway->member_of->count; i++)
        if (is_among(dev->via_groups, gateway->member_of->items[i]))
            return true;
    return false;
}

enum registry_assertion registry_assert(struct registry *registry, struct str tenant, struct str device, struct str gateway,
                                        struct registration *out_registration)
{
    struct registry_found found = registry_find_both(registry, tenant, device), gw = {0};

    if (!found.tenant || !found.tenant->is_enabled)
        return REGISTRY_NO_TENANT;
    if (!found.device || !found.device->device.is_enabled)
        return REGISTRY_NO_DEVICE;
    if (gateway.n && !str_equal(gateway, device)) {
        gw = registry_find_both(registry, tenant, gateway);
        if (!gw.device || !gw.device->device.is_enabled)
            return REGISTRY_NO_GATEWAY;
        if (!may_act_for(&gw.device->device, &found.device->device))
            return REGISTRY_NOT_AUTHORISED;
    }
    *out_registration = (struct registration){found.tenant, &found.device->device, gw.device ? &gw.device->device : NULL};
    return REGISTRY_ASSERTED;
}

/* Appends the members of a group that are not there yet. */
static void add_members(struct table_reader *reader, struct str tenant, struct str group, struct arena *arena,
                        struct config_strings *list, size_t max)
{
    struct registry_key prefix = registry_key_member(tenant, group, (struct str){0});
    struct table_item item = {0};
    char after[REGISTRY_KEY_BYTES];
    size_t n = 0;

    while (list->count < max &&
           table_reader_next(reader, REGISTRY_PARTITION_KEY, registry_key_str(&prefix), (struct str){after, n}, &item)) {
        struct str member = str_from_offset(item.key, prefix.n);

        if (!is_among(list, member))
            list->items[list->count++] = arena_copy(arena, MEM_REGISTRY, member);
        n = item.key.n < sizeof after ? item.key.n : sizeof after;
        memcpy(after, item.key.p, n);
    }
}

struct config_strings registry_find_gateways(struct registry *registry, const struct registry_device *device,
                                             struct arena *arena)
{
    struct config_strings list = *device->via;
    size_t max = list.count + REGISTRY_MEMBERS_MAX;
    struct table_reader *reader = registry->view && device->via_groups->count ? registry_view_reader(registry->view) : NULL;

    if (!reader)
        return list;
    list.items = arena_alloc(arena, MEM_REGISTRY, max * sizeof *list.items);
    if (list.count)
        memcpy(list.items, device->via->items, list.count * sizeof *list.items);
    for (size_t i = 0; i < device->via_groups->count; i++)
        add_members(reader, device->tenant->id, device->via_groups->items[i], arena, &list, max);
    registry_view_rest(registry->view);
    return list;
}

bool registry_provision(struct registry *registry, struct str tenant, struct str device, struct str gateway,
                        struct registry_wait *wait)
{
    struct registry_found found = registry_find_both(registry, tenant, device), gw;
    struct document_fault fault;

    if (!registry->view || !found.tenant || !found.tenant->is_enabled || found.device ||
        schema_check_device_id(device, &fault) != E_OK)
        return false;
    gw = registry_find_both(registry, tenant, gateway);
    if (!gw.device || !gw.device->device.is_enabled || !gw.device->device.may_provision)
        return false;
    return registry_view_catch_up(registry->view, wait) ||
           registry_view_provision(
               registry->view, wait,
               provision_new(tenant, device, gateway, provision_document_behind(gateway, gw.device->device.member_of), NULL));
}

/* Whether the principal has what this registry says at present. */
static bool is_current(const struct registry *registry, const struct principal *principal, const struct registry_found *found)
{
    const struct registry *its = principal->tenant->registry;

    return principal->tenant == found->tenant &&
           (!principal->device || (found->device && principal->device == &found->device->device)) &&
           (its->number == 0 || its->number >= registry->number);
}

enum registry_standing registry_refresh(struct registry *registry, enum config_adapter_type adapter,
                                        struct principal *principal)
{
    struct principal before = *principal;
    struct registry_found found;

    if (!registry->view && before.tenant->registry->number >= registry->number)
        return REGISTRY_STANDS;
    found = registry_find_both(registry, before.tenant->id, before.device ? before.device->id : (struct str){0});
    if (!found.tenant || (before.device && !found.device))
        return REGISTRY_GONE;
    if (!is_current(registry, &before, &found)) {
        *principal = principal_copy(&(struct principal){found.tenant, before.device ? &found.device->device : NULL});
        principal_release(&before);
    }
    if (!found.tenant->is_enabled || !registry_has_adapter(found.tenant, adapter) ||
        (principal->device && (!found.device->device.is_enabled || found.tenant->registry->is_locked)))
        return REGISTRY_BARRED;
    return REGISTRY_STANDS;
}

/* --- words and numbers --- */

static const struct {
    const char *name;
    int status;
} assertions[REGISTRY_ASSERTIONS] = {
    [REGISTRY_ASSERTED] = {"asserted", 200},
    [REGISTRY_NO_TENANT] = {"no_tenant", 404},
    [REGISTRY_NO_DEVICE] = {"no_device", 404},
    [REGISTRY_NO_GATEWAY] = {"no_gateway", 403},
    [REGISTRY_NOT_AUTHORISED] = {"not_authorised", 403},
    [REGISTRY_ASSERT_UNAVAILABLE] = {"unavailable", 503},
};

static const char *const result_names[REGISTRY_RESULTS] = {
    [REGISTRY_OK] = "ok",
    [REGISTRY_BAD_CREDENTIALS] = "bad_credentials",
    [REGISTRY_ADAPTER_DISABLED] = "adapter_disabled",
    [REGISTRY_DEVICE_DISABLED] = "device_disabled",
    [REGISTRY_TENANT_REFUSED] = "tenant_refused",
    [REGISTRY_UNAVAILABLE] = "unavailable",
    [REGISTRY_PENDING] = "pending",
};

int registry_assertion_status(enum registry_assertion assertion)
{
    return assertions[assertion].status;
}

const char *registry_assertion_name(enum registry_assertion assertion)
{
    return assertions[assertion].name;
}

const char *registry_result_name(enum registry_result result)
{
    return result_names[result];
}
