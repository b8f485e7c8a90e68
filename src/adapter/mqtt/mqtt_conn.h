/* mqtt_conn: one client's connection: bytes to packets, packets to handlers, and how it ends.
 *
 *   WAIT_CONNECT --CONNECT--> OPEN --anything--> CLOSING --> gone at the end of a turn
 *        |                     ^
 *        +--- handed over -----+  (the CONNECT is decoded again on the home worker)
 *
 * A handler answers with HANDLE_WAIT when a packet cannot be processed now: the packet stays where it is, nothing behind it
 * is looked at, and reading goes on once mqtt_conn_resume() is called. One thread: the worker it is on. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "adapter/mqtt/mqtt_worker.h"
#include "base/list.h"
#include "broker/link.h"
#include "broker/session.h"
#include "loop/stream.h"
#include "proto/mqtt/packet.h"

struct mqtt_barrier;
struct mqtt_extras;
struct mqtt_handover;
struct mqtt_pending;

enum mqtt_state { MQTT_WAIT_CONNECT, MQTT_OPEN, MQTT_CLOSING };

enum handle { HANDLE_DONE, HANDLE_WAIT };

struct mqtt_conn {
    struct stream stream;
    struct link link;   /* what the session sees of us */
    struct timer timer; /* CONNECT's time limit, then keep-alive, then the time to take the last output */
    struct list list;   /* of the worker: connections, or waiting */
    struct mqtt_worker *mw;
    struct session *ss;                                /* while MQTT_OPEN */
    struct mqtt_pending *first_pending, *last_pending; /* publishes not yet acknowledged, in order (mqtt_pending.h) */
    union {
        struct mqtt_handover *handover; /* MQTT_WAIT_CONNECT: comes from another worker, who it is is known */
        struct mqtt_extras *extras;     /* MQTT_OPEN: what few need, with the first use (mqtt_extras.h) */
    };
    union {
        struct mqtt_login *login;     /* MQTT_WAIT_CONNECT: who it is is being found out (mqtt_login.h) */
        struct mqtt_barrier *barrier; /* MQTT_OPEN: a SUBSCRIBE waits for mail that was posted before it */
    };
    uint32_t max_packet_size;  /* the client's, 0: none */
    uint32_t max_packet_bytes; /* ours; this and the next two as they were when its CONNECT was accepted */
    uint16_t receive_maximum, topic_alias_maximum;
    uint16_t aliases_out_maximum; /* how many the client lets us set, within our own bound */
    uint32_t last_packet_ms;      /* low bits of the loop's clock */
    uint16_t keep_alive_s;        /* 0: none */
    uint16_t n_pending;           /* places in that list, */
    uint16_t n_pending_qos2;      /* and those of QoS 2 among them */
    uint8_t version;              /* enum mqtt_version */
    uint8_t state;
    uint8_t listener;
    bool is_waiting : 1;         /* in mw->waiting */
    bool has_passed_barrier : 1; /* the SUBSCRIBE may be processed */
    bool has_expiry : 1;         /* a session expiry above 0 was asked for in CONNECT */
    bool is_full : 1;            /* paused until an acknowledgement leaves */
    bool is_end_told : 1;        /* the event of its end has been sent */
    bool is_choked : 1;          /* paused until the client has taken its output */
};

/* Takes over an accepted descriptor. It is closed when that fails. */
void mqtt_conn_accept(struct mqtt_worker *mw, uint8_t listener, int fd);

/* Takes over a connection from another worker, with its unread and unsent bytes; frees the hand-over. */
void mqtt_conn_adopt(struct mqtt_worker *mw, struct mqtt_handover *handover);

/* The client broke a rule, or must be told why it goes: v5 gets a DISCONNECT with the reason, everybody is closed, the will is
 * published. A no-op on a closing connection. */
void mqtt_conn_fail(struct mqtt_conn *c, enum mqtt_reason reason);

/* Closes without a packet. `publishes_will` false only after a DISCONNECT that says so, and in a drain. */
void mqtt_conn_close(struct mqtt_conn *c, bool publishes_will);

/* Closes once what was written so far has been taken by the client and it closes too, or after a while. What it still sends is
 * dropped. The session must have been left. */
void mqtt_conn_finish(struct mqtt_conn *c);

/* Stops reading until room was found, and queues up for it. */
void mqtt_conn_wait(struct mqtt_conn *c);

/* The same until a Kafka topic has been made. */
void mqtt_conn_wait_for_topic(struct mqtt_conn *c);
void mqtt_conn_resume(struct mqtt_conn *c);

/* Begins to enforce the keep-alive time (section 3.1.2.10). */
void mqtt_conn_start_keep_alive(struct mqtt_conn *c, uint16_t keep_alive_s);

/* The CONNECT has been accepted: the time limit for it rests, and packets other than CONNECT are allowed. */
void mqtt_conn_open(struct mqtt_conn *c, struct session *ss);

/* Its session's tenant has a connection less (registry/usage.h); before it lets go of the session. */
void mqtt_conn_count_end(struct mqtt_conn *c);

/* In a drain: closes as soon as nothing is pending. */
void mqtt_conn_drain(struct mqtt_conn *c);

static inline struct mqtt_encoder mqtt_conn_encoder(struct mqtt_conn *c)
{
    return (struct mqtt_encoder){&c->stream.out, MEM_LOOP, c->version, c->max_packet_size};
}

/* After an encoder wrote to the connection's output: sends at the end of the turn; a packet that found no memory closes. */
void mqtt_conn_sent(struct mqtt_conn *c, err e);

static inline const struct config_listener *mqtt_conn_listener(const struct mqtt_conn *c)
{
    return &mqtt_config(c->mw)->listeners[c->listener];
}
