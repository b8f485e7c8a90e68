#include "registry/certificate_login.h"

#include "base/check.h"
#include "loop/loop.h"
#include "loop/tls_peer.h"
#include "obs/metrics.h"
#include "registry/authority.h"
#include "registry/credentials_document.h"
#include "registry/provision.h"
#include "registry/registry_key.h"
#include "registry/registry_private.h"
#include "registry/registry_state.h"
#include "registry/registry_view.h"
#include "registry/registry_wait.h"
#include "registry/revocation_list.h"
#include "registry/schema.h"
#include "registry/tenant_document.h"
#include "registry/trust.h"
#include "registry/trust_cache.h"
#include "registry/uuid.h"

enum { MS_PER_S = 1000 };

/* What was found about a certificate: enum trust_result, or that it was known. */
enum count { REMEMBERED = TRUST_FOREIGN_LIST + 1, COUNTS };

#define VERDICT(outcome)                                                                                                       \
    {                                                                                                                          \
        .name = "millrace_registry_certificates_total", .labels = "outcome=\"" outcome "\"", .kind = METRIC_COUNTER            \
    }

static struct metric counts[COUNTS] = {
    [TRUST_GOOD] = {.name = "millrace_registry_certificates_total",
                    .labels = "outcome=\"good\"",
                    .help = "Certificates of devices: good; unknown: no CA of the tenant has issued them; revoked; old_list, "
                            "foreign_list: the CA's list is over, or not signed by it; remembered: they were judged before",
                    .kind = METRIC_COUNTER},
    [TRUST_STRANGER] = VERDICT("unknown"),
    [TRUST_REVOKED] = VERDICT("revoked"),
    [TRUST_OLD_LIST] = VERDICT("old_list"),
    [TRUST_FOREIGN_LIST] = VERDICT("foreign_list"),
    [REMEMBERED] = VERDICT("remembered"),
};

void certificate_login_register_metrics(void)
{
    metrics_register(counts, COUNTS);
}

static void count(enum count which)
{
    metric_add(&counts[which], 1);
}

/* One log-in under way. */
struct attempt {
    struct registry *registry;
    const struct registry_login *login;
    struct trust_chain chain;
    char tenant_id[SCHEMA_MAX_ID_BYTES];
    struct str tenant; /* whose the certificate is; empty: nobody's */
    json_t *state;     /* the tenant's */
    const json_t *ca;
    char auth_id[DN_BYTES];
    size_t auth_id_n;
};

/* --- whose certificate it is --- */

static bool take_tenant(struct attempt *a, struct table_reader *reader, struct str id)
{
    const json_t *document;

    if (id.n == 0 || id.n > sizeof a->tenant_id)
        return false;
    memcpy(a->tenant_id, id.p, id.n);
    a->state = registry_state_tenant(reader, id);
    document = json_object_get(a->state, "document");
    for (size_t i = 0; i < a->chain.n; i++)
        if (tenant_document_find_ca(document, trust_issuer(&a->chain, i))) {
            a->tenant = (struct str){a->tenant_id, id.n};
            return true;
        }
    json_decref(a->state);
    a->state = NULL;
    return false;
}

/* The first label of the name that the client has for the server is a tenant's id, or alias. */
static bool take_named(struct attempt *a, struct table_reader *reader)
{
    bool more;
    struct str name = a->login->peer->server_name, label = str_take(&name, '.', &more);
    struct registry_key key;
    struct table_item item;

    if (label.n == 0 || label.n > SCHEMA_MAX_ID_BYTES)
        return false;
    if (take_tenant(a, reader, label))
        return true;
    key = registry_key_alias(label);
    return table_reader_get(reader, REGISTRY_PARTITION_KEY, registry_key_str(&key), &item) &&
           take_tenant(a, reader, item.value);
}

/* Who trusts this issuer, if it is one tenant; of several the listener's. */
static bool take_issued(struct attempt *a, struct table_reader *reader, struct str issuer)
{
    struct registry_key prefix = registry_key_subject(issuer, (struct str){0});
    struct table_item item, other;
    struct str first;

    if (!table_reader_next(reader, REGISTRY_PARTITION_KEY, registry_key_str(&prefix), (struct str){0}, &item))
        return false;
    first = str_from_offset(item.key, prefix.n);
    if (table_reader_next(reader, REGISTRY_PARTITION_KEY, registry_key_str(&prefix), item.key, &other))
        return take_tenant(a, reader, a->login->tenant);
    return take_tenant(a, reader, first);
}

static void find_tenant(struct attempt *a, struct table_reader *reader)
{
    if (a->login->is_tenant_fixed)
        (void)take_tenant(a, reader, a->login->tenant); /* or nobody's */
    else if (!take_named(a, reader))
        for (size_t i = 0; i < a->chain.n && !a->tenant.n; i++)
            (void)take_issued(a, reader, trust_issuer(&a->chain, i)); /* as above */
}

/* --- who it is --- */

static bool find_name(struct attempt *a)
{
    struct str subject = {a->chain.subject, a->chain.subject_n}, form = document_get_text(a->ca, "auth-id-template");

    if (form.n)
        return dn_expand(form, subject, a->auth_id, &a->auth_id_n) == E_OK && a->auth_id_n > 0;
    memcpy(a->auth_id, subject.p, subject.n);
    a->auth_id_n = subject.n;
    return true;
}

/* Whether these credentials are worth something now; the certificate itself is all that is secret about them. */
static bool is_valid(const json_t *credentials, int64_t now_ms)
{
    const json_t *secrets = json_object_get(credentials, "secrets");

    for (size_t i = 0; document_get_bool(credentials, "enabled", true) && i < json_array_size(secrets); i++)
        if (credentials_document_is_valid(json_array_get(secrets, i), now_ms))
            return true;
    return false;
}

/* The device with this name; empty: there is none whose credentials are good. */
static struct str find_device(struct attempt *a, int64_t now_ms)
{
    struct str auth_id = {a->auth_id, a->auth_id_n}, device;
    struct table_reader *reader;
    json_t *state;
    bool is_good;

    if (!registry_view_find_account(a->registry->view, a->tenant, STR("x509-cert"), auth_id, &device))
        return (struct str){0};
    reader = registry_view_reader(a->registry->view);
    state = reader ? registry_state_credentials(reader, a->tenant, device) : NULL;
    is_good = is_valid(credentials_document_find(json_object_get(state, "document"), STR("x509-cert"), auth_id), now_ms);
    json_decref(state);
    return is_good ? device : (struct str){0};
}

/* --- who is not there --- */

/* The id of a device that is to be made; empty: none can be made of the name. */
static struct str new_id(const struct attempt *a, char to[DN_BYTES])
{
    struct str form = document_get_text(a->ca, "auto-provisioning-device-id-template");
    struct document_fault fault;
    size_t n;

    if (!form.n)
        return uuid_make(to);
    if (dn_expand(form, (struct str){a->chain.subject, a->chain.subject_n}, to, &n) != E_OK ||
        schema_check_device_id((struct str){to, n}, &fault) != E_OK)
        return (struct str){0};
    return (struct str){to, n};
}

/* A device that its tenant trusts that far registers itself: REGISTRY_PENDING until that is done. */
static enum registry_result register_it(struct attempt *a)
{
    struct registry_wait *wait = a->login->wait;
    struct str auth_id = {a->auth_id, a->auth_id_n}, device, owner;
    bool is_gateway = document_get_bool(a->ca, "auto-provision-as-gateway", false);
    char id[DN_BYTES];

    if (!document_get_bool(a->ca, "auto-provisioning-enabled", false) ||
        registry_view_find_account(a->registry->view, a->tenant, STR("x509-cert"), auth_id, &owner))
        return REGISTRY_BAD_CREDENTIALS; /* or the credentials that are there hold no more */
    if (registry_view_catch_up(a->registry->view, wait))
        return REGISTRY_PENDING;
    if (wait && wait->is_unavailable)
        return REGISTRY_UNAVAILABLE;
    device = new_id(a, id);
    if (device.n &&
        registry_view_provision(a->registry->view, wait,
                                provision_new(a->tenant, device, (struct str){0}, provision_device_document(is_gateway),
                                              provision_certificate_credentials(auth_id))))
        return REGISTRY_PENDING;
    return REGISTRY_BAD_CREDENTIALS;
}

/* --- whether it holds --- */

/* All that the verdict depends on. */
static void make_token(const struct attempt *a, unsigned char token[KEYED_DIGEST_BYTES])
{
    const struct tls_peer *peer = a->login->peer;
    uint64_t numbers[] = {a->registry->number, revocation_list_number(a->registry->lists)};
    struct str parts[4 + TLS_PEER_CHAIN_MAX] = {
        {(const char *)numbers, sizeof numbers}, a->tenant, registry_state_version(a->state), peer->der};
    size_t n = 4;

    for (size_t i = 0; i < peer->n_chain; i++)
        parts[n++] = peer->chain[i];
    trust_cache_token(registry_view_trust(a->registry->view), parts, n, token);
}

static int place_of(const json_t *cas, const json_t *ca)
{
    for (size_t i = 0; i < json_array_size(cas); i++)
        if (json_array_get(cas, i) == ca)
            return (int)i;
    return -1;
}

/* Whether responders say that all on the path are good, if the CA wants them to be asked. What its document says of them is about what it has issued itself. */
static enum authority_verdict ask_responders(const struct attempt *a, const struct trust_path *path)
{
    struct authority *authority = a->registry->authority;
    enum authority_verdict verdict = AUTHORITY_ALLOWED;

    if (!document_get_bool(path->ca, "ocsp-revocation-enabled", false))
        return AUTHORITY_ALLOWED;
    if (!authority)
        return AUTHORITY_UNAVAILABLE;
    for (size_t i = 0; i + 1 < path->n && verdict == AUTHORITY_ALLOWED; i++) {
        struct authority_certificate c = {.certificate = path->items[i], .issuer = path->items[i + 1]};

        if (i + 2 == path->n) {
            c.responder_uri = document_get_text(path->ca, "ocsp-responder-uri");
            c.responder_cert = document_get_text(path->ca, "ocsp-responder-cert");
        }
        c.has_nonce = document_get_bool(path->ca, "ocsp-nonce-enabled", false);
        verdict = authority->check_certificate(authority, a->registry->config, &c, a->login->wait);
    }
    return verdict;
}

/* What is found about a path. REGISTRY_OK, REGISTRY_BAD_CREDENTIALS: it may be remembered. */
static enum registry_result judge_path(struct attempt *a, struct trust_path *path)
{
    enum authority_verdict verdict = path->ca ? ask_responders(a, path) : AUTHORITY_DENIED;

    if (verdict == AUTHORITY_PENDING)
        return REGISTRY_PENDING;
    if (path->ca && verdict == AUTHORITY_DENIED)
        path->result = TRUST_REVOKED;
    if (verdict == AUTHORITY_UNAVAILABLE)
        return REGISTRY_UNAVAILABLE;
    count((enum count)path->result);
    return verdict == AUTHORITY_ALLOWED ? REGISTRY_OK : REGISTRY_BAD_CREDENTIALS;
}

/* Finds the CA that answers for the certificate; REGISTRY_BAD_CREDENTIALS: there is none. */
static enum registry_result find_ca(struct attempt *a, int64_t now_s)
{
    const json_t *document = json_object_get(a->state, "document"), *cas = json_object_get(document, "trusted-ca");
    struct trust_rules rules = {
        .now_s = now_s,
        .lists = a->registry->lists,
        .takes_old_lists = a->registry->config->authentication.revocation.old_crl == CONFIG_REVOCATION_ACCEPT,
    };
    struct trust_cache *cache = registry_view_trust(a->registry->view);
    unsigned char token[KEYED_DIGEST_BYTES];
    enum registry_result result;
    struct trust_path path;
    int at;

    make_token(a, token);
    if (trust_cache_find(cache, token, now_s, &at)) {
        count(REMEMBERED);
        a->ca = at < 0 ? NULL : json_array_get(cas, (size_t)at);
        return a->ca ? REGISTRY_OK : REGISTRY_BAD_CREDENTIALS;
    }
    trust_find_ca(&a->chain, document, &rules, &path);
    result = judge_path(a, &path);
    if (result == REGISTRY_OK)
        a->ca = path.ca;
    if (result == REGISTRY_OK || result == REGISTRY_BAD_CREDENTIALS)
        trust_cache_keep(cache, token, now_s, a->ca ? path.until_s : INT64_MAX, place_of(cas, a->ca));
    trust_free_path(&path);
    return result;
}

static enum registry_result enter(struct attempt *a, struct principal *out_principal)
{
    int64_t now_ms = (int64_t)loop_wall_ms();
    struct registry_found found = registry_find_both(a->registry, a->tenant, (struct str){0});
    enum registry_result result;
    struct str device;

    if (!found.tenant || !found.tenant->is_enabled)
        return REGISTRY_BAD_CREDENTIALS;
    if (!registry_has_adapter(found.tenant, a->login->adapter))
        return REGISTRY_ADAPTER_DISABLED;
    result = find_ca(a, now_ms / MS_PER_S);
    if (result != REGISTRY_OK)
        return result;
    if (!find_name(a))
        return REGISTRY_BAD_CREDENTIALS;
    device = find_device(a, now_ms);
    if (!device.n)
        return register_it(a);
    found = registry_find_both(a->registry, a->tenant, device);
    return found.device ? registry_let_in(&found, out_principal) : REGISTRY_BAD_CREDENTIALS;
}

bool certificate_login_enter(struct registry *registry, const struct registry_login *login, struct principal *out_principal,
                             enum registry_result *out_result)
{
    struct attempt a = {.registry = registry, .login = login};
    struct table_reader *reader = registry->view ? registry_view_reader(registry->view) : NULL;
    bool is_ours;

    *out_result = registry->view && !reader ? REGISTRY_UNAVAILABLE : REGISTRY_BAD_CREDENTIALS;
    if (reader && trust_read(login->peer, &a.chain) == E_OK)
        find_tenant(&a, reader);
    is_ours = a.tenant.n || !login->peer->is_trusted;
    if (a.tenant.n)
        *out_result = enter(&a, out_principal);
    if (is_ours && *out_result == REGISTRY_BAD_CREDENTIALS && registry->view &&
        registry_view_catch_up(registry->view, login->wait))
        *out_result = REGISTRY_PENDING;
    json_decref(a.state);
    trust_free(&a.chain);
    return is_ours;
}
