#include "main/manage_ask.h"

#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/check.h"
#include "loop/tls.h"
#include "obs/metrics.h"
#include "obs/tls_metrics.h"

enum {
    MAILBOX_BYTES = 1 << 20,
    TIMEOUT_MS = 600 * 1000, /* an import of passwords takes its time */
    HANDSHAKE_TIMEOUT_MS = 10 * 1000,
    MAX_RESPONSE_BYTES = 64 << 20,
    URL_BYTES = 4096,
    USER_BYTES = 1024,
};

static struct http_client_metrics metrics;

static const struct http1_limits limits = {
    .max_line_bytes = 8192, .max_head_bytes = 32768, .max_headers = 100, .max_body_bytes = MAX_RESPONSE_BYTES};

static err set_authorization(struct manage_ask *a, const char *user, const char *token, struct errinfo *ei)
{
    char encoded[BASE64_ENCODED_BYTES(USER_BYTES) + 1];
    size_t n;
    int wrote = 0;

    if (user && strlen(user) > USER_BYTES)
        return errinfo_set(ei, E_LIMIT, "--user is too long");
    if (user && !strchr(user, ':'))
        return errinfo_set(ei, E_INVAL, "--user must be NAME:PASSWORD");
    if (user) {
        n = base64_encode(str_from(user), encoded);
        wrote = snprintf(a->authorization, sizeof a->authorization, "Basic %.*s", (int)n, encoded);
    } else if (token) {
        wrote = snprintf(a->authorization, sizeof a->authorization, "Bearer %s", token);
    }
    return wrote < (int)sizeof a->authorization ? E_OK : errinfo_set(ei, E_LIMIT, "--token is too long");
}

static err make_tls(const char *ca, struct tls **out_tls, struct errinfo *ei)
{
    const struct tls_options options = {
        .ca_files = &ca,
        .n_cas = ca ? 1 : 0,
        .handshake_timeout_ms = HANDSHAKE_TIMEOUT_MS,
        .stats = tls_metrics_client(),
    };

    return tls_new_client(&options, out_tls, ei);
}

err manage_ask_open(struct manage_ask *a, const struct manage_ask_options *options, struct errinfo *ei)
{
    struct tls *tls = NULL;
    struct http_url url;
    err e;

    *a = (struct manage_ask){.api = str_from(options->api)};
    e = http_url_parse(a->api, &url, NULL);
    if (e != E_OK || !str_equal(url.target, STR("/")))
        return errinfo_set(ei, E_INVAL, "%s: expected http://HOST:PORT or https://HOST:PORT", options->api);
    while (a->api.n && a->api.p[a->api.n - 1] == '/')
        a->api.n--;
    e = set_authorization(a, options->user, options->token, ei);
    if (e == E_OK && url.is_https)
        e = make_tls(options->ca, &tls, ei);
    if (e == E_OK)
        e = loop_init(&a->loop, MAILBOX_BYTES, ei);
    if (e != E_OK) {
        tls_unref(tls);
        return e;
    }
    a->is_https = url.is_https;
    metrics_attach_thread();
    http_client_metrics_register(&metrics, "manage");
    resolver_init(&a->resolver);
    a->options =
        (struct http_client_options){.max_connections = 1, .limits = &limits, .metrics = &metrics, .resolver = &a->resolver};
    http_client_init(&a->client, &a->loop, &a->options);
    http_client_use_tls(&a->client, tls);
    tls_unref(tls);
    a->is_open = true;
    return E_OK;
}

void manage_ask_close(struct manage_ask *a)
{
    if (!a->is_open)
        return;
    http_client_close(&a->client);
    loop_turn(&a->loop, 0);
    loop_turn(&a->loop, 0);
    resolver_fini(&a->resolver);
    http_client_fini(&a->client);
    loop_fini(&a->loop);
    buf_free(&a->body, MEM_HTTP);
    explicit_bzero(a->authorization, sizeof a->authorization);
    a->is_open = false;
}

static void keep_header(const struct http1_response_head *head, struct str name, char *to, size_t size)
{
    struct str value = http1_response_header(head, name);

    to[0] = '\0';
    if (value.p && value.n < size)
        (void)snprintf(to, size, "%.*s", STR_ARG(value)); /* fits */
}

static void on_done(struct http_call *call)
{
    struct manage_ask *a = CONTAINER_OF(call, struct manage_ask, call);

    a->is_done = true;
    if (call->result != E_OK)
        return;
    a->status = call->response->status;
    keep_header(call->response, STR("ETag"), a->tag, sizeof a->tag);
    keep_header(call->response, STR("Millrace-Next"), a->next, sizeof a->next);
    if (buf_append(&a->body, MEM_HTTP, call->body) != E_OK)
        call->result = E_NOMEM;
}

static const char *reason_of(err e, bool is_https)
{
    switch (e) {
    case E_NOTFOUND:
        return "there is no such host";
    case E_IO:
        return is_https ? "nobody listens there, or not with a certificate for that name from a CA that is trusted (--ca)"
                        : "nobody listens there";
    case E_TIMEOUT:
        return "there was no answer in time";
    case E_CLOSED:
        return "the connection was closed";
    case E_LIMIT:
        return "the answer is too large";
    default:
        return "the answer is not understood";
    }
}

err manage_ask_send(struct manage_ask *a, const struct manage_ask_request *request, struct errinfo *ei)
{
    char text[URL_BYTES];
    struct http_header headers[2];
    struct http_url url;
    struct http_client_request r = {.url = &url,
                                    .method = request->method,
                                    .headers = headers,
                                    .body = request->body,
                                    .timeout_ms = TIMEOUT_MS,
                                    .max_response_bytes = MAX_RESPONSE_BYTES};
    err e;

    if (snprintf(text, sizeof text, "%.*s%s", STR_ARG(a->api), request->path) >= (int)sizeof text)
        return errinfo_set(ei, E_LIMIT, "the arguments are too long");
    e = http_url_parse(str_from(text), &url, ei);
    if (e != E_OK)
        return e;
    if (a->authorization[0])
        headers[r.n_headers++] = (struct http_header){STR("Authorization"), str_from(a->authorization)};
    if (request->if_match)
        headers[r.n_headers++] = (struct http_header){STR("If-Match"), str_from(request->if_match)};
    if (request->body.n)
        r.content_type = request->content_type ? str_from(request->content_type) : STR("application/json");
    a->call = (struct http_call){.on_done = on_done};
    a->is_done = false;
    buf_free(&a->body, MEM_HTTP);
    e = http_client_send(&a->client, &a->call, &r);
    if (e != E_OK)
        return errinfo_set(ei, e, "the request cannot be sent: is a line break in an argument?");
    while (!a->is_done)
        loop_turn(&a->loop, -1);
    if (a->call.result != E_OK)
        return errinfo_set(ei, a->call.result, "%.*s: %s", STR_ARG(a->api), reason_of(a->call.result, a->is_https));
    return E_OK;
}
