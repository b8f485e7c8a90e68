#include "config/verify.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/moment.h"
#include "config/bind.h"
#include "config/nearest.h"
#include "config/report.h"
#include "config/value.h"
#include "config/verify_tls.h"

/* What the rules are checked with. */
struct verifier {
    struct config *config;
    const struct tree_node *root;
    const char *file;
    struct config_errors *errors;
};

#define FAIL(v, line, ...) report_error((v)->errors, (line) ? (v)->file : BIND_COMMAND_LINE, (line), __VA_ARGS__)

/* As FAIL, at an option that the file may not even have. */
#define FAIL_AT(v, node, ...)                                                                                                  \
    report_error((v)->errors, !(node) || (node)->line ? (v)->file : BIND_COMMAND_LINE, (node) ? (node)->line : 0, __VA_ARGS__)

/* Where `section.key` stands, else the section; NULL when the file has neither. */
static const struct tree_node *node_of(const struct verifier *v, const char *section, const char *key)
{
    const struct tree_node *outer = tree_find(v->root, str_from(section));
    const struct tree_node *inner = outer && key ? tree_find(outer, str_from(key)) : NULL;

    return inner ? inner : outer;
}

static int compare_str(struct str a, struct str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n ? memcmp(a.p, b.p, n) : 0;

    return order ? order : (a.n > b.n) - (a.n < b.n);
}

/* The fan-out alone has no use for it. */
static bool needs_kafka(const struct config *config)
{
    return !config->fanout.is_enabled || config->listener_count || config->to_kafka_count || config->to_mqtt_count;
}

static void verify_kafka(struct verifier *v)
{
    const struct config_kafka *kafka = &v->config->kafka;

    if (kafka->is_embedded && kafka->bootstrap.n)
        FAIL_AT(v, node_of(v, "kafka", "bootstrap"),
                "kafka.bootstrap: has no use with kafka.embedded: true; leave one of them out");
    if (!kafka->is_embedded && !kafka->bootstrap.n && needs_kafka(v->config))
        FAIL_AT(v, node_of(v, "kafka", NULL), "kafka.bootstrap is missing: where is Kafka? (k1:9092,k2:9092)");
    if (kafka->is_embedded && v->config->is_registry_shared)
        FAIL_AT(v, node_of(v, "registry", "shared"), "registry.shared: needs a real Kafka, not kafka.embedded: true");
    for (size_t i = 0; i < kafka->properties.count; i++) {
        struct str name = kafka->properties.items[i].name;

        if (str_equal(name, STR("bootstrap.servers")) || str_equal(name, STR("metadata.broker.list")))
            FAIL_AT(v, node_of(v, "kafka", "properties"), "kafka.properties.%.*s: use kafka.bootstrap", STR_ARG(name));
    }
}

/* --- tenants --- */

/* The tenant with this id, or NULL. `sorted` are all of them by id. */
struct by_id {
    const struct config_tenant **sorted;
    size_t count;
};

static int compare_tenants(const void *a, const void *b)
{
    return compare_str((*(const struct config_tenant *const *)a)->id, (*(const struct config_tenant *const *)b)->id);
}

static int compare_tenant_id(const void *id, const void *tenant)
{
    return compare_str(*(const struct str *)id, (*(const struct config_tenant *const *)tenant)->id);
}

static bool has_tenant(const struct by_id *tenants, struct str id)
{
    return bsearch(&id, tenants->sorted, tenants->count, sizeof *tenants->sorted, compare_tenant_id) != NULL;
}

static struct str nearest_tenant(const struct by_id *tenants, struct str id)
{
    struct nearest n = {.word = id};

    for (size_t i = 0; i < tenants->count; i++)
        nearest_offer(&n, tenants->sorted[i]->id);
    return nearest_result(&n);
}

static struct by_id sort_tenants(const struct config *config)
{
    struct by_id tenants = {.count = config->tenant_count};

    tenants.sorted = mem_alloc(MEM_CONFIG, (tenants.count + 1) * sizeof *tenants.sorted);
    for (size_t i = 0; i < tenants.count; i++)
        tenants.sorted[i] = &config->tenants[i];
    qsort(tenants.sorted, tenants.count, sizeof *tenants.sorted, compare_tenants);
    return tenants;
}

static void verify_adapters(struct verifier *v, const struct config_tenant *ten)
{
    const struct config_adapter *seen[CONFIG_ADAPTER_TYPES] = {0};

    for (size_t i = 0; i < ten->adapter_count; i++) {
        const struct config_adapter *adapter = &ten->adapters[i];

        if (seen[adapter->type])
            FAIL(v, adapter->line, "%.*s: the same adapter as in line %u", STR_ARG(adapter->id), seen[adapter->type]->line);
        seen[adapter->type] = adapter;
    }
}

static void verify_allowance(struct verifier *v, const struct config_tenant *ten, const char *name, struct config_allowance *a)
{
    if (moment_parse(a->since, &a->since_ms) != E_OK)
        FAIL(v, ten->line, "tenant %.*s: resource-limits.%s.effective-since: is no date and time, as in 2026-01-01T00:00:00Z",
             STR_ARG(ten->id), name);
}

/* --- devices --- */

static int compare_devices(const void *a, const void *b)
{
    return compare_str((*(const struct config_device *const *)a)->id, (*(const struct config_device *const *)b)->id);
}

static int compare_device_id(const void *id, const void *device)
{
    return compare_str(*(const struct str *)id, (*(const struct config_device *const *)device)->id);
}

/* By auth id, then by line, so that an error names the later one. */
static int compare_auth_ids(const void *a, const void *b)
{
    const struct config_device *x = *(const struct config_device *const *)a, *y = *(const struct config_device *const *)b;
    int order = compare_str(x->auth_id, y->auth_id);

    return order ? order : (x->line > y->line) - (x->line < y->line);
}

static void verify_via(struct verifier *v, const struct config_device *dev, const struct config_device **sorted, size_t count)
{
    for (size_t i = 0; i < dev->via.count; i++) {
        struct str gateway = dev->via.items[i];
        struct nearest near = {.word = gateway};

        if (gateway.n == 0)
            continue; /* refused when it was bound */
        if (str_equal(gateway, dev->id)) {
            FAIL(v, dev->line, "device %.*s: via names the device itself", STR_ARG(dev->id));
            continue;
        }
        if (bsearch(&gateway, sorted, count, sizeof *sorted, compare_device_id))
            continue;
        for (size_t k = 0; k < count && v->errors->count < CONFIG_MAX_ERRORS; k++)
            nearest_offer(&near, sorted[k]->id);
        struct str best = nearest_result(&near);
        FAIL(v, dev->line, "device %.*s: via names %.*s, which is no device of the tenant%s%.*s%s", STR_ARG(dev->id),
             STR_ARG(gateway), best.n ? " (did you mean " : "", STR_ARG(best), best.n ? "?)" : "");
    }
}

static void verify_auth_ids(struct verifier *v, const struct config_device **sorted, size_t count)
{
    qsort(sorted, count, sizeof *sorted, compare_auth_ids);
    for (size_t i = 1; i < count; i++)
        if (sorted[i]->auth_id.n && str_equal(sorted[i - 1]->auth_id, sorted[i]->auth_id) &&
            !str_equal(sorted[i - 1]->id, sorted[i]->id)) /* one key given twice was told already */
            FAIL(v, sorted[i]->line, "device %.*s: its auth_id %.*s is that of device %.*s too", STR_ARG(sorted[i]->id),
                 STR_ARG(sorted[i]->auth_id), STR_ARG(sorted[i - 1]->id));
}

static void verify_devices(struct verifier *v, struct config_tenant *ten)
{
    const struct config_device **sorted = mem_alloc(MEM_CONFIG, (ten->device_count + 1) * sizeof *sorted);

    for (size_t i = 0; i < ten->device_count; i++) {
        struct config_device *dev = &ten->devices[i];

        sorted[i] = dev;
        if (dev->password.n && !dev->auth_id.n)
            dev->auth_id = dev->id;
    }
    qsort(sorted, ten->device_count, sizeof *sorted, compare_devices);
    for (size_t i = 0; i < ten->device_count; i++)
        verify_via(v, &ten->devices[i], sorted, ten->device_count);
    verify_auth_ids(v, sorted, ten->device_count);
    mem_free(MEM_CONFIG, sorted);
}

/* --- listeners --- */

static bool is_same_address(const struct config_address *a, const struct config_address *b)
{
    return a->port && a->port == b->port && str_equal_nocase(a->host, b->host);
}

/* Whether the listener has an address in the text, be it one that cannot be read, which was told. */
static bool has_address_node(const struct verifier *v, const struct config_listener *listener)
{
    static const struct str names[] = {STR_INIT("mqtt"), STR_INIT("mqtts"), STR_INIT("http"), STR_INIT("https")};
    const struct tree_node *list = tree_find(v->root, STR("listeners"));
    const struct tree_node *node = list ? list->first : NULL;

    for (size_t i = (size_t)(listener - v->config->listeners); node && i > 0; i--)
        node = node->next;
    for (size_t i = 0; node && i < ARRAY_LEN(names); i++)
        if (!tree_is_null(tree_find(node, names[i])))
            return true;
    return false;
}

static void verify_protocol(struct verifier *v, const struct config_listener *listener)
{
    const struct config_address *const addresses[] = {&listener->mqtt, &listener->mqtts, &listener->http, &listener->https};
    unsigned n = 0;

    for (size_t i = 0; i < ARRAY_LEN(addresses); i++)
        n += addresses[i]->host.n > 0;
    if (n > 1)
        FAIL(v, listener->line, "%.*s: has several of mqtt, mqtts, http and https; each needs a listener of its own",
             STR_ARG(listener->id));
    if (n == 0 && !has_address_node(v, listener))
        FAIL(v, listener->line,
             "%.*s: mqtt, mqtts, http or https is missing: the address it listens at, and what it serves there",
             STR_ARG(listener->id));
    if (config_listener_http(listener) && !listener->is_hono)
        FAIL(v, listener->line, "%.*s: hono: false leaves an http listener nothing to serve", STR_ARG(listener->id));
    if (config_listener_has_tls(listener))
        verify_tls_check(&listener->tls, listener->id, v->file, listener->line, v->errors);
    else if (verify_tls_is_given(&listener->tls))
        FAIL(v, listener->line, "%.*s.tls: has no use without mqtts or https", STR_ARG(listener->id));
}

static void verify_listener(struct verifier *v, const struct config_listener *listener, const struct by_id *tenants)
{
    verify_protocol(v, listener);
    if (listener->tenant.n == 0) {
        if (listener->is_anonymous)
            FAIL(v, listener->line, "%.*s: anonymous clients need a tenant", STR_ARG(listener->id));
        if (listener->is_tenant_fixed)
            FAIL(v, listener->line, "%.*s: tenant_fixed needs a tenant", STR_ARG(listener->id));
    } else if (!has_tenant(tenants, listener->tenant)) {
        struct str best = nearest_tenant(tenants, listener->tenant);

        FAIL(v, listener->line, "%.*s: tenant %.*s is not configured%s%.*s%s", STR_ARG(listener->id), STR_ARG(listener->tenant),
             best.n ? " (did you mean " : "", STR_ARG(best), best.n ? "?)" : "");
    }
}

static void verify_listeners(struct verifier *v, const struct by_id *tenants)
{
    const struct config *config = v->config;

    if (config->listener_count == 0 && !config->fanout.is_enabled && tree_is_null(tree_find(v->root, STR("listeners"))))
        report_error(v->errors, v->file, 0, "listeners is missing: which address do devices connect to?");
    for (size_t i = 0; i < config->listener_count; i++) {
        const struct config_listener *listener = &config->listeners[i];

        const struct config_address *address = config_listener_address(listener);

        verify_listener(v, listener, tenants);
        if (is_same_address(address, &config->admin_listen))
            FAIL(v, listener->line, "%.*s: %.*s is the address of admin.listen", STR_ARG(listener->id), STR_ARG(address->text));
        for (size_t k = 0; k < i; k++)
            if (is_same_address(config_listener_address(&config->listeners[k]), address))
                FAIL(v, listener->line, "%.*s: %.*s is the address of %.*s", STR_ARG(listener->id), STR_ARG(address->text),
                     STR_ARG(config->listeners[k].id));
    }
}

/* --- fan-out --- */

static const struct str fanout_sources[] = {STR_INIT("file"), STR_INIT("put")};

/* The default of a list cannot stand in the option table. */
static void complete_fanout(struct config *config, const struct tree_node *section)
{
    static struct str file[] = {STR_INIT("file")};
    struct config_fanout *f = &config->fanout;

    f->is_enabled = section != NULL;
    if (f->sources.count == 0)
        f->sources = (struct config_strings){file, ARRAY_LEN(file)};
}

static void verify_sources(struct verifier *v)
{
    const struct config_strings *sources = &v->config->fanout.sources;
    const struct tree_node *at = node_of(v, "fanout", "sources");

    for (size_t i = 0; i < sources->count; i++) {
        bool is_known = false;

        for (size_t k = 0; k < ARRAY_LEN(fanout_sources); k++)
            is_known = is_known || str_equal(sources->items[i], fanout_sources[k]);
        if (!is_known)
            FAIL_AT(v, at, "fanout.sources: \"%.*s\" is none of file, put", STR_ARG(report_excerpt(sources->items[i])));
        for (size_t k = 0; k < i; k++)
            if (str_equal(sources->items[i], sources->items[k]))
                FAIL_AT(v, at, "fanout.sources: %.*s is there twice", STR_ARG(report_excerpt(sources->items[i])));
    }
}

static bool has_source(const struct config_fanout *f, struct str name)
{
    for (size_t i = 0; i < f->sources.count; i++)
        if (str_equal(f->sources.items[i], name))
            return true;
    return false;
}

static void verify_fanout(struct verifier *v)
{
    const struct config *config = v->config;
    const struct config_fanout *f = &config->fanout;
    const struct tree_node *at = node_of(v, "fanout", "listen");

    if (!f->is_enabled)
        return;
    verify_sources(v);
    if (f->listen.host.n == 0)
        FAIL_AT(v, at, "fanout.listen is missing: the address events come to");
    if (is_same_address(&f->listen, &config->admin_listen))
        FAIL_AT(v, at, "fanout.listen: %.*s is the address of admin.listen", STR_ARG(f->listen.text));
    for (size_t i = 0; i < config->listener_count; i++)
        if (is_same_address(&f->listen, config_listener_address(&config->listeners[i])))
            FAIL_AT(v, at, "fanout.listen: %.*s is the address of %.*s", STR_ARG(f->listen.text),
                    STR_ARG(config->listeners[i].id));
    if (has_source(f, STR("put")) && f->put_token.n == 0 && config->admin_listen.host.n &&
        !value_is_loopback(config->admin_listen.host))
        FAIL_AT(v, node_of(v, "fanout", "sources"),
                "fanout.put_token is missing: anybody who reaches admin.listen (%.*s) could change the configuration",
                STR_ARG(config->admin_listen.text));
    if (f->park_delay_ms > f->park_delay_max_ms)
        FAIL_AT(v, node_of(v, "fanout", "park_delay"), "fanout.park_delay is longer than fanout.park_delay_max");
    if (f->stateless_allow.count && f->stateless_token.n == 0)
        FAIL_AT(v, node_of(v, "fanout", "stateless"), "fanout.stateless.token is missing");
}

/* --- management --- */

static void verify_management(struct verifier *v)
{
    const struct config *config = v->config;

    for (size_t i = 0; i < config->admin_user_count; i++) {
        const struct config_admin_user *user = &config->admin_users[i];

        if (!user->password.n && !user->token.n)
            FAIL(v, user->line, "admin.users.%.*s: password or token is missing", STR_ARG(user->id));
        for (size_t k = 0; k < i && user->token.n; k++)
            if (str_equal(user->token, config->admin_users[k].token))
                FAIL(v, user->line, "admin.users.%.*s.token: is that of %.*s", STR_ARG(user->id),
                     STR_ARG(config->admin_users[k].id));
    }
    if (config->is_managed && !config_is_fanout_alone(config) && config->admin_user_count == 0 && config->admin_listen.host.n &&
        !value_is_loopback(config->admin_listen.host))
        FAIL_AT(v, node_of(v, "admin", "listen"),
                "admin.users is missing: anybody who reaches admin.listen (%.*s) could change tenants and devices (or "
                "admin.management: false)",
                STR_ARG(config->admin_listen.text));
}

/* --- the rest --- */

/* Notices of delivery must not be read as commands. */
static void verify_commands(struct verifier *v)
{
    static const struct str others[] = {STR_INIT("hono"), STR_INIT("hono.command"), STR_INIT("hono.command_internal")};

    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (str_equal(v->config->command.ack_topic, others[i]))
            FAIL_AT(v, node_of(v, "command", "ack_topic"), "command.ack_topic: the topics %.*s. are for something else",
                    STR_ARG(others[i]));
}

/* One role is of use only where commands are passed on, and there others must be able to have the other one. */
static void verify_role(struct verifier *v)
{
    const struct config_command *c = &v->config->command;
    const struct tree_node *at = node_of(v, "command", "role");
    bool is_passed_on = c->routing == CONFIG_ROUTING_ROUTER || c->routing == CONFIG_ROUTING_LINK;

    if (c->role == CONFIG_COMMAND_ROLE_ALL)
        return;
    if (!is_passed_on)
        FAIL_AT(v, at, "command.role: only with command.routing: router or link");
    else if (!c->is_shared || v->config->kafka.is_embedded)
        FAIL_AT(v, at, "command.role: an instance that is alone has all roles");
}

static void verify_link(struct verifier *v)
{
    const struct config_command *c = &v->config->command;
    const struct tree_node *at = node_of(v, "command", "link");

    if (!config_has_link(v->config))
        return;
    if (c->link_listen.host.n == 0)
        FAIL_AT(v, at, "command.link.listen is missing: where do other instances connect to?");
    if (is_same_address(&c->link_listen, &v->config->admin_listen))
        FAIL_AT(v, at, "command.link.listen: %.*s is the address of admin.listen", STR_ARG(c->link_listen.text));
    verify_tls_check(&c->link_tls, STR("command.link"), v->file, at ? at->line : 0, v->errors);
    if (c->link_tls.client_ca.count == 0)
        FAIL_AT(v, at, "command.link.tls.client_ca is missing: who issues the certificates of instances?");
    if (c->link_tls.has_psk)
        FAIL_AT(v, at, "command.link.tls.psk: instances have certificates");
    if (c->link_tls.ticket_keys.n)
        FAIL_AT(v, at, "command.link.tls.ticket_keys: instances resume no sessions");
}

static void verify_tls(struct verifier *v)
{
    const struct config *config = v->config;
    const struct tree_node *admin = node_of(v, "admin", "tls"), *client = node_of(v, "https_client", NULL);

    if (config->admin_tls.has_psk)
        FAIL_AT(v, admin, "admin.tls.psk: nobody logs in there by a key");
    else if (verify_tls_is_given(&config->admin_tls))
        verify_tls_check(&config->admin_tls, STR("admin"), v->file, admin ? admin->line : 0, v->errors);
    if (config->https_key.count && config->https_key.count != config->https_cert.count)
        FAIL_AT(v, client, "https_client.key: must have as many files as https_client.cert");
}

static void verify_limits(struct verifier *v)
{
    const struct config_limits *limits = &v->config->limits;
    const struct {
        const char *section, *key;
        uint64_t bytes;
    } rooms[] = {
        {"limits", "output_bytes", limits->output_bytes},
        {"limits", "session_queued_bytes", limits->session_queued_bytes},
        {"kafka", "max_inflight_bytes", v->config->kafka.max_inflight_bytes},
    };

    /* A packet that is accepted but fits nowhere would be stuck for ever. */
    for (size_t i = 0; i < ARRAY_LEN(rooms); i++) {
        const struct tree_node *node = node_of(v, rooms[i].section, rooms[i].key);

        if (rooms[i].bytes >= limits->max_packet_bytes)
            continue;
        if (!node || !str_equal(node->key, str_from(rooms[i].key)))
            node = node_of(v, "limits", "max_packet_bytes"); /* which is then what the file raised */
        FAIL_AT(v, node, "%s.%s: must be at least limits.max_packet_bytes", rooms[i].section, rooms[i].key);
    }
    if (v->config->kafka.max_inflight_bytes < v->config->http.max_body_bytes)
        FAIL_AT(v, node_of(v, "http", "max_body_bytes"), "http.max_body_bytes: must be at most kafka.max_inflight_bytes");
    if (limits->keep_alive_maximum_ms % 1000)
        FAIL_AT(v, node_of(v, "limits", "keep_alive_maximum"), "limits.keep_alive_maximum: must be whole seconds");
}

static int find_subsystem(struct str name, struct nearest *near)
{
    for (int sub = 0; sub < LOG_SUBS; sub++) {
        if (str_equal(name, str_from(log_sub_name((enum log_sub)sub))))
            return sub;
        nearest_offer(near, str_from(log_sub_name((enum log_sub)sub)));
    }
    return -1;
}

static int find_level(struct str name)
{
    int level = LOG_LEVEL_DEBUG;

    while (level >= 0 && !str_equal(name, str_from(log_level_name((enum log_level)level))))
        level--;
    return level;
}

static void verify_log_levels(struct verifier *v)
{
    struct config *config = v->config;

    for (int sub = 0; sub < LOG_SUBS; sub++)
        config->log_levels[sub] = (enum log_level)config->log_level;
    for (size_t i = 0; i < config->log_level_names.count; i++) {
        const struct config_property *entry = &config->log_level_names.items[i];
        struct nearest near = {.word = entry->name};
        int sub = find_subsystem(entry->name, &near), level = find_level(entry->value);
        struct str best = nearest_result(&near);

        if (sub < 0)
            FAIL_AT(v, node_of(v, "log", "levels"), "log.levels.%.*s: unknown part of the program%s%.*s%s",
                    STR_ARG(entry->name), best.n ? " (did you mean " : "", STR_ARG(best), best.n ? "?)" : "");
        else if (level >= 0) /* else refused when it was bound */
            config->log_levels[sub] = (enum log_level)level;
    }
}

void verify_config(struct config *config, const struct tree_node *root, const char *file, struct config_errors *errors)
{
    struct verifier v = {.config = config, .root = root, .file = file, .errors = errors};
    struct by_id tenants = sort_tenants(config);

    complete_fanout(config, root->kind == TREE_MAP ? tree_find(root, STR("fanout")) : NULL);
    verify_kafka(&v);
    verify_listeners(&v, &tenants);
    verify_fanout(&v);
    verify_commands(&v);
    verify_link(&v);
    verify_role(&v);
    for (size_t i = 0; i < config->tenant_count; i++) {
        verify_adapters(&v, &config->tenants[i]);
        verify_allowance(&v, &config->tenants[i], "data-volume", &config->tenants[i].limits.data_volume);
        verify_allowance(&v, &config->tenants[i], "connection-duration", &config->tenants[i].limits.connection_duration);
        verify_devices(&v, &config->tenants[i]);
    }
    verify_limits(&v);
    verify_tls(&v);
    verify_management(&v);
    verify_log_levels(&v);
    mem_free(MEM_CONFIG, tenants.sorted);
}
