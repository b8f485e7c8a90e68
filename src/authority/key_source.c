#include "authority/key_source.h"

#include <string.h>

#include "authority/authority_client.h"
#include "authority/authority_metrics.h"
#include "authority/issued_token.h"
#include "authority/key_set.h"
#include "base/check.h"
#include "base/mem.h"
#include "registry/registry.h"
#include "registry/registry_wait.h"

enum { OK = 200, CONNECTIONS = 1, MAX_WAITING = 4, MS_PER_S = 1000 };

/* One request for the keys. */
struct key_fetch {
    struct http_call call;
    struct key_source *source;
    char url[];
};

/* ---- fetching ---- */

static err read_response(const struct http_call *call, struct key_set **out_set)
{
    if (call->result != E_OK)
        return call->result;
    return call->response->status == OK ? key_set_read(call->body, out_set) : E_INVAL;
}

/* Takes what came, NULL if nothing did, and tells those who wait. */
static void finish(struct key_source *ks, const char *url, struct key_set *set)
{
    struct key_set *other = set; /* that is not used */
    struct list *link;

    authority_metrics_count(set ? AUTHORITY_COUNT_KEYS_FETCHED : AUTHORITY_COUNT_KEYS_FAILED);
    pthread_mutex_lock(&ks->lock);
    ks->is_fetching = false;
    ks->has_failed = !set;
    if (set && strcmp(ks->url, url) == 0) {
        other = ks->set;
        ks->set = set;
        ks->fetched_ms = loop_clock_ms();
    }
    while ((link = list_pop(&ks->waits))) {
        struct registry_wait *wait = CONTAINER_OF(link, struct registry_wait, link);

        mailbox_post(wait->home, &wait->mail);
    }
    pthread_mutex_unlock(&ks->lock);
    key_set_unref(other);
}

static void on_done(struct http_call *call)
{
    struct key_fetch *fetch = CONTAINER_OF(call, struct key_fetch, call);
    struct key_set *set = NULL;

    if (read_response(call, &set) != E_OK)
        set = NULL;
    finish(fetch->source, fetch->url, set);
    mem_free(MEM_HTTP, fetch);
}

/* The caller has set `is_fetching`. On the thread of `home`. */
static void fetch_keys(struct key_source *ks, const struct config_jwks *config, struct mailbox *home)
{
    static const struct authority_client_bounds bounds = {CONNECTIONS, MAX_WAITING};
    struct key_fetch *fetch = mem_alloc_zero(MEM_HTTP, sizeof *fetch + config->url.n + 1);
    struct http_url url;
    struct http_client_request request = {
        .url = &url,
        .method = HTTP_METHOD_GET,
        .timeout_ms = (uint32_t)config->timeout_ms,
        .max_response_bytes = KEY_SET_BYTES_MAX,
    };
    err e;

    fetch->source = ks;
    fetch->call.on_done = on_done;
    memcpy(fetch->url, config->url.p, config->url.n);
    e = http_url_parse(str_from(fetch->url), &url, NULL); /* the configuration's checks have seen to it */
    if (e == E_OK)
        e = authority_client_send(ks->clients, home, AUTHORITY_KEYS, &bounds, &fetch->call, &request);
    if (e == E_OK)
        return;
    finish(ks, fetch->url, NULL);
    mem_free(MEM_HTTP, fetch);
}

/* Whether the keys are somewhere else by now. With the lock, as the next. */
static bool is_other(const struct key_source *ks, const struct config_jwks *config)
{
    return !ks->url || !str_equal(str_from(ks->url), config->url);
}

/* Whether there are keys, which are not too old. */
static bool is_usable(const struct key_source *ks, const struct config_jwks *config)
{
    return ks->set && !is_other(ks, config) && loop_clock_ms() - ks->fetched_ms < config->max_age_ms;
}

/* Whether it may be tried, by what was tried before. With the lock. */
static bool may_fetch(const struct key_source *ks, const struct config_jwks *config)
{
    return !ks->is_fetching && (is_other(ks, config) || loop_clock_ms() - ks->tried_ms >= config->retry_ms);
}

/* Keys from elsewhere do not count any more. With the lock. */
static void begin(struct key_source *ks, const struct config_jwks *config)
{
    if (is_other(ks, config)) {
        key_set_unref(ks->set);
        ks->set = NULL;
        mem_free(MEM_REGISTRY, ks->url);
        ks->url = mem_copy_text(MEM_REGISTRY, config->url.p, config->url.n);
        ks->has_failed = false;
    }
    ks->is_fetching = true;
    ks->tried_ms = loop_clock_ms();
}

/* ---- in intervals ---- */

/* How long until the next one is due; 0: now. With the lock. */
static uint64_t rest_ms(const struct key_source *ks, const struct config_jwks *config)
{
    uint64_t since_ms = loop_clock_ms() - (ks->has_failed ? ks->tried_ms : ks->fetched_ms);
    uint64_t interval_ms = ks->has_failed ? config->retry_ms : config->refresh_ms;

    if (ks->is_fetching)
        return config->retry_ms;
    if (is_other(ks, config) || (!ks->has_failed && !is_usable(ks, config)))
        return 0;
    return since_ms < interval_ms ? interval_ms - since_ms : 0;
}

static void look(struct key_source *ks)
{
    struct config *config;
    const struct config_jwks *jwks;
    uint64_t rest;

    pthread_mutex_lock(&ks->lock);
    config = config_ref(ks->config);
    jwks = &config->authentication.jwks;
    rest = rest_ms(ks, jwks);
    if (jwks->url.n && rest == 0)
        begin(ks, jwks);
    pthread_mutex_unlock(&ks->lock);
    if (jwks->url.n) {
        wheel_start(&ks->worker->loop.wheel, &ks->timer, rest ? rest : jwks->retry_ms);
        if (rest == 0)
            fetch_keys(ks, jwks, &ks->worker->loop.mailbox);
    }
    config_unref(config);
}

static void on_timer(struct timer *t)
{
    look(CONTAINER_OF(t, struct key_source, timer));
}

static void on_follow(struct mail *m)
{
    struct key_source *ks = CONTAINER_OF(m, struct key_source, follow);

    pthread_mutex_lock(&ks->lock);
    ks->is_posted = false;
    pthread_mutex_unlock(&ks->lock);
    wheel_stop(&ks->timer);
    look(ks);
}

/* ---- life ---- */

void key_source_init(struct key_source *ks, struct authority_clients *clients, struct worker *worker)
{
    *ks = (struct key_source){
        .clients = clients, .worker = worker, .timer = {.on_timer = on_timer}, .follow = {.on_mail = on_follow}};
    pthread_mutex_init(&ks->lock, NULL);
    list_init(&ks->waits);
}

void key_source_use(struct key_source *ks, struct config *config)
{
    struct config *before;
    bool is_posted;

    pthread_mutex_lock(&ks->lock);
    before = ks->config;
    ks->config = config_ref(config);
    is_posted = ks->is_posted;
    ks->is_posted = true;
    pthread_mutex_unlock(&ks->lock);
    config_unref(before);
    if (!is_posted)
        mailbox_post(&ks->worker->loop.mailbox, &ks->follow);
}

void key_source_close(struct key_source *ks)
{
    wheel_stop(&ks->timer);
}

void key_source_fini(struct key_source *ks)
{
    wheel_stop(&ks->timer);
    key_set_unref(ks->set);
    mem_free(MEM_REGISTRY, ks->url);
    config_unref(ks->config);
    pthread_mutex_destroy(&ks->lock);
}

/* ---- judging ---- */

/* The keys for a token, as a reference in `*out_set` with ALLOWED; else what to say. */
static enum authority_verdict find_keys(struct key_source *ks, const struct config_jwks *config,
                                        const struct issued_token *token, struct registry_wait *wait, struct key_set **out_set)
{
    struct str kid = {token->kid, token->kid_n};
    enum authority_verdict verdict = AUTHORITY_UNAVAILABLE;
    bool is_due = false, has_set;

    pthread_mutex_lock(&ks->lock);
    has_set = is_usable(ks, config);
    if (has_set && key_set_has(ks->set, kid)) {
        *out_set = key_set_ref(ks->set);
        verdict = AUTHORITY_ALLOWED;
    } else if (wait && (ks->is_fetching || may_fetch(ks, config))) {
        is_due = !ks->is_fetching;
        if (is_due)
            begin(ks, config);
        list_push(&ks->waits, &wait->link);
        verdict = AUTHORITY_PENDING;
    } else if (has_set && !ks->has_failed) {
        verdict = AUTHORITY_DENIED; /* there is no such key */
    }
    pthread_mutex_unlock(&ks->lock);
    if (is_due)
        fetch_keys(ks, config, wait->home);
    return verdict;
}

static enum authority_verdict verify(struct key_set *set, const struct issued_token *token)
{
    bool is_signed = key_set_verify(set, (struct str){token->kid, token->kid_n}, &token->signature);

    key_set_unref(set);
    return is_signed ? AUTHORITY_ALLOWED : AUTHORITY_DENIED;
}

static enum authority_verdict judge(struct key_source *ks, const struct config_jwks *config, const struct registry_login *login,
                                    struct issued_token *token)
{
    int64_t now_s = (int64_t)(loop_wall_ms() / MS_PER_S);
    enum issued_token_result read = issued_token_read(login->token, config, token);
    enum authority_verdict verdict;
    struct key_set *set;

    if (read == ISSUED_TOKEN_FOREIGN)
        return AUTHORITY_NONE;
    if (read == ISSUED_TOKEN_BAD || !issued_token_holds(token, now_s))
        return AUTHORITY_DENIED;
    verdict = find_keys(ks, config, token, login->wait, &set);
    if (verdict == AUTHORITY_ALLOWED)
        verdict = verify(set, token);
    /* Within the time that clocks may differ by, a token is taken that is over by ours; its device then has that long. */
    if (token->who.expires_at_s <= now_s)
        token->who.expires_at_s += ISSUED_TOKEN_SKEW_S;
    return verdict;
}

enum authority_verdict key_source_judge(struct key_source *ks, const struct config *config, const struct registry_login *login,
                                        struct authority_answer *out)
{
    static const enum authority_count counts[] = {
        [AUTHORITY_ALLOWED] = AUTHORITY_COUNT_TOKEN_ALLOWED,
        [AUTHORITY_DENIED] = AUTHORITY_COUNT_TOKEN_DENIED,
        [AUTHORITY_UNAVAILABLE] = AUTHORITY_COUNT_TOKEN_UNAVAILABLE,
    };
    struct issued_token token;
    enum authority_verdict verdict = judge(ks, &config->authentication.jwks, login, &token);

    bool is_again = login->wait && login->wait->has_caught_up; /* the registry did not know the device at first */

    if (verdict != AUTHORITY_NONE && verdict != AUTHORITY_PENDING && !is_again)
        authority_metrics_count(counts[verdict]);
    if (verdict == AUTHORITY_ALLOWED)
        *out = token.who;
    return verdict;
}
