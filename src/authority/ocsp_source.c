#include "authority/ocsp_source.h"

#include <openssl/x509.h>

#include "authority/authority_client.h"
#include "authority/authority_metrics.h"
#include "authority/ocsp_exchange.h"
#include "base/check.h"
#include "config/config.h"
#include "registry/registry_wait.h"

enum {
    OK = 200,
    MS_PER_S = 1000,
    CONNECTIONS = 32, /* to one responder, of all workers */
    MAX_WAITING = 1000,
    MAX_KNOWN = 100000,
    FAILED_MS = 3 * 1000,  /* how long a responder that does not answer is let alone, */
    IGNORED_MS = 60 * 1000 /* when that does not matter, so that nobody waits for it each time */
};

/* One that is under way. */
struct question {
    struct http_call call;
    struct ocsp_source *source;
    struct outcome_entry *outcome;
    struct ocsp_exchange exchange;
    struct buf body;
    uint64_t cache_ms, failed_ms;
};

void ocsp_source_init(struct ocsp_source *o, struct authority_clients *clients)
{
    o->clients = clients;
    outcome_cache_init(&o->cache);
}

void ocsp_source_fini(struct ocsp_source *o)
{
    outcome_cache_fini(&o->cache);
}

/* ---- the answer ---- */

static const struct {
    enum authority_verdict verdict;
    enum authority_count count;
} meanings[OCSP_STATUSES] = {
    [OCSP_GOOD] = {AUTHORITY_ALLOWED, AUTHORITY_COUNT_OCSP_GOOD},
    [OCSP_REVOKED] = {AUTHORITY_DENIED, AUTHORITY_COUNT_OCSP_REVOKED},
    [OCSP_UNKNOWN] = {AUTHORITY_DENIED, AUTHORITY_COUNT_OCSP_UNKNOWN},
    [OCSP_REFUSED] = {AUTHORITY_UNAVAILABLE, AUTHORITY_COUNT_OCSP_REFUSED},
    [OCSP_MALFORMED] = {AUTHORITY_UNAVAILABLE, AUTHORITY_COUNT_OCSP_MALFORMED},
    [OCSP_UNTRUSTED] = {AUTHORITY_UNAVAILABLE, AUTHORITY_COUNT_OCSP_UNTRUSTED},
    [OCSP_OLD] = {AUTHORITY_UNAVAILABLE, AUTHORITY_COUNT_OCSP_OLD},
    [OCSP_REPLAYED] = {AUTHORITY_UNAVAILABLE, AUTHORITY_COUNT_OCSP_UNTRUSTED},
};

static void finish(struct question *q, enum authority_verdict verdict, enum authority_count count, uint64_t remembered_ms)
{
    authority_metrics_count(count);
    outcome_cache_finish(&q->source->cache, q->outcome, verdict, NULL,
                         verdict == AUTHORITY_UNAVAILABLE ? q->failed_ms : remembered_ms);
    ocsp_exchange_fini(&q->exchange);
    buf_free(&q->body, MEM_HTTP);
    mem_free(MEM_HTTP, q);
}

static uint64_t remembered_ms(const struct question *q, int64_t now_s, int64_t until_s)
{
    uint64_t left_ms = until_s > now_s ? (uint64_t)(until_s - now_s) * MS_PER_S : 0;

    return left_ms < q->cache_ms ? left_ms : q->cache_ms;
}

static void on_done(struct http_call *call)
{
    struct question *q = CONTAINER_OF(call, struct question, call);
    int64_t now_s = (int64_t)(loop_wall_ms() / MS_PER_S), until_s = now_s;
    enum ocsp_status status = OCSP_REFUSED;

    if (call->result == E_OK && call->response->status == OK)
        status = ocsp_exchange_read(&q->exchange, call->body, now_s, &until_s);
    if (call->result == E_OK)
        finish(q, meanings[status].verdict, meanings[status].count, remembered_ms(q, now_s, until_s));
    else
        finish(q, AUTHORITY_UNAVAILABLE, AUTHORITY_COUNT_OCSP_UNREACHABLE, 0);
}

/* ---- the question ---- */

static err send_question(struct question *q, const struct authority_certificate *c, struct str uri, uint64_t timeout_ms,
                         struct mailbox *home)
{
    static const struct authority_client_bounds bounds = {CONNECTIONS, MAX_WAITING};
    struct http_url url;
    struct http_client_request request = {
        .url = &url,
        .method = HTTP_METHOD_POST,
        .content_type = STR("application/ocsp-request"),
        .timeout_ms = (uint32_t)timeout_ms,
        .max_response_bytes = OCSP_EXCHANGE_BYTES_MAX,
    };
    err e = ocsp_exchange_init(&q->exchange, c->certificate, c->issuer, c->responder_cert, c->has_nonce);

    if (e == E_OK)
        e = http_url_parse(uri, &url, NULL);
    if (e == E_OK)
        e = ocsp_exchange_write(&q->exchange, &q->body);
    if (e != E_OK)
        return e;
    request.body = buf_str(&q->body);
    q->call.on_done = on_done;
    return authority_client_send(q->source->clients, home, AUTHORITY_OCSP, &bounds, &q->call, &request);
}

static void begin(struct ocsp_source *o, const struct config_revocation *config, const struct authority_certificate *c,
                  struct str uri, struct mailbox *home, struct outcome_entry *outcome)
{
    struct question *q = mem_alloc_zero(MEM_HTTP, sizeof *q);

    q->source = o;
    q->outcome = outcome;
    q->cache_ms = config->ocsp_cache_ms;
    q->failed_ms = config->ocsp_failure == CONFIG_REVOCATION_ACCEPT ? IGNORED_MS : FAILED_MS;
    if (send_question(q, c, uri, config->ocsp_timeout_ms, home) != E_OK)
        finish(q, AUTHORITY_UNAVAILABLE, AUTHORITY_COUNT_OCSP_UNREACHABLE, 0);
}

/* Of the certificate and its issuer, whom is asked, and how. False: no memory. */
static bool make_token(const struct ocsp_source *o, const struct authority_certificate *c, struct str uri,
                       unsigned char token[KEYED_DIGEST_BYTES])
{
    unsigned char *certificate = NULL, *key = NULL;
    int certificate_n = i2d_X509(c->certificate, &certificate), key_n = i2d_PUBKEY(X509_get0_pubkey(c->issuer), &key);
    bool is_made = certificate_n > 0 && key_n > 0;

    if (is_made) {
        const struct str parts[] = {
            {(const char *)certificate, (size_t)certificate_n},
            {(const char *)key, (size_t)key_n},
            uri,
            c->responder_cert,
            c->has_nonce ? STR("nonce") : STR(""),
        };

        keyed_digest_make(&o->cache.digest, parts, ARRAY_LEN(parts), token);
    }
    OPENSSL_free(certificate);
    OPENSSL_free(key);
    return is_made;
}

static enum authority_verdict check(struct ocsp_source *o, const struct config_revocation *config,
                                    const struct authority_certificate *c, struct registry_wait *wait)
{
    static const struct outcome_limits limits = {MAX_KNOWN, MAX_WAITING};
    enum authority_verdict verdict = AUTHORITY_UNAVAILABLE;
    unsigned char token[KEYED_DIGEST_BYTES];
    char found[OCSP_EXCHANGE_URI_BYTES];
    struct authority_answer none;
    struct str uri = c->responder_uri;
    struct outcome_entry *outcome;

    if (uri.n == 0)
        uri = (struct str){found, ocsp_exchange_find_uri(c->certificate, found)};
    if (uri.n == 0) {
        authority_metrics_count(AUTHORITY_COUNT_OCSP_NOWHERE);
        return AUTHORITY_UNAVAILABLE;
    }
    if (!make_token(o, c, uri, token))
        return AUTHORITY_UNAVAILABLE;
    switch (outcome_cache_ask(&o->cache, &limits, token, wait, &verdict, &none, &outcome)) {
    case OUTCOME_KNOWN:
        return verdict;
    case OUTCOME_FULL:
        authority_metrics_count(AUTHORITY_COUNT_OCSP_OVERLOADED);
        return AUTHORITY_UNAVAILABLE;
    case OUTCOME_BEGUN:
        begin(o, config, c, uri, wait->home, outcome);
        break;
    case OUTCOME_JOINED:
        break;
    }
    return AUTHORITY_PENDING;
}

enum authority_verdict ocsp_source_check(struct ocsp_source *o, const struct config *config,
                                         const struct authority_certificate *c, struct registry_wait *wait)
{
    const struct config_revocation *revocation = &config->authentication.revocation;
    enum authority_verdict verdict = check(o, revocation, c, wait);

    if (verdict == AUTHORITY_UNAVAILABLE && revocation->ocsp_failure == CONFIG_REVOCATION_ACCEPT) {
        authority_metrics_count(AUTHORITY_COUNT_OCSP_ACCEPTED);
        return AUTHORITY_ALLOWED;
    }
    return verdict;
}
