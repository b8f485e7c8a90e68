/* Subscribers under a fan-out: one thread that accepts on every port given, answers each POST with 200 and counts it.
 *
 *     http_sink PORT...
 *
 * `GET /stats` on a port answers {"count": POSTs, "ids": the sum of their ce-id, "bytes": of their bodies} of that port, so that what was lost
 * or came twice is seen. Prints `ready` once it listens; ends with SIGTERM. */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "http_peer.h"

enum { MAX_SINKS = 16, MAX_EVENTS = 256, OUTPUT_BYTES = 64 << 10 };

struct sink {
    int fd;
    uint64_t count, ids, bytes;
};

struct conn {
    int fd;
    struct sink *sink;
    struct http_peer_input in;
};

/* Answers of one reading, sent together. */
struct output {
    char bytes[OUTPUT_BYTES];
    size_t n;
};

static struct sink sinks[MAX_SINKS];
static struct output output;

static const char accepted[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

static void answer_stats(const struct sink *sink)
{
    char body[200];
    int n =
        snprintf(body, sizeof body, "{\"count\": %lu, \"ids\": %lu, \"bytes\": %lu}\n", sink->count, sink->ids, sink->bytes);

    output.n += (size_t)snprintf(output.bytes + output.n, sizeof output.bytes - output.n,
                                 "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", n, body);
}

static void take_event(struct sink *sink, const struct http_peer_message *message)
{
    uint64_t id = 0;

    str_to_u64(http_peer_header(message->head, STR("ce-id")), UINT64_MAX, &id);
    sink->count++;
    sink->ids += id;
    sink->bytes += message->body.n;
    memcpy(output.bytes + output.n, accepted, sizeof accepted - 1);
    output.n += sizeof accepted - 1;
}

/* False when the peer does not take what it is sent: it is not one that measures. */
static bool flush_output(int fd)
{
    bool is_sent = output.n == 0 || send(fd, output.bytes, output.n, MSG_NOSIGNAL) == (ssize_t)output.n;

    output.n = 0;
    return is_sent;
}

static void serve(struct conn *c)
{
    bool is_open = http_peer_read(c->fd, &c->in);
    struct http_peer_message message;

    while (http_peer_take(&c->in, &message)) {
        if (str_starts_with(message.head, STR("GET /stats")))
            answer_stats(c->sink);
        else
            take_event(c->sink, &message);
        if (output.n > sizeof output.bytes - 512)
            is_open = flush_output(c->fd) && is_open;
    }
    if (flush_output(c->fd) && is_open)
        return;
    close(c->fd); /* leaves the epoll set with it */
    free(c);
}

static void watch(int epoll, int fd, void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};

    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        err(1, "epoll_ctl");
}

static void accept_all(int epoll, struct sink *sink)
{
    int fd;

    while ((fd = accept4(sink->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct conn *c = calloc(1, sizeof *c);

        if (!c)
            err(1, "memory");
        c->fd = fd;
        c->sink = sink;
        watch(epoll, fd, c);
    }
}

int main(int argc, char **argv)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event events[MAX_EVENTS];
    uint64_t port;

    if (argc < 2 || argc > MAX_SINKS + 1)
        errx(2, "usage: http_sink PORT...");
    for (int i = 1; i < argc; i++) {
        if (!str_to_u64(str_from(argv[i]), UINT16_MAX, &port))
            errx(2, "no port: %s", argv[i]);
        sinks[i - 1].fd = http_peer_listen((uint16_t)port);
        watch(epoll, sinks[i - 1].fd, &sinks[i - 1]);
    }
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        int n = epoll_wait(epoll, events, MAX_EVENTS, -1);

        for (int i = 0; i < n; i++) {
            struct sink *sink = events[i].data.ptr;

            if (sink >= sinks && sink < sinks + ARRAY_LEN(sinks))
                accept_all(epoll, sink);
            else
                serve(events[i].data.ptr);
        }
    }
}
