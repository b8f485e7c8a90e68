/* For tests of whom the registry asks outside: two workers, whose loops are turned by hand, devices that log in, and a server that is asked. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "authority/authority_plane.h"
#include "base/check.h"
#include "http/http_server.h"
#include "obs/metrics.h"
#include "registry/device_token.h"
#include "registry/registry.h"
#include "registry/registry_wait.h"

enum { WORKERS = 2, MAILBOX_BYTES = 1 << 20, LOG_INS = 8, HELD = 8, BODY_BYTES = 2048, CONFIG_BYTES = 4096 };

/* One device that tries to log in. */
struct log_in {
    struct registry_wait wait;
    struct registry_login login;
    struct principal who;
    enum registry_result result;
    int64_t expires_at_s;
    unsigned n_mails;
};

static struct http_metrics server_metrics;

static struct {
    struct workers workers;
    struct loop loop; /* the server's */
    struct http_server server;
    struct http_server_options options;
    struct authority_plane plane;
    struct registry *registry;
    struct log_in log_ins[LOG_INS];
    unsigned n_log_ins;
    /* The server. */
    struct http_exchange *held[HELD];
    unsigned n_held, n_asked;
    uint16_t status;
    const char *answer; /* NULL: it keeps what it is asked */
    char body[BODY_BYTES], authorization[64];
} t;

/* ---- the server that is asked ---- */

static inline void authority_fixture_answer(struct http_exchange *x, uint16_t status, const char *text)
{
    struct http_response r = {.status = status, .content_type = STR("application/json"), .body = str_from(text)};

    http_exchange_respond(x, &r);
}

static inline void authority_fixture_on_question(struct http_exchange *x, void *context)
{
    (void)context;
    (void)snprintf(t.body, sizeof t.body, "%.*s", STR_ARG(x->request.body));
    (void)snprintf(t.authorization, sizeof t.authorization, "%.*s",
                   STR_ARG(http_message_header(&x->request, STR("Authorization"))));
    t.n_asked++;
    if (t.answer) {
        authority_fixture_answer(x, t.status, t.answer);
        return;
    }
    assert_true(t.n_held < HELD);
    t.held[t.n_held++] = x;
}

static inline const struct http_route *authority_fixture_routes(size_t *out_n)
{
    static const struct http_route routes[] = {
        {.method = HTTP_METHOD_POST, .pattern = "/ask", .handler = authority_fixture_on_question},
        {.method = HTTP_METHOD_GET, .pattern = "/keys", .handler = authority_fixture_on_question},
    };

    *out_n = ARRAY_LEN(routes);
    return routes;
}

static inline void authority_fixture_answer_held(const char *text)
{
    for (unsigned i = 0; i < t.n_held; i++)
        authority_fixture_answer(t.held[i], 200, text);
    t.n_held = 0;
}

/* ---- life ---- */

static inline void authority_fixture_turn(void)
{
    loop_turn(&t.loop, 0);
    for (unsigned i = 0; i < WORKERS; i++)
        loop_turn(&t.workers.list[i].loop, 1);
}

/* `more` is what the section `authentication` has, with @ for the server's address. */
static inline void authority_fixture_use_config(const char *more)
{
    static const char first[] =
        "kafka: {bootstrap: k:9092}\n"
        "listeners: [{mqtt: \"127.0.0.1:1883\"}]\n"
        "tenants: {t1: {devices: {d1: {auth_id: a1, password: pw}, d2: {}, off: {enabled: false}}}, t2: {enabled: false,"
        " devices: {d3: {}}}, t3: {adapters: [{type: hono-http, enabled: true}], devices: {d4: {}}}}\n"
        "authentication: {";
    static struct config_errors errors;
    static char text[CONFIG_BYTES];
    char address[64];
    struct config_source source = {.text = {text, sizeof first - 1}, .name = "test.yaml"};
    struct config *config;

    listener_name(&t.server.listener, address, sizeof address);
    memcpy(text, first, sizeof first);
    for (; *more; more++)
        source.text.n += (size_t)snprintf(text + source.text.n, sizeof text - source.text.n, *more == '@' ? "%s" : "%.1s",
                                          *more == '@' ? address : more);
    source.text.n += (size_t)snprintf(text + source.text.n, sizeof text - source.text.n, "}\n");
    if (config_load(&source, &config, &errors) != E_OK)
        fail_msg("line %u: %s", errors.items[0].line, errors.items[0].text);
    registry_unref(t.registry);
    t.registry = registry_new(config);
    registry_use_authority(t.registry, &t.plane.port);
    authority_plane_use(&t.plane, config, NULL);
    config_unref(config);
}

static inline int authority_fixture_set_up(void **state)
{
    struct sockaddr_storage address;
    socklen_t size;

    (void)state;
    memset(&t, 0, sizeof t);
    http_metrics_register(&server_metrics, "test");
    assert_int_equal(workers_init(&t.workers, WORKERS, MAILBOX_BYTES, NULL, NULL), E_OK);
    assert_int_equal(loop_init(&t.loop, MAILBOX_BYTES, NULL), E_OK);
    t.options = (struct http_server_options){.metrics = &server_metrics};
    t.options.routes = authority_fixture_routes(&t.options.n_routes);
    http_server_init(&t.server, &t.loop, &t.options);
    assert_int_equal(listener_parse(STR("127.0.0.1:0"), &address, &size, NULL), E_OK);
    assert_int_equal(http_server_listen(&t.server, &address, size, false, NULL), E_OK);
    authority_plane_init(&t.plane, &t.workers);
    authority_fixture_use_config("");
    t.status = 200;
    return 0;
}

static inline int authority_fixture_tear_down(void **state)
{
    (void)state;
    authority_fixture_answer_held("{}");
    authority_plane_close(&t.plane);
    for (int i = 0; i < 4; i++)
        authority_fixture_turn();
    for (unsigned i = 0; i < t.n_log_ins; i++)
        principal_release(&t.log_ins[i].who);
    http_server_drain(&t.server, 0, NULL);
    while (!t.server.is_closed)
        authority_fixture_turn();
    http_server_fini(&t.server);
    authority_plane_fini(&t.plane);
    registry_unref(t.registry);
    workers_fini(&t.workers);
    loop_fini(&t.loop);
    return 0;
}

/* ---- the devices ---- */

static inline void authority_fixture_ask(struct log_in *l)
{
    l->result = registry_authenticate(t.registry, &l->login, &l->who);
}

static inline void authority_fixture_on_mail(struct mail *m)
{
    struct log_in *l = CONTAINER_OF(m, struct log_in, wait.mail);

    l->n_mails++;
    authority_fixture_ask(l);
}

static inline struct log_in *authority_fixture_begin(unsigned worker, const char *user_name, struct str password)
{
    struct log_in *l = &t.log_ins[t.n_log_ins++];

    assert_true(t.n_log_ins <= LOG_INS);
    l->wait =
        (struct registry_wait){.mail = {.on_mail = authority_fixture_on_mail}, .home = &t.workers.list[worker].loop.mailbox};
    l->login = (struct registry_login){.adapter = CONFIG_ADAPTER_MQTT,
                                       .has_user_name = true,
                                       .user_name = str_from(user_name),
                                       .has_password = true,
                                       .password = password,
                                       .token = device_token_is_one(password) ? password : (struct str){0},
                                       .client_id = STR("c1"),
                                       .listener = STR("listeners[0]"),
                                       .out_expires_at_s = &l->expires_at_s,
                                       .wait = &l->wait};
    authority_fixture_ask(l);
    return l;
}

static inline enum registry_result authority_fixture_finish(struct log_in *l)
{
    while (l->result == REGISTRY_PENDING)
        authority_fixture_turn();
    return l->result;
}

/* Makes room for others; all of them were answered. */
static inline void authority_fixture_forget(void)
{
    for (unsigned i = 0; i < t.n_log_ins; i++)
        principal_release(&t.log_ins[i].who);
    memset(t.log_ins, 0, sizeof t.log_ins);
    t.n_log_ins = 0;
}

static inline enum registry_result authority_fixture_log_in(const char *user_name, const char *password)
{
    struct log_in *l;

    if (t.n_log_ins == LOG_INS)
        authority_fixture_forget();
    l = authority_fixture_begin(0, user_name, str_from(password));
    return authority_fixture_finish(l);
}

static inline void authority_fixture_wait_for_questions(unsigned n)
{
    while (t.n_asked < n)
        authority_fixture_turn();
}
