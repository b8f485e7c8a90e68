/* Our server and our client with TLS between them, in one loop: both versions of HTTP, and whom the client does not talk to. */
#include <arpa/inet.h>
#include <stdio.h>

#include "base/check.h"
#include "http/http_client.h"
#include "http/http_server.h"
#include "loop/tls.h"
#include "loop/tls_fixture.h"
#include "loop/tls_peer.h"

enum { FAR_MS = 1000000 };

static struct http_metrics server_metrics;
static struct http_client_metrics client_metrics;
static struct tls_stats server_stats, client_stats;
static struct identity root, stranger, server_id, client_id;
static struct tls *server_tls, *client_tls, *certified_tls, *stranger_tls;

static struct {
    struct loop loop;
    struct http_server server;
    struct http_server_options server_options;
    struct http_client client;
    struct http_client_options options;
    struct http_call call;
    unsigned n_done;
    err result;
    uint16_t status;
    char body[128];
    char address[64];
} t;

/* Says who the client is. */
static void on_request(struct http_exchange *x, void *context)
{
    const struct tls_peer *peer = x->tls ? tls_peer_of(x->tls) : NULL;

    (void)context;
    http_exchange_respond_text(x, 200, !peer ? STR("plain") : peer->subject.n ? peer->subject : STR("unknown"));
}

static const struct http_route route = {.method = HTTP_METHOD_GET, .pattern = "/", .handler = on_request};

static void on_done(struct http_call *call)
{
    t.n_done++;
    t.result = call->result;
    t.status = call->result == E_OK ? call->response->status : 0;
    snprintf(t.body, sizeof t.body, "%.*s", STR_ARG(call->body));
}

/* Asks, as `scheme://host:port/`, and waits for what comes of it. */
static err ask(const char *scheme, bool is_http2)
{
    char text[128];
    struct http_url url;
    struct http_client_request request = {.url = &url, .method = HTTP_METHOD_GET, .timeout_ms = FAR_MS, .is_http2 = is_http2};
    err e;

    snprintf(text, sizeof text, "%s://%s/", scheme, t.address);
    assert_int_equal(http_url_parse(str_from(text), &url, NULL), E_OK);
    t.n_done = 0;
    t.call = (struct http_call){.on_done = on_done};
    e = http_client_send(&t.client, &t.call, &request);
    while (e == E_OK && !t.n_done)
        loop_turn(&t.loop, -1);
    return e;
}

static int64_t failures_of_tls(void)
{
    return metric_value(&client_metrics.failures[HTTP_CLIENT_FAILED_TLS]);
}

static void requests_go_over_tls_in_both_versions(void **state)
{
    (void)state;
    http_client_use_tls(&t.client, client_tls);
    for (int is_http2 = 0; is_http2 < 2; is_http2++) {
        assert_int_equal(ask("https", is_http2), E_OK);
        assert_int_equal(t.result, E_OK);
        assert_int_equal(t.status, 200);
        assert_string_equal(t.body, "unknown");
        assert_int_equal(ask("https", is_http2), E_OK); /* on the same connection */
        assert_int_equal(t.status, 200);
        assert_int_equal(atomic_load(&client_stats.open), is_http2 + 1);
    }
}

static void a_client_may_have_a_certificate(void **state)
{
    (void)state;
    http_client_use_tls(&t.client, certified_tls);
    for (int is_http2 = 0; is_http2 < 2; is_http2++) {
        assert_int_equal(ask("https", is_http2), E_OK);
        assert_int_equal(t.result, E_OK);
        assert_string_equal(t.body, "CN=client,O=Millrace");
    }
}

static void nothing_is_sent_to_a_server_that_is_not_trusted(void **state)
{
    int64_t before = failures_of_tls(), received = metric_value(server_metrics.received);

    (void)state;
    http_client_use_tls(&t.client, stranger_tls);
    assert_int_equal(ask("https", false), E_OK);
    assert_int_equal(t.result, E_IO);
    assert_int_equal(failures_of_tls(), before + 1);
    assert_int_equal(metric_value(server_metrics.received), received);
}

static void a_server_without_tls_is_none_for_https_and_the_reverse(void **state)
{
    (void)state;
    http_client_use_tls(&t.client, client_tls);
    assert_int_equal(ask("http", false), E_OK);
    assert_int_not_equal(t.result, E_OK);
    http_server_use_tls(&t.server, NULL);
    assert_int_equal(ask("https", false), E_OK);
    assert_int_equal(t.result, E_IO);
    assert_int_equal(ask("http", false), E_OK);
    assert_string_equal(t.body, "plain");
}

static void a_client_without_tls_takes_no_https(void **state)
{
    (void)state;
    assert_int_equal(ask("https", false), E_INVAL);
}

static void other_certificates_are_for_new_connections(void **state)
{
    (void)state;
    http_client_use_tls(&t.client, client_tls);
    assert_int_equal(ask("https", false), E_OK);
    http_client_use_tls(&t.client, stranger_tls);
    assert_int_equal(ask("https", false), E_OK);
    assert_int_equal(t.status, 200); /* the one that it has */
}

static int set_up(void **state)
{
    struct sockaddr_storage address;
    socklen_t size;
    char text[64];

    (void)state;
    memset(&t, 0, sizeof t);
    assert_int_equal(loop_init(&t.loop, 1 << 20, NULL), E_OK);
    t.server_options = (struct http_server_options){.routes = &route, .n_routes = 1, .metrics = &server_metrics};
    t.options = (struct http_client_options){.metrics = &client_metrics};
    http_server_init(&t.server, &t.loop, &t.server_options);
    http_server_use_tls(&t.server, server_tls);
    assert_int_equal(listener_parse(STR("127.0.0.1:0"), &address, &size, NULL), E_OK);
    assert_int_equal(http_server_listen(&t.server, &address, size, false, NULL), E_OK);
    listener_name(&t.server.listener, text, sizeof text);
    snprintf(t.address, sizeof t.address, "%s", text);
    http_client_init(&t.client, &t.loop, &t.options);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    http_client_close(&t.client);
    http_server_drain(&t.server, 0, NULL);
    for (int i = 0; i < 5; i++)
        loop_turn(&t.loop, 0);
    http_client_fini(&t.client);
    http_server_fini(&t.server);
    loop_fini(&t.loop);
    return atomic_load(&server_stats.open) || atomic_load(&client_stats.open) ? -1 : 0;
}

static struct tls *make_client(const char *ca, const char *cert, const char *key)
{
    struct tls_options options = {.cert_files = &cert,
                                  .key_files = &key,
                                  .n_certs = cert != NULL,
                                  .ca_files = &ca,
                                  .n_cas = 1,
                                  .handshake_timeout_ms = FAR_MS,
                                  .stats = &client_stats};
    struct tls *tls;

    assert_int_equal(tls_new_client(&options, &tls, NULL), E_OK);
    return tls;
}

static int open_all(void **state)
{
    const char *cert, *key, *ca;
    struct tls_options options = {.cert_files = &cert,
                                  .key_files = &key,
                                  .n_certs = 1,
                                  .ca_files = &ca,
                                  .n_cas = 1,
                                  .client_auth = TLS_CLIENT_OPTIONAL,
                                  .alpn = (const char *const[]){"h2", "http/1.1", NULL},
                                  .handshake_timeout_ms = FAR_MS,
                                  .stats = &server_stats};

    (void)state;
    http_metrics_register(&server_metrics, "test");
    http_client_metrics_register(&client_metrics, "test");
    tls_fixture_open();
    root = identity_ca("root", NULL);
    stranger = identity_ca("stranger", NULL);
    server_id = identity_leaf("server", &root, "IP:127.0.0.1");
    client_id = identity_leaf("client", &root, NULL);
    identity_write("root", &root, NULL);
    identity_write("stranger", &stranger, NULL);
    identity_write("server", &server_id, NULL);
    identity_write("client", &client_id, NULL);
    cert = tls_fixture_path("server.pem");
    key = tls_fixture_path("server.key");
    ca = tls_fixture_path("root.pem");
    assert_int_equal(tls_new_server(&options, &server_tls, NULL), E_OK);
    client_tls = make_client(ca, NULL, NULL);
    certified_tls = make_client(ca, tls_fixture_path("client.pem"), tls_fixture_path("client.key"));
    stranger_tls = make_client(tls_fixture_path("stranger.pem"), NULL, NULL);
    return 0;
}

static int close_all(void **state)
{
    struct tls *all[] = {server_tls, client_tls, certified_tls, stranger_tls};
    struct identity *ids[] = {&root, &stranger, &server_id, &client_id};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        tls_unref(all[i]);
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        identity_free(ids[i]);
    tls_fixture_close();
    return mem_used(MEM_LOOP) == 0 && mem_used(MEM_HTTP) == 0 ? 0 : -1;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(requests_go_over_tls_in_both_versions),
        TEST(a_client_may_have_a_certificate),
        TEST(nothing_is_sent_to_a_server_that_is_not_trusted),
        TEST(a_server_without_tls_is_none_for_https_and_the_reverse),
        TEST(a_client_without_tls_takes_no_https),
        TEST(other_certificates_are_for_new_connections),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
