/* listener: accepts TCP connections on one address for one loop. With several workers each has a listener of its own on
 * the address and the kernel spreads connections among them (SO_REUSEPORT). */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/str.h"
#include "loop/loop.h"

struct listener {
    struct io io;
    struct loop *loop;
    /* A new connection: non-blocking, close-on-exec, TCP_NODELAY. The callee owns the descriptor. */
    void (*on_accept)(struct listener *ln, int fd);
    struct timer retry; /* after the process ran out of descriptors */
    uint64_t accepted, accept_failures;
};

/* A numeric address and port, "127.0.0.1:1883", "[::1]:1883", "0.0.0.0:0" or "localhost:1883" (which is 127.0.0.1). E_INVAL
 * with the reason in `ei`; an IPv6 address needs its brackets, or its end would be taken for a port. Does not ask the network. */
MUST_USE err listener_parse(struct str text, struct sockaddr_storage *out_address, socklen_t *out_size, struct errinfo *ei);

/* Binds. With `is_shared` further listeners may bind the same address as long as none of them listens. E_BUSY: somebody listens
 * there, shared or not. E_IO: anything else. The caller has set on_accept. */
MUST_USE err listener_open(struct listener *ln, struct loop *l, const struct sockaddr_storage *address, socklen_t size,
                           bool is_shared, struct errinfo *ei);

/* Begins to accept. Before the loop's thread runs, or on it. E_BUSY: another one listens on the address (two may bind it as
 * long as none listens). E_IO: anything else. */
MUST_USE err listener_start(struct listener *ln, struct errinfo *ei);

/* Stops accepting and closes the socket; connections already accepted stay. No-op when closed. */
void listener_close(struct listener *ln);

/* The address it is bound to (with the real port where 0 was asked), as "127.0.0.1:1883", into `text`. */
void listener_name(const struct listener *ln, char *text, size_t size);

/* The same for another listener to bind. E_IO: it is closed. */
MUST_USE err listener_address(const struct listener *ln, struct sockaddr_storage *out_address, socklen_t *out_size);
