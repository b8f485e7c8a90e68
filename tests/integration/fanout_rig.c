#include "fanout_rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "fanout/fanout_config.h"
#include "obs/metrics.h"

struct rig rig;

enum { CONFIG_BYTES = 16384, SINK_IN_BYTES = 1 << 18 };

/* ---- what the fan-out tells ---- */

static void on_started(struct mail *m)
{
    (void)m;
    rig.is_started = true;
}

static void on_applied(struct mail *m)
{
    (void)m;
    rig.is_applied = true;
}

static void on_drained(struct mail *m)
{
    (void)m;
    rig.is_drained = true;
}

/* ---- subscribers ---- */

static int listen_on_loopback(uint16_t *out_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 64), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *out_port = ntohs(address.sin_port);
    return fd;
}

static size_t message_bytes(const char *text, size_t n)
{
    const char *end = n ? memmem(text, n, "\r\n\r\n", 4) : NULL, *length;
    size_t head, body;

    if (!end)
        return 0;
    head = (size_t)(end - text) + 4;
    length = rig_header(text, "Content-Length");
    body = length ? (size_t)atoi(length) : 0;
    return n >= head + body ? head + body : 0;
}

static void answer(struct rig_sink *s, int i)
{
    size_t at = s->n_answered < s->n_script ? s->n_answered : s->n_script - 1;
    const char *text = s->n_script ? s->script[at] : RIG_OK;

    if (s->is_silent || !s->is_owed[i])
        return;
    s->n_answered++;
    s->is_owed[i] = false;
    if (!text) { /* hangs up */
        close(s->fds[i]);
        s->fds[i] = -1;
        s->n_in[i] = 0;
        return;
    }
    assert_int_equal(send(s->fds[i], text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static void hear(struct rig_sink *s, int i)
{
    ssize_t n = read(s->fds[i], s->in[i] + s->n_in[i], SINK_IN_BYTES - s->n_in[i] - 1);
    size_t whole;

    if (n == 0 || (n < 0 && errno != EAGAIN)) {
        close(s->fds[i]);
        s->fds[i] = -1;
        s->n_in[i] = 0;
        s->is_owed[i] = false;
        return;
    }
    if (n < 0)
        return;
    s->n_in[i] += (size_t)n;
    s->in[i][s->n_in[i]] = '\0';
    whole = message_bytes(s->in[i], s->n_in[i]);
    if (!whole)
        return;
    assert_int_equal(whole, s->n_in[i]); /* one request after the other */
    assert_true(s->n_requests < RIG_REQUESTS);
    s->requests[s->n_requests++] = strdup(s->in[i]);
    s->n_in[i] = 0;
    s->is_owed[i] = true;
}

static void turn_sink(struct rig_sink *s)
{
    for (int i = 0; i < RIG_CONNS; i++) {
        if (s->fds[i] < 0) {
            s->fds[i] = accept4(s->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
            if (s->fds[i] >= 0 && !s->in[i])
                s->in[i] = malloc(SINK_IN_BYTES);
        }
        if (s->fds[i] >= 0)
            hear(s, i);
        if (s->fds[i] >= 0)
            answer(s, i);
    }
}

void rig_script(int sink, size_t n, const char *const *answers)
{
    struct rig_sink *s = &rig.sinks[sink - 1];

    assert_true(n <= RIG_SCRIPT);
    memcpy(s->script, answers, n * sizeof *answers);
    s->n_script = n;
    s->n_answered = 0;
}

/* ---- the fan-out ---- */

void rig_turn(void)
{
    for (unsigned i = 0; i < rig.workers.n; i++)
        loop_turn(&rig.workers.list[i].loop, 0);
    loop_turn(&rig.main, 0);
    for (int i = 0; i < RIG_SINKS; i++)
        turn_sink(&rig.sinks[i]);
}

static void open_fanout(void)
{
    static const char text[] = "fanout: {listen: '127.0.0.1:0'}\n";
    static struct config_errors errors;
    struct config_source source = {.text = str_from(text), .name = "rig.yaml"};
    struct fanout_settings settings = {.workers = &rig.workers, .sink = &rig.kafka.sink};
    struct errinfo ei = {0};
    char name[64];

    if (config_load(&source, &rig.config, &errors) != E_OK)
        fail_msg("%s", errors.items[0].text);
    settings.config = rig.config;
    if (fanout_open(&settings, &rig.fanout, &ei) != E_OK)
        fail_msg("%s", ei.text);
    fanout_name(rig.fanout, name, sizeof name);
    rig.port = (uint16_t)atoi(strrchr(name, ':') + 1);
}

int rig_set_up(void **state)
{
    (void)state;
    memset(&rig, 0, sizeof rig);
    rig.memory = mem_used(MEM_FANOUT);
    for (int i = 0; i < RIG_CLIENTS; i++)
        rig.clients[i] = -1;
    for (int i = 0; i < RIG_SINKS; i++) {
        rig.sinks[i].listener = listen_on_loopback(&rig.sinks[i].port);
        for (int j = 0; j < RIG_CONNS; j++)
            rig.sinks[i].fds[j] = -1;
    }
    fake_sink_init(&rig.kafka);
    assert_int_equal(loop_init(&rig.main, 1 << 20, NULL), E_OK);
    assert_int_equal(workers_init(&rig.workers, RIG_WORKERS, 1 << 20, NULL, NULL), E_OK);
    rig.started.on_mail = on_started;
    rig.applied.on_mail = on_applied;
    rig.drained.on_mail = on_drained;
    open_fanout();
    return 0;
}

static void close_sink(struct rig_sink *s)
{
    close(s->listener);
    for (int i = 0; i < RIG_CONNS; i++) {
        if (s->fds[i] >= 0)
            close(s->fds[i]);
        free(s->in[i]);
    }
    for (size_t i = 0; i < s->n_requests; i++)
        free(s->requests[i]);
}

int rig_tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < RIG_CLIENTS; i++)
        rig_hang_up(i);
    fanout_free(rig.fanout);
    workers_fini(&rig.workers);
    loop_fini(&rig.main);
    config_unref(rig.config);
    fake_sink_fini(&rig.kafka);
    for (int i = 0; i < RIG_SINKS; i++)
        close_sink(&rig.sinks[i]);
    return mem_used(MEM_FANOUT) == rig.memory ? 0 : -1;
}

/* Puts the addresses in. */
static struct str expand(const char *text)
{
    static char out[CONFIG_BYTES];
    size_t n = 0;

    for (; *text; text++) {
        if (*text == '$') {
            int sink = *++text - '0';
            int port = sink ? rig.sinks[sink - 1].port : 1;

            n += (size_t)snprintf(out + n, sizeof out - n, "http://127.0.0.1:%d", port);
        } else {
            out[n++] = *text;
        }
        assert_true(n < sizeof out - 64);
    }
    return (struct str){out, n};
}

void rig_use(const char *config_text)
{
    static uint64_t generation;
    static struct config_errors errors;
    struct fanout_abilities abilities = {.has_kafka = true};
    struct fanout_snapshot *snapshot;

    memset(&errors, 0, sizeof errors);
    if (fanout_config_build(expand(config_text), "rig.yaml", ++generation, &abilities, &snapshot, &errors) != E_OK)
        fail_msg("line %u: %s", errors.items[0].line, errors.items[0].text);
    if (!rig.is_started) {
        fanout_start(rig.fanout, snapshot, &rig.started, &rig.main.mailbox);
        rig_turn_until(rig.is_started);
    } else {
        rig.is_applied = false;
        fanout_apply(rig.fanout, snapshot, &rig.applied, &rig.main.mailbox);
        rig_turn_until(rig.is_applied);
    }
    fanout_snapshot_unref(snapshot);
}

/* ---- senders ---- */

static void open_client(int client)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(rig.port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    rig.clients[client] = fd;
}

void rig_send(int client, const char *request)
{
    if (rig.clients[client] < 0)
        open_client(client);
    assert_int_equal(write(rig.clients[client], request, strlen(request)), strlen(request));
}

void rig_post(int client, const char *headers, const char *body)
{
    static char text[RIG_TEXT_BYTES];
    int n = snprintf(text, sizeof text,
                     "POST /ns/c HTTP/1.1\r\nHost: h\r\nce-specversion: 1.0\r\nce-id: 1\r\nce-source: /s\r\nce-type: t\r\n"
                     "Content-Length: %zu\r\n%s\r\n%s",
                     strlen(body), headers, body);

    assert_true(n > 0 && (size_t)n < sizeof text);
    rig_send(client, text);
}

bool rig_has_answer(int client)
{
    struct pollfd p = {.fd = rig.clients[client], .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

const char *rig_wait(int client)
{
    uint64_t since_ms = loop_clock_ms();
    size_t n = 0;

    rig.text[0] = '\0';
    while (!message_bytes(rig.text, n)) {
        ssize_t got = read(rig.clients[client], rig.text + n, sizeof rig.text - n - 1);

        assert_true(got > 0 || (got < 0 && errno == EAGAIN));
        assert_true(loop_clock_ms() - since_ms < 20000);
        n += got > 0 ? (size_t)got : 0;
        rig.text[n] = '\0';
        rig_turn();
    }
    return rig.text;
}

int rig_status(int client)
{
    return atoi(rig_wait(client) + strlen("HTTP/1.1 "));
}

void rig_hang_up(int client)
{
    if (rig.clients[client] >= 0)
        close(rig.clients[client]);
    rig.clients[client] = -1;
}

/* ---- messages ---- */

const char *rig_header(const char *message, const char *name)
{
    static char values[8][2048];
    static unsigned turn;
    size_t n_name = strlen(name);
    const char *line = strstr(message, "\r\n");

    while (line && strncmp(line, "\r\n\r\n", 4) != 0) {
        line += 2;
        if (strncasecmp(line, name, n_name) == 0 && line[n_name] == ':') {
            char *value = values[turn++ % ARRAY_LEN(values)];

            line += n_name + 1 + (line[n_name + 1] == ' ');
            snprintf(value, sizeof values[0], "%.*s", (int)strcspn(line, "\r"), line);
            return value;
        }
        line = strstr(line, "\r\n");
    }
    return NULL;
}

const char *rig_body(const char *message)
{
    return strstr(message, "\r\n\r\n") + 4;
}
