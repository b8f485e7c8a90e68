#include "loop/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/check.h"

/* ACCEPTS_PER_TURN keeps a storm of connections from starving those that are there; RETRY_MS is how long to look away when
 * no descriptor is free, since a level-triggered listener would else spin. */
enum { BACKLOG = 4096, ACCEPTS_PER_TURN = 64, RETRY_MS = 100, PORT_MAX = 65535, HOST_MAX = 64 };

static bool set_host(struct str host, uint16_t port, struct sockaddr_storage *out, socklen_t *out_size)
{
    bool is_v6 = host.n >= 2 && host.p[0] == '[' && host.p[host.n - 1] == ']';
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct str name = is_v6 ? (struct str){host.p + 1, host.n - 2} : host;
    char text[HOST_MAX] = "";

    if (str_equal(host, STR("localhost")))
        name = STR("127.0.0.1");
    if (name.n == 0 || name.n >= sizeof text || memchr(name.p, '\0', name.n))
        return false;
    memcpy(text, name.p, name.n);
    if (inet_pton(is_v6 ? AF_INET6 : AF_INET, text, is_v6 ? (void *)&v6.sin6_addr : (void *)&v4.sin_addr) != 1)
        return false;
    memset(out, 0, sizeof *out);
    *out_size = is_v6 ? sizeof v6 : sizeof v4;
    memcpy(out, is_v6 ? (void *)&v6 : (void *)&v4, *out_size);
    return true;
}

err listener_parse(struct str text, struct sockaddr_storage *out_address, socklen_t *out_size, struct errinfo *ei)
{
    const char *colon = text.n ? memrchr(text.p, ':', text.n) : NULL;
    struct str host, port_text;
    uint64_t port;

    if (!colon)
        return errinfo_set(ei, E_INVAL, "'%.*s' has no port: write HOST:PORT", STR_ARG(text));
    host = (struct str){text.p, (size_t)(colon - text.p)};
    port_text = str_from_offset(text, host.n + 1);
    if (!str_to_u64(port_text, PORT_MAX, &port))
        return errinfo_set(ei, E_INVAL, "'%.*s' is no port: 0 to 65535", STR_ARG(port_text));
    if (!set_host(host, (uint16_t)port, out_address, out_size))
        return errinfo_set(ei, E_INVAL, "'%.*s' is no numeric address (IPv6 in brackets)", STR_ARG(host));
    return E_OK;
}

static void on_retry(struct timer *t)
{
    struct listener *ln = CONTAINER_OF(t, struct listener, retry);

    if (ln->io.fd >= 0)
        loop_rewatch(ln->loop, &ln->io, EPOLLIN);
}

static void on_io(struct io *io, uint32_t events)
{
    struct listener *ln = CONTAINER_OF(io, struct listener, io);

    (void)events;
    for (int i = 0; i < ACCEPTS_PER_TURN && ln->io.fd >= 0; i++) {
        int fd = accept4(io->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)); /* slower, not wrong, without it */
            ln->accepted++;
            ln->on_accept(ln, fd);
        } else if (errno == EAGAIN) {
            return;
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            ln->accept_failures++;
            loop_rewatch(ln->loop, io, 0);
            wheel_start(&ln->loop->wheel, &ln->retry, RETRY_MS);
            return;
        }
        /* Anything else concerns the one connection that has gone again. */
    }
}

/* A socket bound to the address, or -1 with errno. */
static int bind_socket(const struct sockaddr_storage *address, socklen_t size, bool is_shared)
{
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), why;

    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) == 0 &&
        (!is_shared || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &(int){1}, sizeof(int)) == 0) &&
        bind(fd, (const struct sockaddr *)address, size) == 0)
        return fd;
    why = errno;
    if (fd >= 0)
        close(fd);
    errno = why;
    return -1;
}

err listener_open(struct listener *ln, struct loop *l, const struct sockaddr_storage *address, socklen_t size, bool is_shared,
                  struct errinfo *ei)
{
    /* Another process may share the port with us too, and would take half of our clients. Without SO_REUSEPORT the address is
     * refused as soon as anybody listens there; ours do not yet. */
    int fd = bind_socket(address, size, false);

    if (fd >= 0 && is_shared) {
        close(fd);
        fd = bind_socket(address, size, true);
    }
    ln->loop = l;
    ln->io = (struct io){.fd = fd, .on_io = on_io};
    ln->retry = (struct timer){.on_timer = on_retry};
    if (fd < 0)
        return errinfo_set(ei, errno == EADDRINUSE ? E_BUSY : E_IO, "%s", strerror(errno));
    return E_OK;
}

err listener_start(struct listener *ln, struct errinfo *ei)
{
    if (listen(ln->io.fd, BACKLOG) != 0)
        return errinfo_set(ei, errno == EADDRINUSE ? E_BUSY : E_IO, "%s", strerror(errno));
    if (loop_watch(ln->loop, &ln->io, EPOLLIN) != E_OK)
        return errinfo_set(ei, E_IO, "%s", strerror(errno));
    return E_OK;
}

void listener_close(struct listener *ln)
{
    if (ln->io.fd < 0 || !ln->loop)
        return;
    if (ln->io.events || wheel_is_set(&ln->retry))
        loop_unwatch(ln->loop, &ln->io);
    wheel_stop(&ln->retry);
    close(ln->io.fd);
    ln->io.fd = -1;
}

void listener_name(const struct listener *ln, char *text, size_t size)
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    char host[INET6_ADDRSTRLEN] = "";

    if (getsockname(ln->io.fd, (struct sockaddr *)&address, &length) != 0) {
        snprintf(text, size, "closed");
    } else if (address.ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address;

        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
        snprintf(text, size, "[%s]:%u", host, ntohs(v6->sin6_port));
    } else {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address;

        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
        snprintf(text, size, "%s:%u", host, ntohs(v4->sin_port));
    }
}

err listener_address(const struct listener *ln, struct sockaddr_storage *out_address, socklen_t *out_size)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;

    if (getsockname(ln->io.fd, (struct sockaddr *)&address, &size) != 0)
        return E_IO;
    *out_address = address;
    *out_size = size;
    return E_OK;
}
