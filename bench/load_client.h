/* load_client: an MQTT 3.1.1 client that measures. It does as little as it can for a message, because it shares the machine with
 * what is measured: a PUBLISH is copied from a template, of a packet that comes only what is needed is read. It has no codec in
 * common with the server. One thread: that of its loop. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "loop/stream.h"

struct load_client;

struct load_client_ops {
    /* Accepted, and if there is a filter also subscribed. */
    void (*on_ready)(struct load_client *lc);
    /* A publish is done: PUBACK or PUBCOMP came, `waited_ns` after the time given to load_client_publish(). */
    void (*on_acknowledged)(struct load_client *lc, uint64_t waited_ns);
    /* A message came, published with the time `sent_ns` (0: it carries none). */
    void (*on_message)(struct load_client *lc, uint64_t sent_ns);
    /* With all of it instead; may be NULL. Views of the call. */
    void (*on_topic)(struct load_client *lc, struct str topic, struct str payload);
    /* Everything that came at once has been told. May be NULL. */
    void (*on_batch)(struct load_client *lc);
    /* Refused or closed, for a reason that people read. */
    void (*on_lost)(struct load_client *lc, const char *why);
};

enum { LOAD_CLIENT_MAX_WINDOW = 4096, LOAD_CLIENT_MIN_PAYLOAD = 8, LOAD_CLIENT_ID_BYTES = 24 };

struct load_client {
    struct stream stream;
    const struct load_client_ops *ops;
    void *owner;        /* the user's */
    const char *filter; /* NULL: a publisher */
    char *packet;       /* the PUBLISH to copy */
    uint64_t *sent_ns;  /* by packet identifier modulo LOAD_CLIENT_MAX_WINDOW */
    uint32_t packet_bytes, id_offset;
    uint32_t sent, acknowledged, received;
    uint16_t packet_id;
    uint8_t qos;
    bool is_ready;
};

struct load_client_login {
    const char *client_id;
    const char *user, *password; /* NULL: none */
    uint16_t keep_alive_s;
};

/* Connects to 127.0.0.1:`port` from the loopback address 127.0.0.`source` and sends CONNECT; with a `filter` it subscribes once
 * accepted. `lc` is zeroed but for `owner`; `ops` and `filter` live as long as it does. E_IO. */
MUST_USE err load_client_open(struct load_client *lc, struct loop *l, const struct load_client_ops *ops, uint16_t port,
                              uint8_t source, const struct load_client_login *login, const char *filter, uint8_t qos);

/* Makes the PUBLISH: a topic and `payload_bytes`, at least LOAD_CLIENT_MIN_PAYLOAD, which begin with the time it is sent. */
void load_client_prepare(struct load_client *lc, const char *topic, uint8_t qos, uint32_t payload_bytes);

/* Publishes once more, with the time from which its latency counts. At QoS 1 and 2 the caller keeps fewer than
 * LOAD_CLIENT_MAX_WINDOW unacknowledged. */
void load_client_publish(struct load_client *lc, uint64_t sent_ns);

/* Publishes something else, with QoS 1. */
void load_client_send(struct load_client *lc, struct str topic, struct str payload);

void load_client_free(struct load_client *lc);
