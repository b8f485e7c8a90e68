#include "http_peer.h"

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"

enum { BACKLOG = 4096 };

bool http_peer_read(int fd, struct http_peer_input *in)
{
    ssize_t n;

    if (in->head == in->tail) {
        in->head = in->tail = 0;
    } else if (in->tail == sizeof in->bytes) {
        memmove(in->bytes, in->bytes + in->head, in->tail - in->head);
        in->tail -= in->head;
        in->head = 0;
    }
    n = read(fd, in->bytes + in->tail, sizeof in->bytes - in->tail);
    if (n > 0)
        in->tail += (size_t)n;
    return n > 0 || (n < 0 && errno == EAGAIN);
}

struct str http_peer_header(struct str head, struct str name)
{
    bool more = true;

    while (more) {
        struct str line = str_take(&head, '\n', &more);

        if (line.n <= name.n || line.p[name.n] != ':' || !str_equal_nocase((struct str){line.p, name.n}, name))
            continue;
        line = str_from_offset(line, name.n + 1);
        while (line.n && line.p[0] == ' ')
            line = str_from_offset(line, 1);
        while (line.n && line.p[line.n - 1] == '\r')
            line.n--;
        return line;
    }
    return (struct str){0};
}

bool http_peer_take(struct http_peer_input *in, struct http_peer_message *out_message)
{
    struct str all = {in->bytes + in->head, in->tail - in->head};
    const char *end = all.n ? memmem(all.p, all.n, "\r\n\r\n", 4) : NULL;
    uint64_t length = 0;

    if (!end)
        return false;
    out_message->head = (struct str){all.p, (size_t)(end - all.p) + 2};
    str_to_u64(http_peer_header(out_message->head, STR("content-length")), HTTP_PEER_BUFFER_BYTES, &length);
    out_message->body = (struct str){end + 4, (size_t)length};
    if (out_message->head.n + 2 + length > all.n)
        return false;
    in->head += out_message->head.n + 2 + length;
    return true;
}

static int open_socket(struct sockaddr_in *address, uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    if (fd < 0)
        err(1, "socket");
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

int http_peer_listen(uint16_t port)
{
    struct sockaddr_in address;
    int fd = open_socket(&address, port);

    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, BACKLOG) != 0)
        err(1, "port %u", port);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

int http_peer_connect(uint16_t port)
{
    struct sockaddr_in address;
    int fd = open_socket(&address, port);

    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        err(1, "port %u", port);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}
