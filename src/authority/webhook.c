#include "authority/webhook.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>

#include "authority/authority_client.h"
#include "authority/authority_metrics.h"
#include "authority/webhook_answer.h"
#include "base/base64.h"
#include "base/check.h"
#include "base/jsonw.h"
#include "base/utf8.h"
#include "loop/tls_peer.h"
#include "registry/registry.h"
#include "registry/registry_wait.h"

enum { OK = 200, MS_PER_S = 1000, AUTHORIZATION_BYTES = 1100, ENVELOPE_BYTES = 512 };

/* One that is under way. */
struct question {
    struct http_call call;
    struct webhook *webhook;
    struct outcome_entry *outcome;
    struct buf body; /* has secrets */
    uint64_t cache_ms, cache_denied_ms;
};

void webhook_init(struct webhook *w, struct authority_clients *clients)
{
    w->clients = clients;
    outcome_cache_init(&w->cache);
}

void webhook_fini(struct webhook *w)
{
    outcome_cache_fini(&w->cache);
}

/* ---- the question ---- */

/* The peer's address, without the port, which is another one each time. */
static struct str address_of(int fd, char text[INET6_ADDRSTRLEN])
{
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;
    const void *address;

    if (fd <= 0 || getpeername(fd, (struct sockaddr *)&peer, &size) != 0)
        return (struct str){0};
    if (peer.ss_family == AF_INET)
        address = &((const struct sockaddr_in *)&peer)->sin_addr;
    else if (peer.ss_family == AF_INET6)
        address = &((const struct sockaddr_in6 *)&peer)->sin6_addr;
    else
        return (struct str){0};
    return inet_ntop(peer.ss_family, address, text, INET6_ADDRSTRLEN) ? str_from(text) : (struct str){0};
}

/* What a server is told, in the order of the members; a password or a token is not always there. */
enum part {
    PROTOCOL,
    LISTENER,
    ADDRESS,
    SERVER_NAME,
    CLIENT_ID,
    TENANT,
    AUTH_ID,
    USER_NAME,
    PASSWORD,
    PASSWORD_BASE64,
    TOKEN,
    PARTS,
};

static const char *const members[PARTS] = {
    [PROTOCOL] = "protocol",   [LISTENER] = "listener",
    [ADDRESS] = "address",     [SERVER_NAME] = "server_name",
    [CLIENT_ID] = "client_id", [TENANT] = "tenant",
    [AUTH_ID] = "auth_id",     [USER_NAME] = "user_name",
    [PASSWORD] = "password",   [PASSWORD_BASE64] = "password_base64", /* of one that is no text */
    [TOKEN] = "token",
};

static void collect(const struct registry_login *login, char address[INET6_ADDRSTRLEN], struct str parts[PARTS])
{
    bool has_tenant;
    struct str tenant = login->user_name, auth_id = str_take(&tenant, '@', &has_tenant);

    parts[PROTOCOL] = login->adapter == CONFIG_ADAPTER_MQTT ? STR("mqtt") : STR("http");
    parts[LISTENER] = login->listener;
    parts[ADDRESS] = address_of(login->peer_fd, address);
    parts[SERVER_NAME] = login->peer ? login->peer->server_name : (struct str){0};
    parts[CLIENT_ID] = login->client_id;
    parts[TENANT] = login->has_user_name && has_tenant ? tenant : login->tenant;
    if (login->has_user_name) {
        parts[AUTH_ID] = auth_id;
        parts[USER_NAME] = login->user_name;
    }
    if (login->has_password)
        parts[utf8_is_valid(login->password) ? PASSWORD : PASSWORD_BASE64] = login->password;
    else
        parts[TOKEN] = login->token;
}

static err write_base64(struct buf *to, struct str bytes)
{
    char *at = buf_reserve(to, MEM_HTTP, BASE64_ENCODED_BYTES(bytes.n) + 2);

    if (!at)
        return E_NOMEM;
    at[0] = '"';
    at[1 + base64_encode(bytes, at + 1)] = '"';
    buf_commit(to, BASE64_ENCODED_BYTES(bytes.n) + 2);
    return E_OK;
}

/* An upper bound, so that the buffer never moves and leaves a copy of a secret behind: an escape has at most six characters. */
static size_t room_for(const struct str parts[PARTS])
{
    size_t n = ENVELOPE_BYTES;

    for (int i = 0; i < PARTS; i++)
        n += 6 * parts[i].n;
    return n;
}

static err write_body(struct buf *to, const struct str parts[PARTS])
{
    err e = buf_reserve(to, MEM_HTTP, room_for(parts)) ? E_OK : E_NOMEM;

    for (int i = 0; i < PARTS && e == E_OK; i++) {
        if (!parts[i].p)
            continue;
        e = buf_printf(to, MEM_HTTP, "%c\"%s\":", i == 0 ? '{' : ',', members[i]);
        if (e == E_OK)
            e = i == PASSWORD_BASE64 ? write_base64(to, parts[i]) : jsonw_string(to, MEM_HTTP, parts[i]);
    }
    return e == E_OK ? buf_append(to, MEM_HTTP, STR("}")) : e;
}

/* ---- the answer ---- */

static void question_free(struct question *q)
{
    if (q->body.p)
        explicit_bzero(q->body.p, q->body.cap);
    buf_free(&q->body, MEM_HTTP);
    mem_free(MEM_HTTP, q);
}

/* Why there is no answer. */
static enum authority_count failure_of(err result)
{
    static const struct {
        err result;
        enum authority_count count;
    } rows[] = {
        {E_TIMEOUT, AUTHORITY_COUNT_TIMEOUT},
        {E_PROTO, AUTHORITY_COUNT_MALFORMED},
        {E_LIMIT, AUTHORITY_COUNT_MALFORMED}, /* it is too large */
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].result == result)
            return rows[i].count;
    return AUTHORITY_COUNT_UNREACHABLE;
}

/* What a response comes to. */
static enum authority_count judge(const struct http_call *call, struct webhook_answer *answer)
{
    static const enum authority_count counts[] = {
        [AUTHORITY_NONE] = AUTHORITY_COUNT_IGNORED,
        [AUTHORITY_ALLOWED] = AUTHORITY_COUNT_ALLOWED,
        [AUTHORITY_DENIED] = AUTHORITY_COUNT_DENIED,
    };

    if (call->result != E_OK)
        return failure_of(call->result);
    if (call->response->status != OK)
        return AUTHORITY_COUNT_STATUS;
    return webhook_answer_read(call->body, answer) == E_OK ? counts[answer->verdict] : AUTHORITY_COUNT_MALFORMED;
}

static uint64_t remembered_ms(const struct question *q, const struct webhook_answer *answer)
{
    uint64_t ms = answer->verdict == AUTHORITY_ALLOWED ? q->cache_ms : q->cache_denied_ms;
    uint64_t ttl_ms = (uint64_t)answer->ttl_s * MS_PER_S;

    return ttl_ms && ttl_ms < ms ? ttl_ms : ms;
}

static void finish(struct question *q, enum authority_count count, struct webhook_answer *answer)
{
    bool is_told = count <= AUTHORITY_COUNT_IGNORED;

    authority_metrics_count(count);
    if (answer->ttl_s)
        answer->who.expires_at_s = (int64_t)(loop_wall_ms() / MS_PER_S) + answer->ttl_s;
    outcome_cache_finish(&q->webhook->cache, q->outcome, is_told ? answer->verdict : AUTHORITY_UNAVAILABLE, &answer->who,
                         is_told ? remembered_ms(q, answer) : 0);
    question_free(q);
}

static void on_done(struct http_call *call)
{
    struct question *q = CONTAINER_OF(call, struct question, call);
    struct webhook_answer answer = {0};
    enum authority_count count = judge(call, &answer);

    finish(q, count, &answer);
}

/* ---- asking ---- */

static err send_question(struct question *q, const struct config_webhook *config, struct mailbox *home,
                         const struct str parts[PARTS])
{
    char authorization[AUTHORIZATION_BYTES];
    struct http_header header = {STR("Authorization"), {authorization, 0}};
    struct authority_client_bounds bounds = {config->connections, config->max_waiting};
    struct http_url url;
    struct http_client_request request = {
        .url = &url,
        .method = HTTP_METHOD_POST,
        .content_type = STR("application/json"),
        .headers = &header,
        .n_headers = config->token.n > 0,
        .timeout_ms = (uint32_t)config->timeout_ms,
        .max_response_bytes = WEBHOOK_ANSWER_BYTES_MAX,
    };
    err e = http_url_parse(config->url, &url, NULL); /* the configuration's checks have seen to it */

    if (e == E_OK)
        e = write_body(&q->body, parts);
    if (e != E_OK)
        return e;
    header.value.n = (size_t)snprintf(authorization, sizeof authorization, "Bearer %.*s", STR_ARG(config->token));
    request.body = buf_str(&q->body);
    q->call.on_done = on_done;
    e = authority_client_send(q->webhook->clients, home, AUTHORITY_WEBHOOK, &bounds, &q->call, &request);
    explicit_bzero(authorization, sizeof authorization);
    return e;
}

static void begin(struct webhook *w, const struct config_webhook *config, struct mailbox *home, struct outcome_entry *outcome,
                  const struct str parts[PARTS])
{
    struct question *q = mem_alloc_zero(MEM_HTTP, sizeof *q);
    struct webhook_answer none = {0};
    err e;

    q->webhook = w;
    q->outcome = outcome;
    q->cache_ms = config->cache_ms;
    q->cache_denied_ms = config->cache_denied_ms;
    e = send_question(q, config, home, parts);
    if (e != E_OK)
        finish(q, e == E_LIMIT ? AUTHORITY_COUNT_OVERLOADED : AUTHORITY_COUNT_UNREACHABLE, &none);
}

/* Of all that it is asked, and where. */
static void make_token(const struct webhook *w, const struct config_webhook *config, const struct str parts[PARTS],
                       unsigned char token[KEYED_DIGEST_BYTES])
{
    struct str all[PARTS + 1];

    memcpy(all, parts, PARTS * sizeof *parts);
    all[PARTS] = config->url;
    keyed_digest_make(&w->cache.digest, all, ARRAY_LEN(all), token);
}

enum authority_verdict webhook_ask(struct webhook *w, const struct config *config, const struct registry_login *login,
                                   struct authority_answer *out)
{
    const struct config_webhook *hook = &config->authentication.webhook;
    const struct outcome_limits limits = {hook->max_cached, hook->max_waiting};
    enum authority_verdict verdict = AUTHORITY_UNAVAILABLE;
    unsigned char token[KEYED_DIGEST_BYTES];
    char address[INET6_ADDRSTRLEN];
    struct str parts[PARTS] = {0};
    struct outcome_entry *outcome;
    bool has_waited = login->wait && login->wait->has_asked;

    collect(login, address, parts);
    make_token(w, hook, parts, token);
    switch (outcome_cache_ask(&w->cache, &limits, token, login->wait, &verdict, out, &outcome)) {
    case OUTCOME_KNOWN:
        if (!has_waited)
            authority_metrics_count(AUTHORITY_COUNT_REMEMBERED);
        return verdict;
    case OUTCOME_FULL:
        authority_metrics_count(AUTHORITY_COUNT_OVERLOADED);
        return AUTHORITY_UNAVAILABLE;
    case OUTCOME_JOINED:
        authority_metrics_count(AUTHORITY_COUNT_JOINED);
        return AUTHORITY_PENDING;
    case OUTCOME_BEGUN:
        begin(w, hook, login->wait->home, outcome, parts);
        break;
    }
    return AUTHORITY_PENDING;
}
