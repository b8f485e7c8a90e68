/* CloudEvents in binary mode to an HTTP server, one thread.
 *
 *     http_load --port P [--host H] [--path P] [--connections N] [--seconds N] [--size BYTES] [--rate EVENTS/S] [--first ID]
 *
 * Without a rate every connection sends its next event when the last one was answered. With one, events are due at even intervals
 * whatever the server does, and latency counts from when one was due. The ids are numbers from --first on. Prints one line of
 * JSON; exit status 1 when an event was not answered with 2xx. */
#include <err.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "http_peer.h"
#include "latency.h"

enum { ID_DIGITS = 12, MAX_HEAD_BYTES = 1024, MAX_EVENTS = 256, SENDS_A_TURN = 64 };

#define NS_PER_S 1000000000ull

static const uint64_t patience_ns = 20 * NS_PER_S; /* for what is still unanswered at the end */

struct options {
    uint64_t port, connections, seconds, size, rate, first;
    const char *host, *path;
};

struct conn {
    struct conn *next_idle;
    int fd;
    uint64_t since_ns;
    struct http_peer_input in;
};

struct load {
    struct options options;
    int epoll;
    struct conn **conns, *idle;
    char *request; /* the template, with the id at `id_at` */
    size_t request_bytes, id_at;
    uint64_t began_ns, end_ns;
    uint64_t sent, answered, accepted;
    struct latency latency;
};

static void make_request(struct load *l)
{
    const struct options *o = &l->options;
    int head_bytes;

    l->request = malloc(MAX_HEAD_BYTES + o->size);
    if (!l->request)
        err(1, "memory");
    head_bytes =
        snprintf(l->request, MAX_HEAD_BYTES,
                 "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nce-specversion: 1.0\r\n"
                 "ce-type: com.example.measured\r\nce-source: /bench/load\r\nContent-Length: %lu\r\nce-id: %0*d\r\n\r\n",
                 o->path, o->host, o->size, ID_DIGITS, 0);
    if (head_bytes >= MAX_HEAD_BYTES)
        errx(2, "host or path is too long");
    l->id_at = (size_t)head_bytes - 4 - ID_DIGITS;
    memset(l->request + head_bytes, '1', o->size); /* which is JSON */
    l->request_bytes = (size_t)head_bytes + o->size;
}

static void send_event(struct load *l, struct conn *c, uint64_t since_ns)
{
    uint64_t id = l->options.first + l->sent;

    for (size_t i = ID_DIGITS; i > 0; i--, id /= 10)
        l->request[l->id_at + i - 1] = (char)('0' + id % 10);
    if (send(c->fd, l->request, l->request_bytes, MSG_NOSIGNAL) != (ssize_t)l->request_bytes)
        err(1, "send");
    c->since_ns = since_ns;
    l->sent++;
}

/* Whatever is due and finds a connection. */
static void send_due(struct load *l)
{
    const struct options *o = &l->options;
    uint64_t now = latency_clock_ns();

    for (int i = 0; i < SENDS_A_TURN && l->idle && now < l->end_ns; i++) {
        uint64_t due = o->rate ? l->began_ns + l->sent * NS_PER_S / o->rate : now;
        struct conn *c = l->idle;

        if (due > now)
            return;
        l->idle = c->next_idle;
        send_event(l, c, due);
    }
}

static void take_answer(struct load *l, struct conn *c)
{
    struct http_peer_message message;

    if (!http_peer_read(c->fd, &c->in))
        errx(1, "the server closed a connection after %lu answers", l->answered);
    if (!http_peer_take(&c->in, &message))
        return;
    latency_add(&l->latency, latency_clock_ns() - c->since_ns);
    l->answered++;
    l->accepted += str_starts_with(message.head, STR("HTTP/1.1 2"));
    c->next_idle = l->idle;
    l->idle = c;
}

/* Until the next event is due, or an answer comes. */
static struct timespec time_to_wait(const struct load *l)
{
    uint64_t now = latency_clock_ns(), until = now + NS_PER_S / 10;

    if (l->idle && now < l->end_ns)
        until = l->options.rate ? l->began_ns + l->sent * NS_PER_S / l->options.rate : now;
    until = until > now ? until - now : 0;
    return (struct timespec){(time_t)(until / NS_PER_S), (long)(until % NS_PER_S)};
}

static void run(struct load *l)
{
    struct epoll_event events[MAX_EVENTS];

    l->began_ns = latency_clock_ns();
    l->end_ns = l->began_ns + l->options.seconds * NS_PER_S;
    for (;;) {
        uint64_t now = latency_clock_ns();

        if (now >= l->end_ns && (l->answered == l->sent || now > l->end_ns + patience_ns))
            return;
        send_due(l);
        struct timespec wait = time_to_wait(l);
        int n = epoll_pwait2(l->epoll, events, MAX_EVENTS, &wait, NULL);
        for (int i = 0; i < n; i++)
            take_answer(l, events[i].data.ptr);
    }
}

static void connect_all(struct load *l)
{
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->conns = calloc(l->options.connections, sizeof *l->conns);
    for (uint64_t i = 0; i < l->options.connections; i++) {
        struct conn *c = l->conns[i] = calloc(1, sizeof *c);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};

        c->fd = http_peer_connect((uint16_t)l->options.port);
        c->next_idle = l->idle;
        l->idle = c;
        if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, c->fd, &event) != 0)
            err(1, "epoll_ctl");
    }
}

static bool parse(struct options *o, int argc, char **argv)
{
    static const struct option longs[] = {
        {"port", 1, NULL, 0},  {"connections", 1, NULL, 1}, {"seconds", 1, NULL, 2}, {"size", 1, NULL, 3}, {"rate", 1, NULL, 4},
        {"first", 1, NULL, 5}, {"host", 1, NULL, 6},        {"path", 1, NULL, 7},    {NULL, 0, NULL, 0},
    };
    uint64_t *const numbers[] = {&o->port, &o->connections, &o->seconds, &o->size, &o->rate, &o->first};
    static const uint64_t most[] = {UINT16_MAX, 10000, 3600, 64 << 10, 1000000, 1000000000};
    int which;

    while ((which = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        if (which == 6)
            o->host = optarg;
        else if (which == 7)
            o->path = optarg;
        else if (which == '?' || !str_to_u64(str_from(optarg), most[which], numbers[which]))
            return false;
    }
    return optind == argc && o->port && o->connections && o->seconds;
}

int main(int argc, char **argv)
{
    static struct load l = {.options = {.connections = 16, .seconds = 2, .size = 1024, .host = "127.0.0.1", .path = "/"}};
    double seconds;

    if (!parse(&l.options, argc, argv))
        errx(2, "usage: http_load --port P [--host H] [--path P] [--connections N] [--seconds N] [--size BYTES] [--rate N] "
                "[--first ID]");
    make_request(&l);
    connect_all(&l);
    run(&l);
    seconds = (double)(latency_clock_ns() - l.began_ns) / (double)NS_PER_S;
    printf("{\"sent\": %lu, \"answered\": %lu, \"accepted\": %lu, \"seconds\": %.3f, \"rate\": %.1f, ", l.sent, l.answered,
           l.accepted, seconds, (double)l.answered / seconds);
    latency_print(&l.latency);
    printf("}\n");
    return l.accepted != l.sent;
}
