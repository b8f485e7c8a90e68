#include "main/tls_options.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "command/command_link.h"
#include "config/report.h"
#include "config/secret.h"
#include "loop/tls.h"
#include "loop/tls_tickets.h"
#include "obs/tls_metrics.h"
#include "registry/registry.h"

static const char *const mqtt_protocols[] = {"mqtt", "x-amzn-mqtt-ca",
                                             NULL}; /* the second is what devices made for AWS ask for */
static const char *const http_protocols[] = {"h2", "http/1.1", NULL};

/* What the parts have in common while they are made. */
struct maker {
    const struct config *config;
    struct registry *registry;
    const char *file;
    struct arena arena; /* of paths */
    struct config_errors *errors;
    struct generation_tls made;
    bool is_bad;
};

#define FAIL(m, line, ...) ((m)->is_bad = true, report_error((m)->errors, (m)->file, (line), __VA_ARGS__))

/* --- paths --- */

const char *tls_options_path(struct arena *a, const char *file, struct str path)
{
    const char *slash = file ? strrchr(file, '/') : NULL;
    int folder = slash && path.n && path.p[0] != '/' ? (int)(slash - file) + 1 : 0;
    char text[PATH_MAX];
    int n = snprintf(text, sizeof text, "%.*s%.*s", folder, file ? file : "", STR_ARG(path));

    return arena_copy(a, MEM_CONFIG, (struct str){text, n < PATH_MAX ? (size_t)n : PATH_MAX - 1}).p;
}

static const char **paths_of(struct arena *a, const char *file, const struct config_strings *strings)
{
    const char **paths = arena_alloc(a, MEM_CONFIG, (strings->count + 1) * sizeof *paths);

    for (size_t i = 0; i < strings->count; i++)
        paths[i] = tls_options_path(a, file, strings->items[i]);
    return paths;
}

/* Without any the keys are in the files of the certificates. */
static const char **key_paths_of(struct arena *a, const char *file, const struct config_strings *certs,
                                 const struct config_strings *keys)
{
    const char **paths = arena_alloc(a, MEM_CONFIG, (certs->count + 1) * sizeof *paths);

    for (size_t i = 0; i < keys->count && i < certs->count; i++)
        paths[i] = tls_options_path(a, file, keys->items[i]);
    return paths;
}

/* --- servers --- */

static err load_tickets(struct maker *m, struct str path, struct tls_tickets **out_tickets, struct errinfo *ei)
{
    const char *full = tls_options_path(&m->arena, m->file, path);
    struct str text;
    char name[PATH_MAX + 8];
    struct errinfo why = {0};
    err e;

    snprintf(name, sizeof name, "file:%s", full);
    e = secret_read(&m->arena, str_from(name), NULL, &text, &why);
    if (e == E_OK)
        e = tls_tickets_parse(text, out_tickets, &why);
    return e == E_OK ? e : errinfo_set(ei, e, "%s: %s", full, why.text);
}

static enum tls_client_auth client_auth_of(const struct config_tls *tls)
{
    static const enum tls_client_auth table[] = {
        [CONFIG_CLIENT_AUTH_NONE] = TLS_CLIENT_NONE,
        [CONFIG_CLIENT_AUTH_OPTIONAL] = TLS_CLIENT_OPTIONAL,
        [CONFIG_CLIENT_AUTH_REQUIRED] = TLS_CLIENT_REQUIRED,
    };

    if (tls->client_auth == CONFIG_CLIENT_AUTH_AUTO)
        return tls->client_ca.count ? TLS_CLIENT_OPTIONAL : TLS_CLIENT_NONE;
    return table[tls->client_auth];
}

/* Where a listener's pre-shared keys are looked up. */
struct key_place {
    struct registry *registry;
    size_t tenant_n;
    char tenant[]; /* the listener's */
};

static size_t find_key(void *context, struct str identity, unsigned char *to)
{
    const struct key_place *place = context;

    return registry_find_psk(place->registry, (struct str){place->tenant, place->tenant_n}, identity, to, TLS_PSK_MAX_BYTES);
}

static void release_key_place(void *context)
{
    struct key_place *place = context;

    registry_unref(place->registry);
    mem_free(MEM_REGISTRY, place);
}

static void use_keys(const struct maker *m, struct str tenant, struct tls_options *options)
{
    struct key_place *place = mem_alloc(MEM_REGISTRY, sizeof *place + tenant.n);

    place->registry = registry_ref(m->registry);
    place->tenant_n = tenant.n;
    memcpy(place->tenant, tenant.p, tenant.n);
    options->find_psk = find_key;
    options->psk_context = place;
    options->psk_release = release_key_place;
}

/* What an address is, besides its TLS. */
struct address {
    const char *const *protocols;
    struct str id, tenant;
    unsigned line;
};

static struct tls *make_server(struct maker *m, const struct config_tls *tls, const struct address *at)
{
    const struct config_limits *limits = &m->config->limits;
    struct tls_options options = {
        .cert_files = paths_of(&m->arena, m->file, &tls->cert),
        .key_files = key_paths_of(&m->arena, m->file, &tls->cert, &tls->key),
        .n_certs = tls->cert.count,
        .ca_files = paths_of(&m->arena, m->file, &tls->client_ca),
        .n_cas = tls->client_ca.count,
        .crl_files = paths_of(&m->arena, m->file, &tls->crl),
        .n_crls = tls->crl.count,
        .min_version = tls->min_version == CONFIG_TLS_1_3 ? TLS_1_3 : TLS_1_2,
        .client_auth = client_auth_of(tls),
        .alpn = at->protocols,
        .handshake_timeout_ms = (uint32_t)limits->tls_handshake_timeout_ms,
        .max_handshakes = (unsigned)limits->tls_handshakes,
        .stats = tls_metrics_server(),
    };
    struct tls_tickets *own = NULL;
    struct errinfo ei = {0};
    struct tls *made = NULL;
    err e = E_OK;

    if (tls->ticket_keys.n)
        e = load_tickets(m, tls->ticket_keys, &own, &ei);
    options.tickets = own ? own : m->made.tickets;
    if (e == E_OK && tls->has_psk && m->registry)
        use_keys(m, at->tenant, &options);
    if (e == E_OK)
        e = tls_new_server(&options, &made, &ei);
    if (e != E_OK)
        FAIL(m, at->line, "%.*s.tls: %s", STR_ARG(at->id), ei.text);
    tls_tickets_unref(own);
    return made;
}

static void make_listeners(struct maker *m)
{
    const struct config *config = m->config;

    m->made.n_listeners = config->listener_count;
    m->made.listeners = mem_alloc_zero(MEM_REGISTRY, (config->listener_count + 1) * sizeof *m->made.listeners);
    for (size_t i = 0; i < config->listener_count; i++) {
        const struct config_listener *listener = &config->listeners[i];
        const struct address at = {.protocols = listener->mqtts.host.n ? mqtt_protocols : http_protocols,
                                   .id = listener->id,
                                   .tenant = listener->tenant,
                                   .line = listener->line};

        if (config_listener_has_tls(listener))
            m->made.listeners[i] = make_server(m, &listener->tls, &at);
    }
}

/* --- the client --- */

static void make_client(struct maker *m)
{
    const struct config *config = m->config;
    struct tls_options options = {
        .cert_files = paths_of(&m->arena, m->file, &config->https_cert),
        .key_files = key_paths_of(&m->arena, m->file, &config->https_cert, &config->https_key),
        .n_certs = config->https_cert.count,
        .ca_files = paths_of(&m->arena, m->file, &config->https_ca),
        .n_cas = config->https_ca.count,
        .handshake_timeout_ms = (uint32_t)config->limits.tls_handshake_timeout_ms,
        .stats = tls_metrics_client(),
    };
    struct errinfo ei = {0};

    if (tls_new_client(&options, &m->made.client, &ei) != E_OK)
        FAIL(m, 0, "https_client: %s", ei.text);
}

/* --- between instances --- */

static struct tls *make_link(struct maker *m, bool is_server)
{
    static const char *const protocols[] = {COMMAND_LINK_ALPN, NULL};
    const struct config_tls *tls = &m->config->command.link_tls;
    struct tls_options options = {
        .cert_files = paths_of(&m->arena, m->file, &tls->cert),
        .key_files = key_paths_of(&m->arena, m->file, &tls->cert, &tls->key),
        .n_certs = is_server ? tls->cert.count : 1, /* a client shows the first */
        .ca_files = paths_of(&m->arena, m->file, &tls->client_ca),
        .n_cas = tls->client_ca.count,
        .crl_files = paths_of(&m->arena, m->file, &tls->crl),
        .n_crls = tls->crl.count,
        .min_version = tls->min_version == CONFIG_TLS_1_3 ? TLS_1_3 : TLS_1_2,
        .client_auth = TLS_CLIENT_REQUIRED,
        .alpn = is_server ? protocols : NULL,
        .handshake_timeout_ms = (uint32_t)m->config->limits.tls_handshake_timeout_ms,
        .max_handshakes = is_server ? (unsigned)m->config->limits.tls_handshakes : 0,
        .stats = is_server ? tls_metrics_server() : tls_metrics_client(),
    };
    struct errinfo ei = {0};
    struct tls *made = NULL;

    if ((is_server ? tls_new_server(&options, &made, &ei) : tls_new_client(&options, &made, &ei)) != E_OK)
        FAIL(m, 0, "command.link.tls: %s", ei.text);
    return made;
}

static void make_both_links(struct maker *m)
{
    if (!config_has_link(m->config))
        return;
    m->made.link_server = make_link(m, true);
    if (m->made.link_server)
        m->made.link_client = make_link(m, false);
}

/* A fan-out alone asks for it when it meets the first https target. */
static bool may_need_client(const struct config *config)
{
    return config->mapper_count || config->authentication.webhook.url.n || config->authentication.jwks.url.n ||
           config->https_ca.count || config->https_cert.count || (config->fanout.is_enabled && !config_is_fanout_alone(config));
}

err tls_options_make_client(const struct config *config, const char *file, struct tls **out_tls, struct config_errors *errors)
{
    struct maker m = {.config = config, .file = file, .errors = errors};

    make_client(&m);
    arena_free(&m.arena, MEM_CONFIG);
    if (m.is_bad)
        return E_INVAL;
    *out_tls = m.made.client;
    return E_OK;
}

err tls_options_make(const struct config *config, const char *file, struct tls_tickets *tickets, struct registry *registry,
                     struct generation_tls *out_tls, struct config_errors *errors)
{
    const struct address admin = {.protocols = http_protocols, .id = STR("admin")};
    struct maker m = {.config = config, .registry = registry, .file = file, .errors = errors};

    m.made.tickets = tickets ? tls_tickets_ref(tickets) : tls_tickets_new();
    make_listeners(&m);
    if (config->admin_listen.host.n && config->admin_tls.cert.count)
        m.made.admin = make_server(&m, &config->admin_tls, &admin);
    make_both_links(&m);
    if (may_need_client(config))
        make_client(&m);
    arena_wipe(&m.arena, MEM_CONFIG); /* ticket keys */
    if (m.is_bad) {
        generation_free_tls(&m.made);
        return E_INVAL;
    }
    *out_tls = m.made;
    return E_OK;
}

bool tls_options_is_same(const struct generation_tls *a, const struct generation_tls *b)
{
    bool is_same = a->n_listeners == b->n_listeners && tls_is_same(a->admin, b->admin) && tls_is_same(a->client, b->client) &&
                   tls_is_same(a->link_server, b->link_server) && tls_is_same(a->link_client, b->link_client);

    for (size_t i = 0; is_same && i < a->n_listeners; i++)
        is_same = tls_is_same(a->listeners[i], b->listeners[i]);
    return is_same;
}

/* --- files --- */

static void list(const struct config_strings *strings, const char *file, void (*each)(void *context, const char *path),
                 void *context)
{
    struct arena a = {0};

    for (size_t i = 0; i < strings->count; i++)
        each(context, tls_options_path(&a, file, strings->items[i]));
    arena_free(&a, MEM_CONFIG);
}

static void list_tls(const struct config_tls *tls, const char *file, void (*each)(void *context, const char *path),
                     void *context)
{
    struct str keys = tls->ticket_keys;
    struct config_strings tickets = {.items = &keys, .count = keys.n > 0};

    list(&tls->cert, file, each, context);
    list(&tls->key, file, each, context);
    list(&tls->client_ca, file, each, context);
    list(&tls->crl, file, each, context);
    list(&tickets, file, each, context);
}

void tls_options_list_files(const struct config *config, const char *file, void (*each)(void *context, const char *path),
                            void *context)
{
    for (size_t i = 0; i < config->listener_count; i++)
        if (config_listener_has_tls(&config->listeners[i]))
            list_tls(&config->listeners[i].tls, file, each, context);
    if (config->admin_tls.cert.count)
        list_tls(&config->admin_tls, file, each, context);
    if (config_has_link(config))
        list_tls(&config->command.link_tls, file, each, context);
    list(&config->https_ca, file, each, context);
    list(&config->https_cert, file, each, context);
    list(&config->https_key, file, each, context);
}

static void note_end(const struct tls *tls, int64_t *first)
{
    int64_t end = tls ? tls_not_after(tls) : 0;

    if (end && (*first == 0 || end < *first))
        *first = end;
}

int64_t tls_options_not_after(const struct generation_tls *set)
{
    int64_t first = 0;

    for (size_t i = 0; i < set->n_listeners; i++)
        note_end(set->listeners[i], &first);
    note_end(set->admin, &first);
    note_end(set->link_server, &first);
    return first;
}
