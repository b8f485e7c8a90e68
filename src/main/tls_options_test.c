#include "main/tls_options.h"

#include <string.h>

#include "base/mem.h"
#include "loop/tls.h"
#include "loop/tls_fixture.h"
#include "loop/tls_tickets.h"
#include "registry/registry.h"

#define MQTTS "listeners: [{mqtt: \"a:1\"}, {mqtts: \"a:2\", tls: {cert: server.pem, key: server.key%s}}]"

#define LINK "command: {routing: link, link: {listen: \"a:3\", tls: {cert: "

static struct identity root, server;
static char file[300]; /* of the configuration: paths are relative to its folder */
static struct config_errors errors;

static struct config *load(const char *text)
{
    char whole[1024];
    struct config_source source = {.name = file};
    struct config *config = NULL;

    snprintf(whole, sizeof whole, "kafka: {bootstrap: a}\n%s\n", text);
    source.text = str_from(whole);
    if (config_load(&source, &config, &errors) != E_OK)
        fail_msg("%s", errors.items[0].text);
    return config;
}

static err make(const char *text, struct tls_tickets *tickets, struct generation_tls *out)
{
    struct config *config = load(text);
    struct registry *registry = registry_new(config);
    err e;

    errors = (struct config_errors){0};
    e = tls_options_make(config, file, tickets, registry, out, &errors);
    registry_unref(registry);
    config_unref(config);
    return e;
}

static const char *mqtts(const char *more)
{
    static char text[512];

    snprintf(text, sizeof text, MQTTS, more);
    return text;
}

static void each_address_has_the_tls_that_is_asked_for(void **state)
{
    struct generation_tls set;

    (void)state;
    assert_int_equal(make(mqtts(", client_ca: root.pem, psk: true"), NULL, &set), E_OK);
    assert_int_equal(set.n_listeners, 2);
    assert_null(set.listeners[0]);
    assert_non_null(set.listeners[1]);
    assert_null(set.admin);
    assert_null(set.client); /* nothing here asks anybody */
    assert_non_null(set.tickets);
    assert_true(tls_options_not_after(&set) > 0);
    generation_free_tls(&set);
    assert_null(set.listeners);
    assert_int_equal(make("listeners: []\nadmin: {tls: {cert: server.pem, key: server.key}}", NULL, &set), E_OK);
    assert_non_null(set.admin);
    generation_free_tls(&set);
    assert_int_equal(make("listeners: []\nmappers: {m: {url: \"https://a/\"}}", NULL, &set), E_OK);
    assert_non_null(set.client);
    assert_null(set.link_server);
    generation_free_tls(&set);
    assert_int_equal(make("listeners: []\n" LINK "server.pem, key: server.key, client_ca: root.pem}}}", NULL, &set), E_OK);
    assert_non_null(set.link_server);
    assert_non_null(set.link_client);
    generation_free_tls(&set);
    assert_null(set.link_client);
}

static void what_is_no_good_is_told_with_the_address_and_the_file(void **state)
{
    static const struct {
        const char *text;
        unsigned line;
        const char *address, *what;
    } rows[] = {
        {"listeners: [{mqtts: \"a:1\", tls: {cert: nowhere.pem}}]", 2, "listeners[0].tls: ", "/nowhere.pem: No such file"},
        {"listeners: [{https: \"a:1\", tls: {cert: server.pem}}]", 2,
         "listeners[0].tls: ", "/server.pem: no private key in it"},
        {"listeners: [{https: \"a:1\", tls: {cert: server.pem, key: root.key}}]", 2,
         "listeners[0].tls: ", "/root.key: the key is not that of the certificate in "},
        {"listeners: [{https: \"a:1\", tls: {cert: server.key, key: server.key}}]", 2,
         "listeners[0].tls: ", "/server.key: no certificate in it"},
        {"listeners: [{https: \"a:1\", tls: {cert: server.pem, key: server.key, client_ca: server.key}}]", 2,
         "listeners[0].tls: ", "/server.key: no certificate in it"},
        {"listeners: [{https: \"a:1\", tls: {cert: server.pem, key: server.key, client_ca: root.pem, crl: root.pem}}]", 2,
         "listeners[0].tls: ", "/root.pem: no revocation list in it"},
        {"listeners: [{https: \"a:1\", tls: {cert: server.pem, key: server.key, ticket_keys: short}}]", 2,
         "listeners[0].tls: ", "/short: line 2: a key has at least 32 characters"},
        {"listeners: [{https: \"a:1\", tls: {cert: encrypted.pem}}]", 2,
         "listeners[0].tls: ", "/encrypted.pem: the key is encrypted"},
        {"listeners: []\nhttps_client: {ca: nowhere.pem}\nmappers: {m: {url: \"https://a/\"}}", 0,
         "https_client: ", "/nowhere.pem: No such file"},
        {"listeners: []\n" LINK "nowhere.pem, client_ca: root.pem}}}", 0, "command.link.tls: ", "/nowhere.pem: No such file"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct generation_tls set;

        assert_int_equal(make(rows[i].text, NULL, &set), E_INVAL);
        assert_int_equal(errors.count, 1);
        assert_int_equal(errors.items[0].line, rows[i].line);
        if (strncmp(errors.items[0].text, rows[i].address, strlen(rows[i].address)) != 0 ||
            !strstr(errors.items[0].text, rows[i].what))
            fail_msg("row %zu: %s", i, errors.items[0].text);
    }
}

static void a_change_in_a_file_makes_a_difference_and_nothing_else_does(void **state)
{
    struct generation_tls first, second;

    (void)state;
    tls_fixture_write("tickets", "0123456789abcdef0123456789abcdef\n");
    assert_int_equal(make(mqtts(", ticket_keys: tickets"), NULL, &first), E_OK);
    assert_int_equal(make(mqtts(", ticket_keys: tickets"), first.tickets, &second), E_OK);
    assert_true(tls_options_is_same(&first, &second));
    generation_free_tls(&second);
    tls_fixture_write("tickets", "another one of these, and longer than it has to be\n");
    assert_int_equal(make(mqtts(", ticket_keys: tickets"), first.tickets, &second), E_OK);
    assert_false(tls_options_is_same(&first, &second));
    generation_free_tls(&second);
    generation_free_tls(&first);
    assert_int_equal(make(mqtts(""), NULL, &first), E_OK);
    assert_int_equal(make(mqtts(""), first.tickets, &second), E_OK);
    assert_true(tls_options_is_same(&first, &second)); /* the process has one set of keys */
    generation_free_tls(&second);
    assert_int_equal(make(mqtts(", min_version: \"1.3\""), first.tickets, &second), E_OK);
    assert_false(tls_options_is_same(&first, &second));
    generation_free_tls(&second);
    identity_free(&server);
    server = identity_leaf("server", &root, "DNS:server.example");
    identity_write("server", &server, NULL);
    assert_int_equal(make(mqtts(""), first.tickets, &second), E_OK);
    assert_false(tls_options_is_same(&first, &second));
    generation_free_tls(&second);
    generation_free_tls(&first);
}

static void count(void *context, const char *path)
{
    (*(unsigned *)context)++;
    assert_int_equal(strncmp(path, tls_folder, strlen(tls_folder)), 0);
}

static void every_file_is_listed_with_its_whole_path(void **state)
{
    struct config *config =
        load("listeners: [{mqtts: \"a:1\", tls: {cert: [a, b], key: [c, d], client_ca: e, crl: f, ticket_keys: g}}]\n"
             "admin: {tls: {cert: h}}\nhttps_client: {ca: i, cert: j, key: k}");
    unsigned n = 0;

    (void)state;
    tls_options_list_files(config, file, count, &n);
    assert_int_equal(n, 11);
    config_unref(config);
}

static int open_all(void **state)
{
    FILE *f;

    (void)state;
    tls_fixture_open();
    snprintf(file, sizeof file, "%s", tls_fixture_path("millrace.yaml"));
    root = identity_ca("root", NULL);
    server = identity_leaf("server", &root, "DNS:server.example");
    identity_write("root", &root, NULL);
    identity_write("server", &server, NULL);
    tls_fixture_write("short", "# keys\ntoo short\n");
    f = fopen(tls_fixture_path("encrypted.pem"), "we");
    assert_non_null(f);
    PEM_write_X509(f, server.cert);
    PEM_write_PrivateKey(f, server.key, EVP_aes_256_cbc(), (const unsigned char *)"pw", 2, NULL, NULL);
    fclose(f);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    identity_free(&root);
    identity_free(&server);
    tls_fixture_close();
    return mem_used(MEM_CONFIG) == 0 && mem_used(MEM_LOOP) == 0 && mem_used(MEM_REGISTRY) == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_address_has_the_tls_that_is_asked_for),
        cmocka_unit_test(what_is_no_good_is_told_with_the_address_and_the_file),
        cmocka_unit_test(a_change_in_a_file_makes_a_difference_and_nothing_else_does),
        cmocka_unit_test(every_file_is_listed_with_its_whole_path),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
