/* Messages that a mapper rewrites, fails on, or keeps for too long. The mapper is a socket of the test's own. */
#include "integration/mqtt_rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"

enum { TURNS = 8, SERVERS = 2, FAR_MS = 5000 };

static struct mqtt_rig r;
static int servers[SERVERS]; /* listening, of the mappers m0 and m1 */
static char heard[4096];

static int listen_on_loopback(uint16_t *out_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *out_port = ntohs(address.sin_port);
    return fd;
}

/* With both mappers, each with 5 s, and up to three more settings. */
static void open_with(const char *a, const char *b, const char *c)
{
    uint16_t ports[SERVERS];
    char text[256];
    const char *settings[] = {text, a, b, c, NULL};

    for (int i = 0; i < SERVERS; i++)
        servers[i] = listen_on_loopback(&ports[i]);
    snprintf(text, sizeof text,
             "mappers={m0: {url: 'http://127.0.0.1:%u/map', timeout: 5s}, m1: {url: 'http://127.0.0.1:%u/', timeout: 5s}}",
             ports[0], ports[1]);
    mqtt_rig_open(&r, settings);
}

static int tear_down(void **state)
{
    (void)state;
    mqtt_rig_close(&r);
    assert_int_equal(mqtt_rig_metric("millrace_http_client_requests_in_flight", NULL), 0);
    assert_int_equal(mqtt_rig_metric("millrace_http_client_connections_open", NULL), 0);
    for (int i = 0; i < SERVERS; i++)
        close(servers[i]);
    return 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, tear_down)

static void turn(void)
{
    for (int i = 0; i < TURNS; i++)
        mqtt_rig_turn(&r);
}

/* The mapper's next connection. */
static int accept_at(int server)
{
    int fd;

    while ((fd = accept4(servers[server], NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) < 0)
        mqtt_rig_turn(&r);
    return fd;
}

/* Reads a request whose payload is `payload`, into `heard`. */
static void hear(int fd, const char *payload)
{
    size_t n = 0, k = strlen(payload);

    do {
        ssize_t got = read(fd, heard + n, sizeof heard - 1 - n);

        if (got == 0 || (got < 0 && errno != EAGAIN))
            fail_msg("the request ends: %s", heard);
        n += got > 0 ? (size_t)got : 0;
        heard[n] = '\0';
        mqtt_rig_turn(&r);
    } while (!strstr(heard, "\r\n\r\n") || n < k || strcmp(heard + n - k, payload) != 0);
}

static void expect_heard(const char *line)
{
    if (!strstr(heard, line))
        fail_msg("no '%s' in %s", line, heard);
}

static void reply(int fd, const char *status, const char *headers, const char *body)
{
    char text[1024];
    int n = snprintf(text, sizeof text, "HTTP/1.1 %s\r\nContent-Length: %zu\r\n%s\r\n%s", status, strlen(body), headers, body);

    assert_int_equal(write(fd, text, (size_t)n), n);
    turn();
}

static void login(struct mqtt_peer *p, uint8_t version, const char *user)
{
    mqtt_rig_accept(&r, 0, p);
    mqtt_peer_connect(p, &(struct mqtt_peer_connect){.version = version, .id = user, .user = user, .password = "pw"}, false);
}

static void publish(struct mqtt_peer *p, const char *topic, uint8_t qos, uint16_t id)
{
    mqtt_peer_publish(p, &(struct mqtt_peer_publish){.topic = topic, .payload = "raw", .qos = qos, .packet_id = id});
}

static void expect_text(struct str got, const char *want)
{
    if (!str_equal(got, str_from(want)))
        fail_msg("'%.*s' instead of '%s'", STR_ARG(got), want);
}

static void expect_header(size_t i, const char *name, const char *value)
{
    struct str got = fake_sink_header(fake_sink_record(&r.sink, i), str_from(name));

    if (value)
        expect_text(got, value);
    else
        assert_null(got.p);
}

static void expect_record(size_t i, const char *value)
{
    assert_true(i < fake_sink_count(&r.sink));
    expect_text(fake_sink_record(&r.sink, i)->value, value);
}

static void the_answer_takes_the_messages_place_and_kafka_acknowledges(void **state)
{
    struct mqtt_peer p;
    int fd;

    (void)state;
    open_with("tenants.t1.downstream-message-mapper=m0", NULL, NULL);
    fake_sink_hold(&r.sink);
    login(&p, 4, "d1@t1");
    publish(&p, "event/?content-type=text%2Fplain&hono-ttl=5", 1, 7);
    fd = accept_at(0);
    hear(fd, "raw");
    expect_heard("POST /map HTTP/1.1\r\n");
    expect_heard("\r\nContent-Type: text/plain\r\n");
    expect_heard("\r\norig_address: event/?content-type=text%2Fplain&hono-ttl=5\r\n");
    expect_heard("\r\ntenant_id: t1\r\ndevice_id: d1\r\nqos: 1\r\n");
    assert_null(strstr(heard, "gateway_id"));
    assert_int_equal(fake_sink_count(&r.sink), 0);
    reply(fd, "200 OK", "Content-Type: application/json\r\nplant: p1\r\nttl: 1\r\nDate: now\r\n", "{}");
    mqtt_peer_expect_nothing(&p); /* Kafka has not answered */
    expect_record(0, "{}");
    expect_header(0, "content-type", "application/json");
    expect_header(0, "device_id", "d1");
    expect_header(0, "plant", "p1");
    expect_header(0, "ttl", "5000");
    expect_header(0, "Date", NULL);
    fake_sink_release(&r.sink, SIZE_MAX);
    mqtt_peer_expect(&p, "40 02 00 07");
    mqtt_peer_close(&p);
    close(fd);
}

static void a_gateways_message_is_for_whom_the_mapper_says_if_it_may(void **state)
{
    struct mqtt_peer p;
    int fd;

    (void)state;
    open_with("tenants.t1.downstream-message-mapper=m0", "hono.gateway_id=true", NULL);
    login(&p, 5, "g1@t1");
    publish(&p, "t", 1, 1);
    fd = accept_at(0);
    hear(fd, "raw");
    reply(fd, "200 OK", "device_id: d2\r\n", "mapped");
    mqtt_peer_expect(&p, "40 02 00 01");
    expect_record(0, "mapped");
    expect_text(fake_sink_record(&r.sink, 0)->key, "d2");
    expect_header(0, "device_id", "d2");
    expect_header(0, "gateway_id", "g1");
    publish(&p, "t//d2", 1, 2);
    hear(fd, "raw");
    expect_heard("\r\ndevice_id: d2\r\ngateway_id: g1\r\n");
    reply(fd, "200 OK", "device_id: d3\r\n", "mapped");
    mqtt_peer_expect(&p, "40 03 00 02 87"); /* not its device */
    assert_int_equal(fake_sink_count(&r.sink), 1);
    mqtt_peer_close(&p);
    close(fd);
}

static void a_device_has_its_own_mapper_before_the_tenants(void **state)
{
    struct mqtt_peer p;
    int fds[2];

    (void)state;
    open_with("tenants.t1.downstream-message-mapper=m0", "tenants.t1.devices.d2.downstream-message-mapper=m1", NULL);
    login(&p, 4, "g1@t1");
    publish(&p, "t", 1, 1);
    fds[0] = accept_at(0);
    hear(fds[0], "raw");
    reply(fds[0], "200 OK", "", "zero");
    mqtt_peer_expect(&p, "40 02 00 01");
    publish(&p, "t//d2", 1, 2);
    fds[1] = accept_at(1);
    hear(fds[1], "raw");
    reply(fds[1], "200 OK", "", "one");
    mqtt_peer_expect(&p, "40 02 00 02");
    expect_record(0, "zero");
    expect_record(1, "one");
    mqtt_peer_close(&p);
    for (int i = 0; i < 2; i++)
        close(fds[i]);
}

static void whatever_is_not_200_is_told_as_503(void **state)
{
    static const char *const statuses[] = {"201 Created", "204 No Content", "302 Found", "404 Not Found", "500 No"};
    struct mqtt_peer p;
    int fd = -1;

    (void)state;
    open_with("tenants.t1.downstream-message-mapper=m0", NULL, NULL);
    login(&p, 5, "d1@t1");
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
        publish(&p, "t", 1, 1);
        if (fd < 0)
            fd = accept_at(0);
        hear(fd, "raw");
        reply(fd, statuses[i], "", "");
        mqtt_peer_expect(&p, "40 03 00 01 83");
    }
    mqtt_peer_close(&p);
    close(fd);
    login(&p, 4, "d1@t1");
    publish(&p, "t/?on-error=ignore", 1, 1);
    fd = accept_at(0); /* the other one was closed */
    hear(fd, "raw");
    reply(fd, "500 No", "", "");
    mqtt_peer_expect(&p, "40 02 00 01");
    publish(&p, "t", 1, 2);
    hear(fd, "raw");
    reply(fd, "500 No", "", "");
    mqtt_peer_expect_end(&p);
    mqtt_peer_close(&p);
    assert_int_equal(fake_sink_count(&r.sink), 0);
    close(fd);
}

static void a_mapper_that_takes_too_long_or_is_not_there_fails(void **state)
{
    struct mqtt_peer p;
    int fd;

    (void)state;
    open_with("tenants.t1.downstream-message-mapper=m0", NULL, NULL);
    login(&p, 5, "d1@t1");
    publish(&p, "t", 1, 1);
    fd = accept_at(0);
    hear(fd, "raw");
    mqtt_rig_pass_ms(&r, FAR_MS);
    mqtt_peer_expect(&p, "40 03 00 01 83");
    close(fd);
    shutdown(servers[0], SHUT_RDWR);
    publish(&p, "t", 1, 2);
    mqtt_peer_expect(&p, "40 03 00 02 83");
    assert_int_equal(fake_sink_count(&r.sink), 0);
    mqtt_peer_close(&p);
}

static void later_messages_of_the_same_client_wait_and_those_of_others_do_not(void **state)
{
    struct mqtt_peer p, other;
    int fd;

    (void)state;
    open_with("tenants.t1.devices.d1.downstream-message-mapper=m0", "to_kafka=[{mqtt: plain, topic: plain}]", NULL);
    login(&p, 4, "d1@t1");
    login(&other, 4, "g1@t1");
    publish(&p, "t", 1, 1);
    publish(&p, "plain", 1, 2);
    publish(&p, "t", 0, 0);
    fd = accept_at(0);
    hear(fd, "raw");
    publish(&other, "plain", 1, 1);
    mqtt_peer_expect(&other, "40 02 00 01");
    mqtt_peer_expect_nothing(&p);
    assert_int_equal(fake_sink_count(&r.sink), 1);
    reply(fd, "200 OK", "", "first");
    mqtt_peer_expect(&p, "40 02 00 01");
    mqtt_peer_expect(&p, "40 02 00 02");
    hear(fd, "raw");
    reply(fd, "200 OK", "", "third");
    expect_record(1, "first");
    expect_text(fake_sink_record(&r.sink, 2)->topic, "plain");
    expect_record(3, "third");
    mqtt_peer_close(&p);
    mqtt_peer_close(&other);
    close(fd);
}

static void an_answer_waits_for_kafkas_room_and_is_not_asked_for_again(void **state)
{
    struct mqtt_peer p;
    int fd;

    (void)state;
    open_with("tenants.t1.downstream-message-mapper=m0", NULL, NULL);
    fake_sink_set_room(&r.sink, 0);
    login(&p, 4, "d1@t1");
    publish(&p, "t", 2, 1);
    fd = accept_at(0);
    hear(fd, "raw");
    reply(fd, "200 OK", "", "mapped");
    mqtt_peer_expect_nothing(&p);
    fake_sink_set_room(&r.sink, SIZE_MAX);
    mqtt_peer_expect(&p, "50 02 00 01");
    mqtt_peer_send(&p, "62 02 00 01");
    mqtt_peer_expect(&p, "70 02 00 01");
    expect_record(0, "mapped");
    assert_int_equal(read(fd, heard, sizeof heard), -1);
    mqtt_peer_close(&p);
    close(fd);
}

static void a_rule_has_its_mapper_and_subscribers_get_what_was_published(void **state)
{
    struct mqtt_peer p;
    int fd;

    (void)state;
    open_with("to_kafka=[{mqtt: 'a/{x}', topic: 'a.{x}', mapper: m1}]", NULL, NULL);
    login(&p, 5, "d1@t1");
    mqtt_peer_subscribe(&p, "a/#", 0);
    mqtt_peer_send(&p, "32 ~~ 00 03 'a/b' 00 09 09 26 00 01 'k' 00 03 'old' 'raw'");
    fd = accept_at(1);
    hear(fd, "raw");
    expect_heard("\r\norig_address: a/b\r\ntenant_id: t1\r\ndevice_id: d1\r\nclient_id: d1@t1\r\nqos: 1\r\n");
    mqtt_peer_expect_nothing(&p);
    reply(fd, "200 OK", "content-type: text/csv\r\nk: new\r\nmqtt.hops: 7\r\n", "1;2");
    assert_int_equal(mqtt_peer_skip(&p), 0x30);
    mqtt_peer_expect(&p, "40 02 00 09");
    expect_record(0, "1;2");
    expect_text(fake_sink_record(&r.sink, 0)->topic, "a.b");
    expect_header(0, "content-type", "text/csv");
    expect_header(0, "k", "new"); /* the first one counts */
    expect_header(0, "mqtt.hops", "1");
    mqtt_peer_send(&p, "32 ~~ 00 03 'a/b' 00 0a 00 'raw'");
    hear(fd, "raw");
    reply(fd, "503 No", "", "");
    mqtt_peer_expect(&p, "40 03 00 0a 83");
    mqtt_peer_close(&p);
    close(fd);
}

static void a_will_is_mapped_too(void **state)
{
    static const char *const topics[] = {"event", "w"};
    struct mqtt_peer p;
    int fds[2];

    (void)state;
    open_with("tenants.t1.downstream-message-mapper=m0", "to_kafka=[{mqtt: w, topic: w, mapper: m1}]", NULL);
    for (int i = 0; i < 2; i++) {
        mqtt_rig_accept(&r, 0, &p);
        mqtt_peer_connect(
            &p, &(struct mqtt_peer_connect){.version = 4, .id = "d1", .user = "d1@t1", .password = "pw", .will = topics[i]},
            false);
        mqtt_peer_close(&p);
        fds[i] = accept_at(i);
        hear(fds[i], "gone");
        assert_int_equal(fake_sink_count(&r.sink), i);
        reply(fds[i], "200 OK", "", "mapped");
        expect_record((size_t)i, "mapped");
    }
    mqtt_rig_accept(&r, 0, &p);
    mqtt_peer_connect(
        &p, &(struct mqtt_peer_connect){.version = 4, .id = "d1", .user = "d1@t1", .password = "pw", .will = "event"}, false);
    mqtt_peer_close(&p);
    hear(fds[0], "gone"); /* and the adapter is taken down */
    for (int i = 0; i < 2; i++)
        close(fds[i]);
}

static void who_leaves_takes_its_question_back(void **state)
{
    struct mqtt_peer p;
    char byte;
    int fd;

    (void)state;
    open_with("tenants.t1.downstream-message-mapper=m0", NULL, NULL);
    login(&p, 4, "d1@t1");
    publish(&p, "t", 1, 1);
    fd = accept_at(0);
    hear(fd, "raw");
    mqtt_adapter_drain(r.adapter, &r.drained, &r.main.mailbox);
    while (!r.is_drained)
        mqtt_rig_turn(&r);
    mqtt_peer_expect_end(&p);
    turn();
    assert_int_equal(read(fd, &byte, 1), 0);
    assert_int_equal(fake_sink_count(&r.sink), 0);
    mqtt_peer_close(&p);
    close(fd);
}

static void a_question_outlives_the_configuration_that_asked_it(void **state)
{
    struct mqtt_peer p;
    int fd;

    (void)state;
    open_with("tenants.t1.downstream-message-mapper=m0", NULL, NULL);
    login(&p, 4, "d1@t1");
    publish(&p, "t", 1, 1);
    fd = accept_at(0);
    hear(fd, "raw");
    mqtt_rig_reload(&r, NULL, NULL); /* no mapper any more */
    reply(fd, "200 OK", "", "mapped");
    mqtt_peer_expect(&p, "40 02 00 01");
    publish(&p, "t", 1, 2);
    mqtt_peer_expect(&p, "40 02 00 02");
    expect_record(0, "raw"); /* each packet sees one configuration: that in which it is handled */
    expect_record(1, "raw");
    mqtt_peer_close(&p);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_answer_takes_the_messages_place_and_kafka_acknowledges),
        TEST(a_gateways_message_is_for_whom_the_mapper_says_if_it_may),
        TEST(a_device_has_its_own_mapper_before_the_tenants),
        TEST(whatever_is_not_200_is_told_as_503),
        TEST(a_mapper_that_takes_too_long_or_is_not_there_fails),
        TEST(later_messages_of_the_same_client_wait_and_those_of_others_do_not),
        TEST(an_answer_waits_for_kafkas_room_and_is_not_asked_for_again),
        TEST(a_rule_has_its_mapper_and_subscribers_get_what_was_published),
        TEST(a_will_is_mapped_too),
        TEST(who_leaves_takes_its_question_back),
        TEST(a_question_outlives_the_configuration_that_asked_it),
    };

    return cmocka_run_group_tests_name("mqtt_mapper", tests, NULL, NULL);
}
