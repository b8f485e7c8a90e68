/* Two ends of a connection in one thread, over memory: what they agree on, whom they refuse, and that their bytes come through. */
#include "loop/tls_conn.h"

#include <string.h>

#include "loop/tls_fixture.h"
#include "loop/tls_peer.h"
#include "loop/tls_tickets.h"

#include <openssl/ssl.h>

enum { PLAIN_BYTES = 128 * 1024, ROUNDS = 20 };

static struct identity root, intermediate, stranger_root, server_id, other_id, device, stranger, expired, revoked;
static struct tls_stats server_stats, client_stats;
static struct tls_tickets *tickets;
static struct tls_conn *server, *client;
static char server_got[PLAIN_BYTES], client_got[PLAIN_BYTES];
static size_t n_server_got, n_client_got;
static enum tls_step server_step, client_step;
static SSL_SESSION *session; /* a client's, to be resumed */

/* What differs between the rows of a table. */
struct setup {
    const char *name;
    const char *client_cert; /* without ending; NULL: none */
    const char *ca, *crl;    /* of the server */
    const char *server_name; /* what the client asks for */
    const char *client_ca;   /* whom the client trusts; NULL: root */
    enum tls_client_auth auth;
    enum tls_version server_min, client_min;
    bool is_refused;
    enum tls_failure why; /* counted by the server */
};

static struct tls *make_server(const struct setup *setup)
{
    const char *certs[] = {tls_fixture_path("server.pem"), tls_fixture_path("other.pem")};
    const char *keys[] = {tls_fixture_path("server.key"), tls_fixture_path("other.key")};
    const char *ca = setup->ca ? tls_fixture_path(setup->ca) : NULL, *crl = setup->crl ? tls_fixture_path(setup->crl) : NULL;
    struct tls_options options = {
        .cert_files = certs,
        .key_files = keys,
        .n_certs = 2,
        .ca_files = &ca,
        .n_cas = ca != NULL,
        .crl_files = &crl,
        .n_crls = crl != NULL,
        .min_version = setup->server_min,
        .client_auth = setup->auth,
        .tickets = tickets,
        .alpn = (const char *const[]){"h2", "http/1.1", NULL},
        .handshake_timeout_ms = 1000,
        .max_handshakes = 10,
        .stats = &server_stats,
    };
    struct errinfo ei = {0};
    struct tls *tls = NULL;

    if (tls_new_server(&options, &tls, &ei) != E_OK)
        fail_msg("%s", ei.text);
    return tls;
}

static struct tls *make_client(const struct setup *setup)
{
    char cert[64], key[64];
    const char *ca = tls_fixture_path(setup->client_ca ? setup->client_ca : "root.pem"), *cert_path = NULL, *key_path = NULL;
    struct tls_options options = {
        .cert_files = &cert_path,
        .key_files = &key_path,
        .n_certs = setup->client_cert != NULL,
        .ca_files = &ca,
        .n_cas = 1,
        .min_version = setup->client_min,
        .handshake_timeout_ms = 1000,
        .stats = &client_stats,
    };
    struct errinfo ei = {0};
    struct tls *tls = NULL;

    if (setup->client_cert) {
        snprintf(cert, sizeof cert, "%s.pem", setup->client_cert);
        snprintf(key, sizeof key, "%s.key", setup->client_cert);
        cert_path = tls_fixture_path(cert);
        key_path = tls_fixture_path(key);
    }
    if (tls_new_client(&options, &tls, &ei) != E_OK)
        fail_msg("%s", ei.text);
    return tls;
}

/* Moves what one has to say to the other. */
static void carry(struct tls_conn *from, struct tls_conn *to, char *got, size_t *n_got, enum tls_step *step)
{
    struct buf sealed = from->out;
    size_t n = 0;

    from->out = (struct buf){0};
    from->has_output = false;
    if (buf_size(&sealed) && *step == TLS_STEP_MORE)
        *step = tls_conn_receive(to, buf_str(&sealed), got + *n_got, PLAIN_BYTES - *n_got, &n);
    *n_got += n;
    buf_free(&sealed, MEM_LOOP);
}

static void exchange(void)
{
    for (int i = 0; i < ROUNDS && (buf_size(&client->out) || buf_size(&server->out)); i++) {
        carry(client, server, server_got, &n_server_got, &server_step);
        carry(server, client, client_got, &n_client_got, &client_step);
    }
}

static void begin(struct tls *server_tls, struct tls *client_tls, const char *name)
{
    size_t n;

    n_server_got = n_client_got = 0;
    server_step = client_step = TLS_STEP_MORE;
    assert_int_equal(tls_conn_new(server_tls, NULL, &server), E_OK);
    assert_int_equal(
        tls_conn_new(client_tls, &(struct tls_server){.name = name ? name : "server.example", .alpn = "http/1.1"}, &client),
        E_OK);
    if (session)
        assert_int_equal(SSL_set_session(client->ssl, session), 1);
    assert_int_equal(tls_conn_receive(client, (struct str){0}, client_got, PLAIN_BYTES, &n), TLS_STEP_MORE);
    exchange();
}

static void connect_as(const struct setup *setup)
{
    struct tls *server_tls = make_server(setup), *client_tls = make_client(setup);

    begin(server_tls, client_tls, setup->server_name);
    tls_unref(server_tls); /* the connections keep them */
    tls_unref(client_tls);
}

static void part(void)
{
    if (client)
        tls_conn_end(client); /* else OpenSSL takes its session for a bad one */
    tls_conn_free(server);
    tls_conn_free(client);
    server = client = NULL;
    assert_int_equal(atomic_load(&server_stats.open), 0);
    assert_int_equal(atomic_load(&server_stats.shaking), 0);
    assert_int_equal(atomic_load(&client_stats.shaking), 0);
}

static void say(struct tls_conn *from, struct str text)
{
    struct buf plain = {0};

    assert_int_equal(buf_append(&plain, MEM_LOOP, text), E_OK);
    while (buf_size(&plain)) {
        assert_int_equal(tls_conn_send(from, &plain), E_OK);
        exchange();
    }
    buf_free(&plain, MEM_LOOP);
}

static const struct setup setups[] = {
    {.name = "no certificate is asked for"},
    {.name = "TLS 1.3 only", .server_min = TLS_1_3},
    {.name = "an optional certificate is not given", .ca = "root.pem", .auth = TLS_CLIENT_OPTIONAL},
    {.name = "an optional certificate is given", .ca = "root.pem", .auth = TLS_CLIENT_OPTIONAL, .client_cert = "device"},
    {.name = "a required certificate is given", .ca = "root.pem", .auth = TLS_CLIENT_REQUIRED, .client_cert = "device"},
    {.name = "the intermediate alone is trusted",
     .ca = "intermediate.pem",
     .auth = TLS_CLIENT_REQUIRED,
     .client_cert = "device"},
    {.name = "a required certificate is missing",
     .ca = "root.pem",
     .auth = TLS_CLIENT_REQUIRED,
     .is_refused = true,
     .why = TLS_FAILED_NO_CERTIFICATE},
    {.name = "an unknown CA",
     .ca = "root.pem",
     .auth = TLS_CLIENT_OPTIONAL,
     .client_cert = "stranger",
     .is_refused = true,
     .why = TLS_FAILED_UNTRUSTED},
    {.name = "an unknown CA where somebody else judges", .auth = TLS_CLIENT_REQUIRED, .client_cert = "stranger"},
    {.name = "an expired certificate",
     .ca = "root.pem",
     .auth = TLS_CLIENT_OPTIONAL,
     .client_cert = "expired",
     .is_refused = true,
     .why = TLS_FAILED_EXPIRED},
    {.name = "a revoked certificate",
     .ca = "root.pem",
     .crl = "crl.pem",
     .auth = TLS_CLIENT_OPTIONAL,
     .client_cert = "revoked",
     .is_refused = true,
     .why = TLS_FAILED_REVOKED},
    {.name = "one that is not revoked",
     .ca = "root.pem",
     .crl = "crl.pem",
     .auth = TLS_CLIENT_OPTIONAL,
     .client_cert = "device"},
    {.name = "a list of the root only says nothing of the intermediate's",
     .ca = "root.pem",
     .crl = "root.crl",
     .auth = TLS_CLIENT_OPTIONAL,
     .client_cert = "device",
     .is_refused = true,
     .why = TLS_FAILED_CRL},
    {.name = "an old list",
     .ca = "root.pem",
     .crl = "old.crl",
     .auth = TLS_CLIENT_OPTIONAL,
     .client_cert = "device",
     .is_refused = true,
     .why = TLS_FAILED_CRL},
    {.name = "the client asks for another name",
     .server_name = "elsewhere.example",
     .is_refused = true,
     .why = TLS_FAILED_PEER},
    {.name = "the client trusts another CA", .client_ca = "stranger_root.pem", .is_refused = true, .why = TLS_FAILED_PEER},
    {.name = "the client asks for an address", .server_name = "127.0.0.1"},
};

static void a_client_is_let_in_or_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(setups); i++) {
        const struct setup *setup = &setups[i];
        uint64_t before = atomic_load(&server_stats.failed[setup->why]), full = atomic_load(&server_stats.full);

        connect_as(setup);
        if (server->is_ready != !setup->is_refused)
            fail_msg("%s: %s", setup->name, setup->is_refused ? "let in" : "refused");
        if (setup->is_refused) {
            if (atomic_load(&server_stats.failed[setup->why]) != before + 1)
                fail_msg("%s: not counted as %s", setup->name, tls_stats_failure_name(setup->why));
        } else {
            assert_true(client->is_ready);
            assert_int_equal(atomic_load(&server_stats.full), full + 1);
            say(client, STR("up"));
            say(server, STR("down"));
            assert_int_equal(n_server_got, 2);
            assert_memory_equal(client_got, "down", 4);
        }
        part();
    }
}

static void the_peer_is_known_by_its_certificate(void **state)
{
    static const struct setup setup = {.ca = "root.pem", .auth = TLS_CLIENT_REQUIRED, .client_cert = "device"};
    const struct tls_peer *peer;

    (void)state;
    connect_as(&setup);
    peer = tls_peer_of(server);
    assert_true(str_equal(peer->subject, STR("CN=device-1,O=Millrace")));
    assert_true(str_equal(peer->issuer, STR("CN=intermediate,O=Millrace")));
    assert_true(str_equal(peer->server_name, STR("server.example")));
    assert_true(peer->is_trusted);
    assert_false(peer->is_resumed);
    assert_int_equal(peer->n_chain, 1);
    assert_true(peer->not_after_s > peer->not_before_s + TLS_FIXTURE_DAY_S);
    assert_true(peer->der.n > 100);
    assert_ptr_equal(tls_peer_of(server), peer);
    tls_peer_forget(server);
    assert_null(server->peer);
    assert_true(str_equal(tls_conn_alpn(server), STR("http/1.1")));
    part();
}

static void a_certificate_that_nobody_here_judges_is_not_trusted(void **state)
{
    static const struct setup setup = {.auth = TLS_CLIENT_REQUIRED, .client_cert = "stranger"};

    (void)state;
    connect_as(&setup);
    assert_false(tls_peer_of(server)->is_trusted);
    assert_true(str_equal(tls_peer_of(server)->subject, STR("CN=stranger,O=Millrace")));
    part();
}

static void a_peer_without_certificate_has_a_server_name_only(void **state)
{
    static const struct setup setup = {0};

    (void)state;
    connect_as(&setup);
    assert_int_equal(tls_peer_of(server)->subject.n, 0);
    assert_int_equal(tls_peer_of(server)->der.n, 0);
    assert_false(tls_peer_of(server)->is_trusted);
    assert_true(str_equal(tls_peer_of(server)->server_name, STR("server.example")));
    assert_false(tls_peer_has_name(server, STR("server.example")));
    part();
}

static void the_names_of_a_certificate_can_be_asked_for_later(void **state)
{
    static const struct setup setup = {.ca = "root.pem", .auth = TLS_CLIENT_REQUIRED, .client_cert = "device"};
    static char long_name[300];
    const struct {
        struct tls_conn **of;
        struct str name;
        bool is_so;
    } rows[] = {
        {&client, STR("server.example"), true},
        {&client, STR("SERVER.example"), true},
        {&client, STR("127.0.0.1"), true},
        {&client, STR("127.0.0.2"), false},
        {&client, STR("::1"), false},
        {&client, STR("server"), false},
        {&client, STR("a.server.example"), false},
        {&client, STR("server.example\0"), false},
        {&client, {0}, false},
        {&client, {long_name, sizeof long_name}, false},
        {&server, STR("device-1"), true}, /* one without other names has its subject's */
        {&server, STR("device-2"), false},
    };

    (void)state;
    memset(long_name, 'a', sizeof long_name);
    connect_as(&setup);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(tls_peer_has_name(*rows[i].of, rows[i].name), rows[i].is_so);
    part();
}

/* The client's check of the name is the proof. */
static void the_certificate_is_chosen_by_the_name_asked_for(void **state)
{
    static const char *const names[] = {"server.example", "other.example", "sub.other.example"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct setup setup = {.server_name = names[i]};

        connect_as(&setup);
        assert_true(client->is_ready);
        part();
    }
}

static void large_output_is_sealed_in_portions(void **state)
{
    static const struct setup setup = {0};
    static char big[100 * 1024];
    struct buf plain = {0};

    (void)state;
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (char)(i * 7 + i / 256);
    connect_as(&setup);
    assert_int_equal(buf_append(&plain, MEM_LOOP, (struct str){big, sizeof big}), E_OK);
    assert_int_equal(tls_conn_send(server, &plain), E_OK);
    assert_true(buf_size(&server->out) >= TLS_CONN_SEALED_BYTES && buf_size(&server->out) < 2 * TLS_CONN_SEALED_BYTES);
    assert_true(buf_size(&plain) > 0);
    assert_true(tls_conn_pending(server) > 0);
    exchange();
    say(server, buf_str(&plain));
    assert_int_equal(n_client_got, sizeof big);
    assert_memory_equal(client_got, big, sizeof big);
    buf_free(&plain, MEM_LOOP);
    part();
}

static void a_record_that_comes_in_pieces_is_opened_when_it_is_whole(void **state)
{
    static const struct setup setup = {0};
    struct buf plain = {0};
    struct str sealed;
    size_t n, total = 0;

    (void)state;
    connect_as(&setup);
    assert_int_equal(buf_append(&plain, MEM_LOOP, STR("in pieces")), E_OK);
    assert_int_equal(tls_conn_send(client, &plain), E_OK);
    sealed = buf_str(&client->out);
    for (size_t i = 0; i < sealed.n; i++) {
        assert_int_equal(total, 0);
        assert_int_equal(tls_conn_receive(server, (struct str){sealed.p + i, 1}, server_got, PLAIN_BYTES, &n), TLS_STEP_MORE);
        total += n;
    }
    assert_int_equal(total, strlen("in pieces"));
    assert_memory_equal(server_got, "in pieces", total);
    buf_free(&plain, MEM_LOOP);
    part();
}

static void an_end_in_order_is_told_from_a_broken_record(void **state)
{
    static const struct setup setup = {0};
    uint64_t broken = atomic_load(&server_stats.broken);
    size_t n;

    (void)state;
    connect_as(&setup);
    say(client, STR("last words"));
    tls_conn_end(client);
    tls_conn_end(client); /* once is enough */
    exchange();
    assert_int_equal(server_step, TLS_STEP_END);
    assert_int_equal(atomic_load(&server_stats.broken), broken);
    part();
    connect_as(&setup);
    assert_int_equal(
        tls_conn_receive(server, STR("\x17\x03\x03\x00\x20 this is no record of theirs, is it"), server_got, PLAIN_BYTES, &n),
        TLS_STEP_FAILED);
    assert_true(server->is_broken);
    assert_int_equal(atomic_load(&server_stats.broken), broken + 1);
    assert_int_equal(tls_conn_receive(server, STR("x"), server_got, PLAIN_BYTES, &n), TLS_STEP_FAILED);
    part();
}

static void what_is_no_tls_is_refused(void **state)
{
    static const struct str texts[] = {STR_INIT("GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
                                       STR_INIT("\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00"),
                                       STR_INIT("\0\0\0\0\0\0\0\0\0\0\0\0")};
    static const struct setup setup = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        uint64_t before = atomic_load(&server_stats.failed[TLS_FAILED_NOT_TLS]);
        struct tls *tls = make_server(&setup);
        size_t n;

        assert_int_equal(tls_conn_new(tls, NULL, &server), E_OK);
        assert_int_equal(tls_conn_receive(server, texts[i], server_got, PLAIN_BYTES, &n), TLS_STEP_FAILED);
        assert_int_equal(atomic_load(&server_stats.failed[TLS_FAILED_NOT_TLS]), before + 1);
        tls_unref(tls);
        part();
    }
}

static void handshakes_under_way_are_bounded(void **state)
{
    static const struct setup setup = {0};
    struct tls *tls = make_server(&setup);
    struct tls_conn *conns[10], *more;
    uint64_t refused = atomic_load(&server_stats.refused), closed = atomic_load(&server_stats.failed[TLS_FAILED_CLOSED]);

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(conns); i++)
        assert_int_equal(tls_conn_new(tls, NULL, &conns[i]), E_OK);
    assert_int_equal(tls_conn_new(tls, NULL, &more), E_LIMIT);
    assert_int_equal(atomic_load(&server_stats.refused), refused + 1);
    tls_conn_give_up(conns[0], TLS_FAILED_TIMEOUT);
    assert_int_equal(tls_conn_new(tls, NULL, &more), E_OK);
    for (size_t i = 0; i < ARRAY_LEN(conns); i++)
        tls_conn_free(conns[i]);
    tls_conn_free(more);
    assert_int_equal(atomic_load(&server_stats.failed[TLS_FAILED_CLOSED]), closed + 10);
    tls_unref(tls);
    part();
}

/* --- sessions --- */

static int keep_session(SSL *ssl, SSL_SESSION *fresh)
{
    (void)ssl;
    SSL_SESSION_free(session);
    session = fresh;
    return 1;
}

/* A client that keeps its session. */
static struct tls *make_returning_client(const struct setup *setup, int max_version, SSL_CTX **out_context)
{
    struct tls *tls = make_client(setup);
    struct tls_conn *tc;
    SSL_CTX *context;

    assert_int_equal(tls_conn_new(tls, &(struct tls_server){.name = "server.example"}, &tc), E_OK);
    context = SSL_get_SSL_CTX(tc->ssl);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(context, keep_session);
    SSL_CTX_set_max_proto_version(context, max_version);
    SSL_CTX_clear_options(context, SSL_OP_NO_TICKET);
    tls_conn_free(tc);
    *out_context = context;
    return tls;
}

/* Connects to `first`, then again to `second`. Returns whether the session was resumed there. */
static bool is_resumed(const struct setup *first, const struct setup *second, int max_version)
{
    SSL_CTX *context;
    struct tls *client_tls = make_returning_client(first, max_version, &context);
    struct tls *tls = make_server(first);
    bool result;

    begin(tls, client_tls, NULL);
    say(server, STR("x")); /* behind the ticket */
    assert_true(server->is_ready);
    part();
    tls_unref(tls);
    tls = make_server(second);
    begin(tls, client_tls, NULL);
    result = server->is_ready && SSL_session_reused(server->ssl);
    if (result && first->client_cert) {
        assert_true(str_equal(tls_peer_of(server)->subject, STR("CN=device-1,O=Millrace")));
        assert_true(tls_peer_of(server)->is_resumed && tls_peer_of(server)->is_trusted);
    }
    part();
    tls_unref(tls);
    tls_unref(client_tls);
    SSL_SESSION_free(session);
    session = NULL;
    return result;
}

static void a_session_is_resumed_where_its_client_is_judged_alike(void **state)
{
    static const struct setup plain = {0}, with_ca = {.ca = "root.pem", .auth = TLS_CLIENT_REQUIRED, .client_cert = "device"},
                              with_crl = {.ca = "root.pem",
                                          .crl = "crl.pem",
                                          .auth = TLS_CLIENT_REQUIRED,
                                          .client_cert = "device"},
                              unjudged = {.auth = TLS_CLIENT_REQUIRED, .client_cert = "device"};
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        assert_true(is_resumed(&plain, &plain, versions[i]));
        assert_true(is_resumed(&with_ca, &with_ca, versions[i]));
        assert_true(is_resumed(&with_crl, &with_crl, versions[i]));
        assert_false(is_resumed(&plain, &with_ca, versions[i]));
        assert_false(is_resumed(&with_ca, &with_crl, versions[i])); /* may be revoked by now */
        assert_false(is_resumed(&unjudged, &unjudged, versions[i]));
    }
}

static void sessions_are_resumed_across_instances_with_the_same_keys_only(void **state)
{
    static const char *const texts[][2] = {
        {"0123456789abcdef0123456789abcdef\n", "0123456789abcdef0123456789abcdef\n"},
        {"0123456789abcdef0123456789abcdef\n", "# new\nfedcba9876543210fedcba9876543210\n\n0123456789abcdef0123456789abcdef\n"},
        {"0123456789abcdef0123456789abcdef\n", "fedcba9876543210fedcba9876543210\n"},
    };
    static const bool expected[] = {true, true, false};
    static const struct setup setup = {0};
    struct tls_tickets *own = tickets;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        SSL_CTX *context;
        struct tls *client_tls = make_returning_client(&setup, TLS1_3_VERSION, &context);

        for (int k = 0; k < 2; k++) {
            struct tls *tls;

            assert_int_equal(tls_tickets_parse(str_from(texts[i][k]), &tickets, NULL), E_OK);
            tls = make_server(&setup);
            tls_tickets_unref(tickets);
            begin(tls, client_tls, NULL);
            say(server, STR("x"));
            if (k == 1)
                assert_int_equal(SSL_session_reused(server->ssl), expected[i]);
            part();
            tls_unref(tls);
        }
        tls_unref(client_tls);
        SSL_SESSION_free(session);
        session = NULL;
    }
    tickets = own;
}

/* --- pre-shared keys --- */

static const unsigned char shared_key[16] = "sixteen bytes!!!";
static const char *offered_identity;
static const unsigned char *offered_key;
static unsigned n_lookups;

static size_t find_psk(void *context, struct str identity, unsigned char *to)
{
    assert_ptr_equal(context, &n_lookups);
    n_lookups++;
    if (!str_equal(identity, STR("sensor@demo")))
        return 0;
    memcpy(to, shared_key, sizeof shared_key);
    return sizeof shared_key;
}

static void release_psk(void *context)
{
    *(unsigned *)context = 0;
}

static unsigned give_psk(SSL *ssl, const char *hint, char *identity, unsigned room, unsigned char *key, unsigned key_room)
{
    (void)ssl;
    (void)hint;
    snprintf(identity, room, "%s", offered_identity);
    assert_true(key_room >= sizeof shared_key);
    memcpy(key, offered_key, sizeof shared_key);
    return sizeof shared_key;
}

static struct tls *make_psk_server(void)
{
    struct tls_options options = {
        .tickets = tickets,
        .find_psk = find_psk,
        .psk_context = &n_lookups,
        .psk_release = release_psk,
        .handshake_timeout_ms = 1000,
        .stats = &server_stats,
    };
    struct tls *tls;

    assert_int_equal(tls_new_server(&options, &tls, NULL), E_OK);
    return tls;
}

static void a_shared_key_is_proof_of_its_identity(void **state)
{
    static const unsigned char other_key[16] = "sixteen others!!";
    static const struct {
        const char *identity;
        const unsigned char *key;
        bool is_let_in;
    } rows[] = {{"sensor@demo", shared_key, true}, {"sensor@demo", other_key, false}, {"nobody", shared_key, false}};
    static const struct setup setup = {0};
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows) * ARRAY_LEN(versions); i++) {
        struct tls *tls = make_psk_server();
        SSL_CTX *context;
        struct tls *client_tls = make_returning_client(&setup, versions[i % 2], &context);

        offered_identity = rows[i / 2].identity;
        offered_key = rows[i / 2].key;
        SSL_CTX_set_psk_client_callback(context, give_psk);
        assert_int_equal(SSL_CTX_set_cipher_list(context, "PSK"), 1);
        for (int again = 0; again <= rows[i / 2].is_let_in; again++) { /* resumed, it is the same one */
            begin(tls, client_tls, NULL);
            assert_int_equal(server->is_ready, rows[i / 2].is_let_in);
            if (server->is_ready) {
                say(server, STR("x"));
                assert_true(str_equal(tls_peer_of(server)->psk_identity, STR("sensor@demo")));
            }
            part();
        }
        SSL_SESSION_free(session);
        session = NULL;
        assert_true(n_lookups > 0);
        tls_unref(tls);
        assert_int_equal(n_lookups, 0); /* released */
        tls_unref(client_tls);
    }
}

static int open_all(void **state)
{
    (void)state;
    tls_fixture_open();
    tickets = tls_tickets_new();
    root = identity_ca("root", NULL);
    intermediate = identity_ca("intermediate", &root);
    stranger_root = identity_ca("stranger root", NULL);
    server_id = identity_leaf("server", &root, "DNS:server.example,IP:127.0.0.1");
    other_id = identity_leaf("other", &root, "DNS:other.example,DNS:*.other.example");
    device = identity_leaf("device-1", &intermediate, NULL);
    stranger = identity_leaf("stranger", &stranger_root, NULL);
    expired = identity_new("expired", &root, false, NULL, -TLS_FIXTURE_DAY_S, -1);
    revoked = identity_leaf("revoked", &root, NULL);
    identity_write("server", &server_id, NULL);
    identity_write("other", &other_id, NULL);
    identity_write("device", &device, &intermediate);
    identity_write("stranger", &stranger, NULL);
    identity_write("expired", &expired, NULL);
    identity_write("revoked", &revoked, NULL);
    identity_write("root", &root, NULL);
    identity_write("intermediate", &intermediate, NULL);
    identity_write("stranger_root", &stranger_root, NULL);
    identity_write_crl("root.crl", &root, &revoked, TLS_FIXTURE_DAY_S);
    identity_write_crl("old.crl", &intermediate, NULL, -TLS_FIXTURE_DAY_S);
    /* Both lists in one file, as far as this helper goes. */
    identity_write_crl("crl.pem", &intermediate, NULL, TLS_FIXTURE_DAY_S);
    {
        char command[700];

        snprintf(command, sizeof command, "cat %s >> %s", tls_fixture_path("root.crl"), tls_fixture_path("crl.pem"));
        return system(command);
    }
}

static int close_all(void **state)
{
    struct identity *all[] = {&root,   &intermediate, &stranger_root, &server_id, &other_id,
                              &device, &stranger,     &expired,       &revoked};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        identity_free(all[i]);
    tls_tickets_unref(tickets);
    tls_fixture_close();
    return mem_used(MEM_LOOP) == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_is_let_in_or_refused),
        cmocka_unit_test(the_peer_is_known_by_its_certificate),
        cmocka_unit_test(a_certificate_that_nobody_here_judges_is_not_trusted),
        cmocka_unit_test(a_peer_without_certificate_has_a_server_name_only),
        cmocka_unit_test(the_names_of_a_certificate_can_be_asked_for_later),
        cmocka_unit_test(the_certificate_is_chosen_by_the_name_asked_for),
        cmocka_unit_test(large_output_is_sealed_in_portions),
        cmocka_unit_test(a_record_that_comes_in_pieces_is_opened_when_it_is_whole),
        cmocka_unit_test(an_end_in_order_is_told_from_a_broken_record),
        cmocka_unit_test(what_is_no_tls_is_refused),
        cmocka_unit_test(handshakes_under_way_are_bounded),
        cmocka_unit_test(a_session_is_resumed_where_its_client_is_judged_alike),
        cmocka_unit_test(sessions_are_resumed_across_instances_with_the_same_keys_only),
        cmocka_unit_test(a_shared_key_is_proof_of_its_identity),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
