/* command_link: the transport of the routing design link: connections with mutual TLS between instances (docs/wire/link.md).
 *
 * Each worker has a connection of its own to each incarnation that it sends to, a *channel*: its frames are numbered and kept until the
 * other side has acknowledged them, over however many connections that takes; so they arrive in order and none is lost as long as both
 * live. Who receives tells by number what it has, and gives each frame to the worker of its tenant.
 *
 * A channel keeps a bounded number of bytes. Sending by one that is full is E_IO, never E_AGAIN, which would keep others waiting for one
 * peer; on_room() tells when one has room again. */
#pragma once

#include "command/command_transport.h"
#include "loop/worker.h"

struct tls;

/* The protocol that is agreed on in the handshake (RFC 7301). */
#define COMMAND_LINK_ALPN "millrace-link"

/* What the link must know of the rest; all borrowed but for the texts and the TLS, of which references are taken. */
struct command_link_settings {
    struct workers *workers;            /* prepared, not started */
    struct command_transport_user user; /* may be set later: command_link_set_user() */
    struct str instance;                /* this one's name */
    struct str listen;                  /* a numeric address and port */
    struct str advertise; /* HOST:PORT by which others reach that; empty: `host` and the port that is listened at */
    struct str host;      /* this machine's name */
    struct tls *server;   /* requires and checks certificates of clients */
    struct tls *client;   /* shows ours */
    void *context;        /* of what follows */
    /* The worker of a tenant. Any thread. */
    unsigned (*worker_of)(void *context, struct str tenant);
    /* The address of an incarnation that lives, empty when it has none; `p` NULL: it does not live. On that worker's thread; borrowed
     * until its next event. */
    struct str (*address_of)(void *context, unsigned worker, const struct command_peer *peer);
    unsigned heartbeat_ms; /* 0: 1000; a peer that says nothing for three of them is dead */
    unsigned retry_ms;     /* 0: 100; before the second attempt to connect, then twice as long each time up to 20 times this */
};

/* Binds the address; registers metrics: before the threads start. The caller owns `*out_transport`, written only on success, and gives
 * it to its `free` after the workers have stopped. E_INVAL, E_BUSY, E_IO: the reason is in `ei`. */
MUST_USE err command_link_new(const struct command_link_settings *settings, struct command_transport **out_transport,
                              struct errinfo *ei);

/* Who is told; before `start`, and before anything is sent. */
void command_link_set_user(struct command_transport *transport, const struct command_transport_user *user);

/* HOST:PORT for the lease. Lives as long as the transport. Any thread. */
struct str command_link_address(struct command_transport *transport);

/* What connections are made with from now on; references are taken. Any thread. */
void command_link_use_tls(struct command_transport *transport, struct tls *server, struct tls *client);
