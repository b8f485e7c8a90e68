/* mqtt_peer: the client's end of an MQTT connection, scripted byte by byte. What it sends and expects is written as the
 * specification's figures show it: pairs of hexadecimal digits and 'text in quotes'; `~~` is the count of all bytes behind it,
 * under 128. Waits by having the server's loops turned; a test that waits in vain fails. For tests only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct mqtt_peer {
    int fd; /* -1: closed */
    struct buf in;
    bool is_eof;
    void (*turn)(void *context); /* lets the server work */
    void *context;
    uint8_t version; /* of its CONNECT */
};

/* Takes over a connected descriptor. */
void mqtt_peer_init(struct mqtt_peer *p, int fd, void (*turn)(void *context), void *context);

/* Closes its end, if it is open, and drops what was not read. */
void mqtt_peer_close(struct mqtt_peer *p);

/* Sends bytes, waiting until they have been taken. */
void mqtt_peer_send(struct mqtt_peer *p, const char *text);
void mqtt_peer_send_bytes(struct mqtt_peer *p, struct str bytes);

/* Sends as much as is taken at once; returns how much. */
size_t mqtt_peer_try_send(struct mqtt_peer *p, struct str bytes);

/* The next bytes must be these. */
void mqtt_peer_expect(struct mqtt_peer *p, const char *text);

/* Nothing more may come now, and the connection is open. */
void mqtt_peer_expect_nothing(struct mqtt_peer *p);

/* The server closes, and nothing comes before that. */
void mqtt_peer_expect_end(struct mqtt_peer *p);

/* Waits for the next packet and drops it; its first byte. */
uint8_t mqtt_peer_skip(struct mqtt_peer *p);

/* The same, but its bytes go to `out`, which has room for `size`; how many. */
size_t mqtt_peer_take(struct mqtt_peer *p, void *out, size_t size);

/* Drops what there is, without waiting for more; how many bytes. */
size_t mqtt_peer_drop(struct mqtt_peer *p);

struct mqtt_peer_connect {
    uint8_t version; /* 4 or 5 */
    const char *id;  /* NULL: empty */
    const char *user, *password;
    bool is_persistent; /* no Clean Start; with 5.0 a Session Expiry of 1000 s */
    uint16_t keep_alive;
    const char *will; /* the topic; the payload is "gone", QoS 1 */
};

/* A CONNECT as bytes behind what is in `out`. */
void mqtt_peer_put_connect(struct buf *out, const struct mqtt_peer_connect *c);

/* Sends it and takes the CONNACK, which must say this. */
void mqtt_peer_connect(struct mqtt_peer *p, const struct mqtt_peer_connect *c, bool is_present);

struct mqtt_peer_publish {
    const char *topic, *payload;
    uint16_t packet_id;
    uint8_t qos;
    bool dup, retain;
    uint16_t alias; /* 0: none */
};

void mqtt_peer_put_publish(struct buf *out, uint8_t version, const struct mqtt_peer_publish *m);
void mqtt_peer_publish(struct mqtt_peer *p, const struct mqtt_peer_publish *m);

/* The next packet must be this PUBLISH, without properties. */
void mqtt_peer_expect_publish(struct mqtt_peer *p, const struct mqtt_peer_publish *m);

/* Subscribes to one filter and takes the SUBACK. */
void mqtt_peer_subscribe(struct mqtt_peer *p, const char *filter, uint8_t qos);
