#include "admin/manage.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "registry/table_fixture_test.h"

#include "admin/admin.h"
#include "admin/manage_call.h"
#include "config/config.h"
#include "loop/listener.h"
#include "registry/hash_pool.h"
#include "registry/registry_decide.h"

enum { TEXT_BYTES = 1 << 19, NAME_BYTES = 64 };

static const struct table_ops ops = {.decide = registry_decide};

static struct {
    struct loop loop;
    struct table table;
    struct hash_pool *pool;
    struct manage *manage;
    struct admin *admin;
    char name[NAME_BYTES], text[TEXT_BYTES], tag[MANAGE_TAG_BYTES];
    unsigned n_changes;
    char last_change[256];
} t;

static enum admin_readiness readiness(void *context)
{
    (void)context;
    return ADMIN_READY;
}

static void on_change(void *context, const struct manage_change *change)
{
    (void)context;
    t.n_changes++;
    snprintf(t.last_change, sizeof t.last_change, "%s %.*s %.*s by %.*s", registry_request_op_name(change->op),
             STR_ARG(change->tenant), STR_ARG(change->device), STR_ARG(change->user));
}

static int set_up(void **state)
{
    struct manage_options options = {
        .loop = &t.loop, .table = &t.table, .bcrypt_cost = 4, .bcrypt_max_cost = 10, .on_change = on_change};
    struct admin_probes probes = {.readiness = readiness};

    (void)state;
    t.table = (struct table){.ops = &ops};
    t.n_changes = 0;
    assert_int_equal(loop_init(&t.loop, 1 << 20, NULL), E_OK);
    assert_int_equal(hash_pool_start(1, &t.pool, NULL), E_OK);
    options.pool = t.pool;
    t.manage = manage_new(&options);
    probes.routes = manage_routes(t.manage, &probes.n_routes);
    assert_int_equal(admin_open(&t.loop, STR("127.0.0.1:0"), &probes, &t.admin, NULL), E_OK);
    admin_name(t.admin, t.name, sizeof t.name);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    admin_close(t.admin);
    loop_turn(&t.loop, 0);
    manage_free(t.manage);
    hash_pool_stop(t.pool);
    table_fixture_free(&t.table);
    loop_fini(&t.loop);
    return 0;
}

/* Sends a request and returns the status; the response is in t.text. */
static int ask(const char *method, const char *path, const char *headers, const char *body)
{
    static char request[1 << 17];
    struct sockaddr_storage address;
    socklen_t size;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t sent = 0, n = 0, total;
    ssize_t got = -1;
    char *tag;

    total = (size_t)snprintf(request, sizeof request,
                             "%s %s HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: %zu\r\n%s\r\n%s", method, path,
                             strlen(body), headers, body);
    assert_true(total < sizeof request);
    assert_int_equal(listener_parse(str_from(t.name), &address, &size, NULL), E_OK);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, size), 0);
    while (got != 0) {
        ssize_t k = sent < total ? send(fd, request + sent, total - sent, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;

        sent += k > 0 ? (size_t)k : 0;
        loop_turn(&t.loop, 1);
        got = recv(fd, t.text + n, sizeof t.text - n - 1, MSG_DONTWAIT);
        n += got > 0 ? (size_t)got : 0;
    }
    t.text[n] = '\0';
    close(fd);
    tag = strstr(t.text, "ETag: ");
    if (tag)
        snprintf(t.tag, sizeof t.tag, "%.*s", (int)strcspn(tag + 6, "\r"), tag + 6);
    return atoi(t.text + STR("HTTP/1.1 ").n);
}

static const char *body(void)
{
    return strstr(t.text, "\r\n\r\n") + 4;
}

static bool has(const char *what)
{
    return strstr(t.text, what) != NULL;
}

#define ASK(status, method, path, body) assert_int_equal(ask(method, path, "", body), status)

static void tenants_come_change_and_go(void **state)
{
    char if_match[128];

    (void)state;
    ASK(201, "POST", "/v1/tenants/t1", "");
    assert_true(has("\r\nLocation: /v1/tenants/t1\r\n") && has("\r\nETag: \"") && has("Content-Type: application/json"));
    assert_string_equal(body(), "{\"id\":\"t1\"}");
    assert_string_equal(t.last_change, "tenant-create t1  by anonymous");
    ASK(409, "POST", "/v1/tenants/t1", "{}");
    ASK(200, "GET", "/v1/tenants/t1", "");
    assert_string_equal(body(), "{}");
    snprintf(if_match, sizeof if_match, "If-Match: %s\r\n", t.tag);
    assert_int_equal(ask("PUT", "/v1/tenants/t1", if_match, "{\"enabled\":false}"), 204);
    assert_int_equal(ask("PUT", "/v1/tenants/t1", if_match, "{}"), 412);
    ASK(200, "GET", "/v1/tenants/t1", "");
    assert_string_equal(body(), "{\"enabled\":false}");
    ASK(201, "POST", "/v1/tenants", "{\"ext\":{\"a\":1}}");
    assert_int_equal(strlen(body()), strlen("{\"id\":\"\"}") + 36);
    ASK(200, "GET", "/v1/tenants?pageSize=1", "");
    assert_true(has("\"total\": 2") || has("\"total\":2"));
    assert_int_equal(ask("DELETE", "/v1/tenants/t1", if_match, ""), 412);
    ASK(204, "DELETE", "/v1/tenants/t1", "");
    ASK(404, "DELETE", "/v1/tenants/t1", "");
    ASK(404, "GET", "/v1/tenants/t1", "");
    assert_int_equal(t.n_changes, 4);
}

static void devices_and_their_credentials(void **state)
{
    char if_match[128];

    (void)state;
    ASK(404, "POST", "/v1/devices/t1/d1", "");
    ASK(201, "POST", "/v1/tenants/t1", "");
    ASK(201, "POST", "/v1/devices/t1/d1", "{\"via\":\"g1\"}");
    assert_true(has("\r\nLocation: /v1/devices/t1/d1\r\n"));
    ASK(201, "POST", "/v1/devices/t1", "");
    ASK(200, "GET", "/v1/devices/t1/d1", "");
    assert_true(has("\"via\":[\"g1\"]") && has("\"status\":{\"created\":\""));
    ASK(200, "GET", "/v1/credentials/t1/d1", "");
    assert_string_equal(body(), "[]");
    snprintf(if_match, sizeof if_match, "If-Match: %s\r\n", t.tag);
    assert_int_equal(
        ask("PUT", "/v1/credentials/t1/d1", if_match,
            "[{\"type\":\"hashed-password\",\"auth-id\":\"a1\",\"secrets\":[{\"pwd-plain\":\"geheim\",\"comment\":\"c\"}]}]"),
        204);
    assert_int_equal(ask("PUT", "/v1/credentials/t1/d1", if_match, "[]"), 412);
    ASK(200, "GET", "/v1/credentials/t1/d1", "");
    assert_true(has("\"comment\":\"c\"") && has("\"id\":\"") && !has("pwd") && !has("geheim") && !has("$2a$"));
    ASK(201, "POST", "/v1/devices/t1/d2", "");
    ASK(409, "PUT", "/v1/credentials/t1/d2",
        "[{\"type\":\"hashed-password\",\"auth-id\":\"a1\",\"secrets\":[{\"pwd-plain\":\"x\"}]}]");
    assert_true(has("\"field\":\"/0/auth-id\""));
    ASK(200, "GET", "/v1/devices/t1?isGateway=false&sortJson=%7B%22field%22%3A%22%2Fid%22%7D", "");
    ASK(404, "GET", "/v1/devices/t1?isGateway=true", "");
    ASK(204, "DELETE", "/v1/devices/t1/d1", "");
    ASK(404, "GET", "/v1/credentials/t1/d1", "");
    ASK(204, "DELETE", "/v1/devices/t1", "");
    ASK(404, "GET", "/v1/devices/t1", "");
    ASK(404, "DELETE", "/v1/devices/nobody", "");
}

static void bad_requests_are_told_and_change_nothing(void **state)
{
    static const struct {
        const char *method, *path, *headers, *body;
        int status;
        const char *says;
    } rows[] = {
        {"POST", "/v1/tenants/t2", "", "{", 400, "not JSON"},
        {"POST", "/v1/tenants/t2", "", "[]", 400, "must be an object"},
        {"POST", "/v1/tenants/t2", "", "{\"enabled\":1}", 400, "\"field\":\"/enabled\""},
        {"POST", "/v1/tenants/t2", "", "{\"a\":1,\"a\":1}", 400, "duplicate"},
        {"POST", "/v1/tenants/t2", "", "[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]", 400, "within each other"},
        {"POST", "/v1/tenants/t2", "Content-Type: text/plain\r\n", "{}", 415, "application/json"},
        {"POST", "/v1/tenants/a%2Fb", "", "{}", 400, "id of a tenant"},
        {"POST", "/v1/tenants/a%00b", "", "{}", 400, "path"},
        {"POST", "/v1/tenants/a%ffb", "", "{}", 400, "path"},
        {"POST", "/v1/tenants/a%2", "", "{}", 400, "path"},
        {"POST", "/v1/tenants/..", "", "{}", 400, "id of a tenant"},
        {"POST", "/v1/tenants/%2e%2e", "", "{}", 400, "id of a tenant"},
        {"POST", "/v1/devices/t1/a+b", "", "{}", 400, "id of a device"},
        {"PUT", "/v1/tenants/t1", "", "", 400, "missing"},
        {"PUT", "/v1/tenants/t1", "If-Match: \"x\"\r\n", "{}", 412, "version"},
        {"PUT", "/v1/tenants/t1", "If-Match: \r\n", "{}", 412, "version"},
        {"PUT", "/v1/credentials/t1/d1", "", "{}", 400, "must be a list"},
        {"GET", "/v1/devices/t1?pageSize=0", "", "", 400, "pageSize must be 1 to 200"},
        {"GET", "/v1/devices/t1?pageSize=201", "", "", 400, "pageSize"},
        {"GET", "/v1/devices/t1?pageOffset=-1", "", "", 400, "pageOffset"},
        {"GET", "/v1/devices/t1?pageOffset=99999999999999999999", "", "", 400, "pageOffset"},
        {"GET", "/v1/devices/t1?filterJson=%7", "", "", 400, "filterJson"},
        {"GET", "/v1/devices/t1?filterJson=x", "", "", 400, "not JSON"},
        {"GET", "/v1/devices/t1?isGateway=maybe", "", "", 400, "isGateway"},
        {"GET", "/v1/devices/nobody", "", "", 404, "no such tenant"},
        {"GET", "/v1/nothing", "", "", 404, "error"},
        {"PATCH", "/v1/tenants/t1", "", "{}", 405, "error"},
        {"GET", "/v1/devices/t1/d1/more", "", "", 404, "error"},
    };

    (void)state;
    ASK(201, "POST", "/v1/tenants/t1", "");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int status = ask(rows[i].method, rows[i].path, rows[i].headers, rows[i].body);

        if (status != rows[i].status || !has(rows[i].says))
            fail_msg("row %zu: %d %s", i, status, t.text);
    }
    assert_int_equal(t.table.count, 1);
}

static void a_large_body_is_refused(void **state)
{
    static char large[DOCUMENT_MAX_BYTES + 2];

    (void)state;
    memset(large, ' ', sizeof large - 1);
    ASK(413, "POST", "/v1/tenants/t1", large);
    assert_int_equal(t.table.count, 0);
    large[DOCUMENT_MAX_BYTES] = '\0';
    memcpy(large, "{}", 2);
    ASK(201, "POST", "/v1/tenants/t1", large);
}

static void what_the_table_cannot_do_is_told(void **state)
{
    static const struct {
        err result;
        int status;
    } rows[] = {{E_TIMEOUT, 503}, {E_BUSY, 503}, {E_CLOSED, 503}, {E_LIMIT, 413}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        t.table.next_result = rows[i].result;
        ASK(rows[i].status, "POST", "/v1/tenants/t1", "");
        assert_int_equal(has("\r\nRetry-After: 2\r\n"), rows[i].status == 503);
    }
}

static void users_may_do_what_their_role_says(void **state)
{
    static struct str own[] = {STR_INIT("t1")};
    static const struct config_admin_user users[] = {
        {.id = STR_INIT("root"), .password = STR_INIT("rootroot"), .role = CONFIG_ROLE_WRITE},
        {.id = STR_INIT("eye"), .token = STR_INIT("0123456789abcdef"), .role = CONFIG_ROLE_READ},
        {.id = STR_INIT("one"), .password = STR_INIT("pass:word"), .role = CONFIG_ROLE_WRITE, .tenants = {own, 1}},
    };
    static const struct {
        const char *headers, *method, *path;
        int status;
    } rows[] = {
        {"", "GET", "/v1/tenants/t1", 401},
        {"Authorization: Basic cm9vdDp3cm9uZw==\r\n", "GET", "/v1/tenants/t1", 401}, /* root:wrong */
        {"Authorization: Basic ZXllOg==\r\n", "GET", "/v1/tenants/t1", 401},         /* eye: */
        {"Authorization: Bearer \r\n", "GET", "/v1/tenants/t1", 401},
        {"Authorization: Bearer 0123456789abcdeX\r\n", "GET", "/v1/tenants/t1", 401},
        {"", "POST", "/v1/tenants/a%2fb", 401}, /* a stranger learns nothing */
        {"", "GET", "/v1/openapi.json", 200},
        {"Authorization: Basic cm9vdDpyb290cm9vdA==\r\n", "POST", "/v1/tenants/t1", 201}, /* root:rootroot */
        {"Authorization: Bearer 0123456789abcdef\r\n", "GET", "/v1/tenants/t1", 200},
        {"authorization: bearer 0123456789abcdef\r\n", "GET", "/v1/tenants", 200},
        {"Authorization: Bearer 0123456789abcdef\r\n", "DELETE", "/v1/tenants/t1", 403},
        {"Authorization: Basic b25lOnBhc3M6d29yZA==\r\n", "POST", "/v1/devices/t1/d1", 201}, /* one:pass:word */
        {"Authorization: Basic b25lOnBhc3M6d29yZA==\r\n", "GET", "/v1/devices/t2/d1", 403},
        {"Authorization: Basic b25lOnBhc3M6d29yZA==\r\n", "GET", "/v1/tenants", 403},
        {"Authorization: Basic b25lOnBhc3M6d29yZA==\r\n", "POST", "/v1/tenants", 403},
    };

    (void)state;
    manage_use_users(t.manage, users, ARRAY_LEN(users));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int status = ask(rows[i].method, rows[i].path, rows[i].headers, "");

        if (status != rows[i].status || has("WWW-Authenticate: ") != (status == 401))
            fail_msg("row %zu: %d %s", i, status, t.text);
    }
    assert_string_equal(t.last_change, "device-create t1 d1 by one");
}

static void many_devices_come_and_go_as_lines(void **state)
{
    static char copy[1 << 16];

    (void)state;
    ASK(404, "POST", "/v1/import/t1", "{\"id\":\"d1\"}");
    ASK(201, "POST", "/v1/tenants/t1", "");
    ASK(200, "POST", "/v1/import/t1",
        "{\"id\":\"d1\",\"device\":{\"via\":\"g\"},\"credentials\":[{\"type\":\"hashed-password\",\"auth-id\":\"a1\","
        "\"secrets\":[{\"pwd-plain\":\"x\"}]}]}\r\n"
        "\n"
        "{\"id\":\"d2\",\"credentials\":[{\"type\":\"psk\",\"auth-id\":\"a2\",\"secrets\":[{\"id\":\"own\",\"key\":\"AAAA\"}]}]"
        "}\n"
        "nonsense\n{\"id\":\"d 3\"}\n{\"id\":\"d3\",\"x\":1}\n{\"id\":\"d3\",\"device\":{\"enabled\":1}}\n"
        "{\"id\":\"d3\",\"credentials\":[{\"type\":\"psk\",\"auth-id\":\"a2\",\"secrets\":[{\"key\":\"AAAA\"}]}]}");
    assert_true(has("\"existing\":0") && has("\"failed\":5"));
    assert_true(has("\"created\":2"));
    assert_true(has("\"line\":8,\"status\":409") && has("\"line\":7,\"status\":400") && has("\"field\":\"/enabled\""));
    ASK(200, "POST", "/v1/import/t1", "{\"id\":\"d1\"}");
    assert_true(has("\"existing\":1") && has("\"created\":0"));
    ASK(200, "GET", "/v1/export/t1?limit=1", "");
    assert_true(has("\r\nMillrace-Next: d1\r\n") && has("\"id\":\"d1\"") && !has("\"d2\"") && !has("$2a$"));
    ASK(200, "GET", "/v1/export/t1?after=d1", "");
    assert_true(!has("Millrace-Next") && has("\"id\":\"d2\"") && !has("AAAA"));
    ASK(200, "GET", "/v1/export/t1?secrets=true", "");
    assert_true(has("AAAA") && has("$2a$"));
    strcpy(copy, body());
    ASK(204, "DELETE", "/v1/devices/t1", "");
    ASK(200, "POST", "/v1/import/t1", copy);
    assert_true(has("\"created\":2") && has("\"failed\":0"));
    ASK(200, "GET", "/v1/export/t1?secrets=true", "");
    assert_string_equal(body(), copy);
    ASK(400, "GET", "/v1/export/t1?limit=0", "");
    ASK(404, "GET", "/v1/export/t9", "");
}

#define LINE(id, device, auth_id, key)                                                                                         \
    "{\"id\":\"" id "\",\"device\":{" device "},\"credentials\":[{\"type\":\"psk\",\"auth-id\":\"" auth_id                     \
    "\",\"secrets\":[{\"key\":\"" key "\"}]}]}\n"

/* Whether the last import's lines came to this; together they are all. */
static bool came_to(int created, int updated, int unchanged, int existing, int failed)
{
    const int counts[] = {created, updated, unchanged, existing, failed};
    static const char *const names[] = {"created", "updated", "unchanged", "existing", "failed"};
    char text[32];

    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        snprintf(text, sizeof text, "\"%s\":%d", names[i], counts[i]);
        if (!has(text))
            return false;
    }
    return true;
}

static void what_is_there_is_compared_and_replaced_if_asked_for(void **state)
{
    static const char lines[] = LINE("d1", "", "a1", "AAAA") LINE("d2", "\"via\":\"d1\"", "a2", "AAAA") "{\"id\":\"d3\"}\n";
    static const char others[] = LINE("d1", "", "a1", "AAAA") LINE("d2", "", "a2", "AAAA") LINE("d3", "", "a3", "BBBB")
        LINE("d4", "", "a1", "AAAA") LINE("d1", "\"x\":1", "a1", "AAAA");

    (void)state;
    ASK(200, "POST", "/v1/import/t1?dry-run=true", lines);
    assert_true(came_to(3, 0, 0, 0, 0));
    ASK(201, "POST", "/v1/tenants/t1", "");
    ASK(200, "POST", "/v1/import/t1?dry-run=true", lines);
    assert_true(came_to(3, 0, 0, 0, 0));
    ASK(404, "GET", "/v1/devices/t1/d1", "");
    ASK(200, "POST", "/v1/import/t1", lines);
    assert_true(came_to(3, 0, 0, 0, 0));
    ASK(200, "POST", "/v1/import/t1?existing=update&dry-run=false", lines);
    assert_true(came_to(0, 0, 3, 0, 0));

    ASK(200, "POST", "/v1/import/t1?existing=keep", others);
    assert_true(came_to(0, 0, 1, 2, 2) && has("/x"));
    ASK(200, "POST", "/v1/import/t1?existing=update&dry-run=true", others);
    assert_true(came_to(0, 2, 1, 0, 2) && has("/credentials/0/auth-id"));
    ASK(200, "GET", "/v1/devices/t1/d2", "");
    assert_true(has("\"via\""));
    ASK(200, "POST", "/v1/import/t1?existing=update", others);
    assert_true(came_to(0, 2, 1, 0, 2));
    assert_string_equal(t.last_change, "credentials-update t1 d3 by anonymous");
    ASK(200, "GET", "/v1/devices/t1/d2", "");
    assert_true(!has("\"via\""));
    ASK(200, "GET", "/v1/credentials/t1/d3", "");
    assert_true(has("\"a3\""));
    ASK(200, "POST", "/v1/import/t1?existing=update", LINE("d3", "\"ext\":{}", "a3", "CCCC"));
    assert_true(came_to(0, 1, 0, 0, 0));
    ASK(200, "POST", "/v1/import/t1", LINE("d3", "\"ext\":{}", "a3", "CCCC"));
    assert_true(came_to(0, 0, 1, 0, 0));

    ASK(400, "POST", "/v1/import/t1?existing=yes", lines);
    ASK(400, "POST", "/v1/import/t1?dry-run=1", lines);
}

/* More than an import has hashed at a time, with a line among them that has none. */
static void many_passwords_of_an_import_are_hashed(void **state)
{
    enum { LINES = 100 };
    static char lines[LINES * 128];
    size_t n = 0;

    (void)state;
    ASK(201, "POST", "/v1/tenants/t1", "");
    for (int i = 0; i < LINES; i++)
        n += (size_t)snprintf(lines + n, sizeof lines - n,
                              i == LINES / 2
                                  ? "{\"id\":\"d%d\"}\n"
                                  : "{\"id\":\"d%d\",\"credentials\":[{\"type\":\"hashed-password\",\"auth-id\":\"a%d\","
                                    "\"secrets\":[{\"pwd-plain\":\"x\"}]}]}\n",
                              i, i);
    assert_true(n < sizeof lines - 1);
    ASK(200, "POST", "/v1/import/t1", lines);
    assert_true(has("\"created\":100") && has("\"failed\":0"));
    ASK(200, "GET", "/v1/credentials/t1/d99", "");
    assert_true(has("\"auth-id\":\"a99\""));
}

static void the_description_has_every_operation(void **state)
{
    json_t *document, *paths;

    (void)state;
    ASK(200, "GET", "/v1/openapi.json", "");
    document = json_loads(body(), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(document);
    paths = json_object_get(document, "paths");
    for (size_t i = 0; i < manage_operation_count; i++)
        if (manage_operations[i].body != MANAGE_BODY_LINES && !(manage_operations[i].parameters & MANAGE_CHUNK))
            assert_non_null(json_object_get(paths, manage_operations[i].path));
    json_decref(document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        TEST(tenants_come_change_and_go),
        TEST(devices_and_their_credentials),
        TEST(bad_requests_are_told_and_change_nothing),
        TEST(a_large_body_is_refused),
        TEST(what_the_table_cannot_do_is_told),
        TEST(users_may_do_what_their_role_says),
        TEST(many_devices_come_and_go_as_lines),
        TEST(what_is_there_is_compared_and_replaced_if_asked_for),
        TEST(many_passwords_of_an_import_are_hashed),
        TEST(the_description_has_every_operation),
    };

    return cmocka_run_group_tests_name("manage", tests, NULL, NULL);
}
