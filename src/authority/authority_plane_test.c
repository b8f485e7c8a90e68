#include "authority/authority_plane.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/check.h"
#include "http/http_server.h"
#include "obs/metrics.h"
#include "registry/registry.h"
#include "registry/registry_wait.h"

enum { WORKERS = 2, MAILBOX_BYTES = 1 << 20, LOG_INS = 8, HELD = 8, BODY_BYTES = 2048 };

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
static const struct http_route *routes_of_server(size_t *out_n);

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

static void answer(struct http_exchange *x, uint16_t status, const char *text)
{
    struct http_response r = {.status = status, .content_type = STR("application/json"), .body = str_from(text)};

    http_exchange_respond(x, &r);
}

static void on_question(struct http_exchange *x, void *context)
{
    (void)context;
    (void)snprintf(t.body, sizeof t.body, "%.*s", STR_ARG(x->request.body));
    (void)snprintf(t.authorization, sizeof t.authorization, "%.*s",
                   STR_ARG(http_message_header(&x->request, STR("Authorization"))));
    t.n_asked++;
    if (t.answer) {
        answer(x, t.status, t.answer);
        return;
    }
    assert_true(t.n_held < HELD);
    t.held[t.n_held++] = x;
}

static const struct http_route *routes_of_server(size_t *out_n)
{
    static const struct http_route routes[] = {{.method = HTTP_METHOD_POST, .pattern = "/ask", .handler = on_question}};

    *out_n = ARRAY_LEN(routes);
    return routes;
}

static void answer_held(const char *text)
{
    for (unsigned i = 0; i < t.n_held; i++)
        answer(t.held[i], 200, text);
    t.n_held = 0;
}

/* ---- life ---- */

static void turn(void)
{
    loop_turn(&t.loop, 0);
    for (unsigned i = 0; i < WORKERS; i++)
        loop_turn(&t.workers.list[i].loop, 1);
}

static void use_config(const char *more)
{
    static struct config_errors errors;
    static char text[2048];
    char address[64];
    struct config_source source = {.text = {text, 0}, .name = "test.yaml"};
    struct config *config;
    int n;

    listener_name(&t.server.listener, address, sizeof address);
    n = snprintf(
        text, sizeof text,
        "kafka: {bootstrap: k:9092}\n"
        "listeners: [{mqtt: \"127.0.0.1:1883\"}]\n"
        "tenants: {t1: {devices: {d1: {auth_id: a1, password: pw}, d2: {}, off: {enabled: false}}}, t2: {enabled: false,"
        " devices: {d3: {}}}, t3: {adapters: [{type: hono-http, enabled: true}], devices: {d4: {}}}}\n"
        "authentication: {webhook: {url: \"http://%s/ask\"%s}}\n",
        address, more);
    source.text.n = (size_t)n;
    if (config_load(&source, &config, &errors) != E_OK)
        fail_msg("line %u: %s", errors.items[0].line, errors.items[0].text);
    registry_unref(t.registry);
    t.registry = registry_new(config);
    config_unref(config);
    registry_use_authority(t.registry, &t.plane.port);
}

static int set_up(void **state)
{
    struct sockaddr_storage address;
    socklen_t size;

    (void)state;
    memset(&t, 0, sizeof t);
    http_metrics_register(&server_metrics, "test");
    assert_int_equal(workers_init(&t.workers, WORKERS, MAILBOX_BYTES, NULL, NULL), E_OK);
    assert_int_equal(loop_init(&t.loop, MAILBOX_BYTES, NULL), E_OK);
    t.options = (struct http_server_options){.metrics = &server_metrics};
    t.options.routes = routes_of_server(&t.options.n_routes);
    http_server_init(&t.server, &t.loop, &t.options);
    assert_int_equal(listener_parse(STR("127.0.0.1:0"), &address, &size, NULL), E_OK);
    assert_int_equal(http_server_listen(&t.server, &address, size, false, NULL), E_OK);
    authority_plane_init(&t.plane, &t.workers);
    use_config("");
    t.status = 200;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    answer_held("{}");
    authority_plane_close(&t.plane);
    for (int i = 0; i < 4; i++)
        turn();
    for (unsigned i = 0; i < t.n_log_ins; i++)
        principal_release(&t.log_ins[i].who);
    http_server_drain(&t.server, 0, NULL);
    while (!t.server.is_closed)
        turn();
    http_server_fini(&t.server);
    authority_plane_fini(&t.plane);
    registry_unref(t.registry);
    workers_fini(&t.workers);
    loop_fini(&t.loop);
    return 0;
}

/* ---- the devices ---- */

static void ask(struct log_in *l)
{
    l->result = registry_authenticate(t.registry, &l->login, &l->who);
}

static void on_mail(struct mail *m)
{
    struct log_in *l = CONTAINER_OF(m, struct log_in, wait.mail);

    l->n_mails++;
    ask(l);
}

static struct log_in *begin(unsigned worker, const char *user_name, struct str password)
{
    struct log_in *l = &t.log_ins[t.n_log_ins++];

    assert_true(t.n_log_ins <= LOG_INS);
    l->wait = (struct registry_wait){.mail = {.on_mail = on_mail}, .home = &t.workers.list[worker].loop.mailbox};
    l->login = (struct registry_login){.adapter = CONFIG_ADAPTER_MQTT,
                                       .has_user_name = true,
                                       .user_name = str_from(user_name),
                                       .has_password = true,
                                       .password = password,
                                       .client_id = STR("c1"),
                                       .listener = STR("listeners[0]"),
                                       .out_expires_at_s = &l->expires_at_s,
                                       .wait = &l->wait};
    ask(l);
    return l;
}

static enum registry_result finish(struct log_in *l)
{
    while (l->result == REGISTRY_PENDING)
        turn();
    return l->result;
}

static enum registry_result log_in(const char *user_name, const char *password)
{
    struct log_in *l;

    if (t.n_log_ins == LOG_INS) {
        for (unsigned i = 0; i < LOG_INS; i++)
            principal_release(&t.log_ins[i].who);
        memset(t.log_ins, 0, sizeof t.log_ins);
        t.n_log_ins = 0;
    }
    l = begin(0, user_name, str_from(password));
    return finish(l);
}

static void wait_for_questions(unsigned n)
{
    while (t.n_asked < n)
        turn();
}

/* ---- tests ---- */

static void the_webhook_says_who_somebody_is(void **state)
{
    static const struct {
        const char *answer;
        uint16_t status;
        enum registry_result want;
    } rows[] = {
        {"{\"result\":\"allow\",\"tenant\":\"t1\",\"device\":\"d2\"}", 200, REGISTRY_OK},
        {"{\"result\":\"allow\",\"device\":\"d2\"}", 200, REGISTRY_OK}, /* the tenant of the user name */
        {"{\"result\":\"allow\",\"tenant\":\"t1\",\"device\":\"none\"}", 200, REGISTRY_BAD_CREDENTIALS},
        {"{\"result\":\"allow\",\"tenant\":\"none\",\"device\":\"d2\"}", 200, REGISTRY_BAD_CREDENTIALS},
        {"{\"result\":\"allow\",\"tenant\":\"t2\",\"device\":\"d3\"}", 200, REGISTRY_BAD_CREDENTIALS}, /* disabled */
        {"{\"result\":\"allow\",\"tenant\":\"t3\",\"device\":\"d4\"}", 200, REGISTRY_ADAPTER_DISABLED},
        {"{\"result\":\"allow\",\"tenant\":\"t1\",\"device\":\"off\"}", 200, REGISTRY_DEVICE_DISABLED},
        {"{\"result\":\"deny\"}", 200, REGISTRY_BAD_CREDENTIALS},
        {"{\"result\":\"deny\"}", 500, REGISTRY_UNAVAILABLE},
        {"{\"result\":\"allow\",\"tenant\":\"t1\",\"device\":\"d2\"}", 503, REGISTRY_UNAVAILABLE},
        {"{\"result\":\"allow\",\"tenant\":\"t1\",\"device\":\"d2\"}", 204, REGISTRY_UNAVAILABLE},
        {"{\"error\":\"who are you?\"}", 401, REGISTRY_UNAVAILABLE},
        {"nonsense", 200, REGISTRY_UNAVAILABLE},
    };
    char name[32];

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        enum registry_result got;

        t.answer = rows[i].status == 204 ? "" : rows[i].answer;
        t.status = rows[i].status;
        (void)snprintf(name, sizeof name, "x%u@t1", i);
        got = log_in(name, "secret");
        if (got != rows[i].want)
            fail_msg("%s with %u: %s", rows[i].answer, rows[i].status, registry_result_name(got));
        if (got == REGISTRY_OK)
            assert_true(str_equal(t.log_ins[t.n_log_ins - 1].who.device->id, STR("d2")));
        assert_int_equal(t.n_asked, i + 1);
    }
}

static void a_question_holds_what_is_known_of_the_log_in(void **state)
{
    struct log_in *l;

    (void)state;
    use_config(", token: \"hook secret\"");
    t.answer = "{\"result\":\"deny\"}";
    assert_int_equal(log_in("a\"1@t1", "p\nw"), REGISTRY_BAD_CREDENTIALS);
    assert_string_equal(t.body, "{\"protocol\":\"mqtt\",\"listener\":\"listeners[0]\",\"client_id\":\"c1\",\"tenant\":\"t1\","
                                "\"auth_id\":\"a\\\"1\",\"user_name\":\"a\\\"1@t1\",\"password\":\"p\\u000aw\"}");
    assert_string_equal(t.authorization, "Bearer hook secret");
    l = begin(0, "a1@t1", (struct str){"\xff\x00x", 3});
    assert_int_equal(finish(l), REGISTRY_BAD_CREDENTIALS);
    assert_non_null(strstr(t.body, "\"password_base64\":\"/wB4\"}"));
    l = &t.log_ins[t.n_log_ins++];
    *l = (struct log_in){.wait = {.mail = {.on_mail = on_mail}, .home = &t.workers.list[1].loop.mailbox}};
    l->login =
        (struct registry_login){.adapter = CONFIG_ADAPTER_HTTP, .token = STR("a.b.c"), .tenant = STR("t9"), .wait = &l->wait};
    ask(l);
    assert_int_equal(finish(l), REGISTRY_BAD_CREDENTIALS);
    assert_string_equal(t.body, "{\"protocol\":\"http\",\"tenant\":\"t9\",\"token\":\"a.b.c\"}");
}

static void many_who_bring_the_same_ask_once(void **state)
{
    struct log_in *list[4];

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(list); i++)
        list[i] = begin(i % WORKERS, "x@t1", STR("secret"));
    wait_for_questions(1);
    for (int i = 0; i < 4; i++)
        turn();
    assert_int_equal(t.n_asked, 1);
    answer_held("{\"result\":\"allow\",\"device\":\"d1\"}");
    for (unsigned i = 0; i < ARRAY_LEN(list); i++) {
        assert_int_equal(finish(list[i]), REGISTRY_OK);
        assert_int_equal(list[i]->n_mails, 1);
    }
    assert_int_equal(begin(0, "x@t1", STR("secret"))->result, REGISTRY_OK); /* remembered */
    assert_int_equal(t.n_asked, 1);
    assert_int_equal(begin(0, "x@t1", STR("secreT"))->result, REGISTRY_PENDING); /* of that nothing is known */
    wait_for_questions(2);
}

static void what_cannot_be_told_is_not_remembered(void **state)
{
    (void)state;
    t.answer = "";
    t.status = 500;
    assert_int_equal(log_in("x@t1", "pw"), REGISTRY_UNAVAILABLE);
    t.answer = "{\"result\":\"allow\",\"device\":\"d1\"}";
    t.status = 200;
    assert_int_equal(log_in("x@t1", "pw"), REGISTRY_OK);
}

static void refusals_are_remembered_for_a_time_of_their_own(void **state)
{
    (void)state;
    use_config(", cache_denied: 0");
    t.answer = "{\"result\":\"deny\"}";
    assert_int_equal(log_in("x@t1", "pw"), REGISTRY_BAD_CREDENTIALS);
    t.answer = "{\"result\":\"allow\",\"device\":\"d1\"}";
    assert_int_equal(log_in("x@t1", "pw"), REGISTRY_OK);
    t.answer = "{\"result\":\"deny\"}";
    assert_int_equal(log_in("x@t1", "pw"), REGISTRY_OK);
    use_config(", cache: 0");
    assert_int_equal(log_in("y@t1", "pw"), REGISTRY_BAD_CREDENTIALS);
    t.answer = "{\"result\":\"allow\",\"device\":\"d1\"}";
    assert_int_equal(log_in("y@t1", "pw"), REGISTRY_BAD_CREDENTIALS);
}

static void no_more_is_remembered_than_allowed(void **state)
{
    (void)state;
    use_config(", max_cached: 2");
    t.answer = "{\"result\":\"allow\",\"device\":\"d1\"}";
    assert_int_equal(log_in("x@t1", "1"), REGISTRY_OK);
    assert_int_equal(log_in("x@t1", "2"), REGISTRY_OK);
    assert_int_equal(log_in("x@t1", "3"), REGISTRY_OK);
    assert_int_equal(t.plane.webhook.cache.outcomes.n_entries, 2);
    assert_int_equal(log_in("x@t1", "3"), REGISTRY_OK);
    assert_int_equal(t.n_asked, 3);
    assert_int_equal(log_in("x@t1", "1"), REGISTRY_OK);
    assert_int_equal(t.n_asked, 4);
}

static void too_many_questions_are_not_asked(void **state)
{
    struct log_in *first, *second;

    (void)state;
    use_config(", max_waiting: 1");
    first = begin(0, "x@t1", STR("1"));
    second = begin(1, "x@t1", STR("2"));
    assert_int_equal(second->result, REGISTRY_UNAVAILABLE);
    wait_for_questions(1);
    answer_held("{\"result\":\"allow\",\"device\":\"d1\"}");
    assert_int_equal(finish(first), REGISTRY_OK);
    assert_int_equal(begin(1, "x@t1", STR("2"))->result, REGISTRY_PENDING);
}

static void whoever_does_not_answer_in_time_lets_nobody_in(void **state)
{
    (void)state;
    use_config(", timeout: 20ms");
    assert_int_equal(log_in("a1@t1", "pw"), REGISTRY_UNAVAILABLE); /* though the registry knows him */
}

static void a_ttl_ends_the_log_in_and_what_is_remembered(void **state)
{
    struct log_in *l;

    (void)state;
    t.answer = "{\"result\":\"allow\",\"device\":\"d1\",\"ttl\":1000}";
    l = begin(0, "x@t1", STR("pw"));
    assert_int_equal(finish(l), REGISTRY_OK);
    assert_in_range(l->expires_at_s, loop_wall_ms() / 1000 + 900, loop_wall_ms() / 1000 + 1000);
    t.answer = "{\"result\":\"allow\",\"device\":\"d1\"}";
    l = begin(0, "y@t1", STR("pw"));
    assert_int_equal(finish(l), REGISTRY_OK);
    assert_int_equal(l->expires_at_s, 0);
}

static void the_order_is_that_of_the_configuration(void **state)
{
    static const struct {
        const char *order, *answer, *password;
        unsigned n_asked;
        enum registry_result want;
    } rows[] = {
        {", order: first", "{\"result\":\"deny\"}", "pw", 1, REGISTRY_BAD_CREDENTIALS},
        {", order: first", "{\"result\":\"ignore\"}", "pw", 1, REGISTRY_OK},
        {", order: first", "{\"result\":\"ignore\"}", "no", 1, REGISTRY_BAD_CREDENTIALS},
        {", order: last", "{\"result\":\"deny\"}", "pw", 0, REGISTRY_OK},
        {", order: last", "{\"result\":\"allow\",\"device\":\"d2\"}", "no", 1, REGISTRY_OK},
        {", order: last", "{\"result\":\"ignore\"}", "no", 1, REGISTRY_BAD_CREDENTIALS},
        {", order: last", "{}", "no", 1, REGISTRY_UNAVAILABLE},
        {", order: only", "{\"result\":\"ignore\"}", "pw", 1, REGISTRY_BAD_CREDENTIALS},
        {", order: only", "{\"result\":\"allow\",\"device\":\"d2\"}", "no", 1, REGISTRY_OK},
    };
    char more[64];

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        enum registry_result got;

        (void)snprintf(more, sizeof more, "%s, cache: 0, cache_denied: 0", rows[i].order);
        use_config(more);
        t.n_asked = 0;
        t.answer = rows[i].answer;
        /* What was kept for those who wait is nobody else's. */
        got = log_in("a1@t1", rows[i].password);
        if (got != rows[i].want || t.n_asked != rows[i].n_asked)
            fail_msg("row %u: %s after %u questions", i, registry_result_name(got), t.n_asked);
    }
}

static void the_end_answers_who_waits(void **state)
{
    struct log_in *l;

    (void)state;
    l = begin(0, "x@t1", STR("pw"));
    wait_for_questions(1);
    authority_plane_close(&t.plane);
    assert_int_equal(finish(l), REGISTRY_UNAVAILABLE);
    assert_int_equal(log_in("y@t1", "pw"), REGISTRY_UNAVAILABLE);
}

static void whoever_cannot_wait_is_not_let_in(void **state)
{
    struct registry_login login = {.adapter = CONFIG_ADAPTER_MQTT, .has_user_name = true, .user_name = STR("a1@t1")};
    struct principal who;

    (void)state;
    assert_int_equal(registry_authenticate(t.registry, &login, &who), REGISTRY_UNAVAILABLE);
    assert_int_equal(t.n_asked, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        TEST(the_webhook_says_who_somebody_is),
        TEST(a_question_holds_what_is_known_of_the_log_in),
        TEST(many_who_bring_the_same_ask_once),
        TEST(what_cannot_be_told_is_not_remembered),
        TEST(refusals_are_remembered_for_a_time_of_their_own),
        TEST(no_more_is_remembered_than_allowed),
        TEST(too_many_questions_are_not_asked),
        TEST(whoever_does_not_answer_in_time_lets_nobody_in),
        TEST(a_ttl_ends_the_log_in_and_what_is_remembered),
        TEST(the_order_is_that_of_the_configuration),
        TEST(the_end_answers_who_waits),
        TEST(whoever_cannot_wait_is_not_let_in),
    };

    return cmocka_run_group_tests_name("authority_plane", tests, NULL, NULL);
}
