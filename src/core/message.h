/* message: one published message on its way to subscribers: immutable, shared by reference count between sessions, retained
 * stores and threads. One allocation holds everything. Whoever has a reference may read it, on any thread. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct message {
    atomic_uint refs;
    uint32_t expiry_s; /* Message Expiry Interval as published, when has_expiry */
    bool has_expiry;
    bool retain; /* the publisher's RETAIN flag */
    uint8_t qos;
    uint64_t received_ms; /* monotonic, for the expiry */
    uint64_t publisher;   /* number of the session that published it (broker/session.h), 0: none. For No Local */
    uint64_t sequence;    /* process-wide order of retained messages; set by broker_publish() */
    struct str tenant;
    struct str topic;
    struct str payload;
    struct str client_id;  /* of a will: whose it is, see message_set_client_id() */
    struct str properties; /* MQTT 5 properties that every subscriber gets, encoded (proto/mqtt/mqtt_publish.h) */
    char bytes[];
};

/* A message with one reference, owned by the caller. Copies tenant, topic and payload; the `properties_bytes` bytes of
 * message->properties are for the caller to write before anybody else sees the message. All other fields are zero. NULL
 * when there is no memory. */
struct message *message_new(struct str tenant, struct str topic, struct str payload, size_t properties_bytes)
    __attribute__((warn_unused_result));

/* Where message_new()'s caller writes the properties. */
char *message_properties(struct message *m);

/* Keeps the client id in what was asked for as properties, behind the first `properties_bytes` of them: the message then has so
 * many bytes of properties, and message_new() must have been asked for that and id.n more. Before anybody else sees it. */
void message_set_client_id(struct message *m, size_t properties_bytes, struct str id);

/* Any thread. message_unref(NULL) is a no-op; the last one frees. */
struct message *message_ref(struct message *m);
void message_unref(struct message *m);

/* What is left of the expiry interval after `now_ms`, in whole seconds as a subscriber is to be told [MQTT-3.3.2-6]. False
 * when it has passed and the message must not be delivered any more [MQTT-3.3.2-5]. Without an expiry `*out_left_s` is 0. */
bool message_is_alive(const struct message *m, uint64_t now_ms, uint32_t *out_left_s);

/* Bytes it holds, for limits on queues. */
static inline size_t message_size(const struct message *m)
{
    return sizeof *m + m->tenant.n + m->topic.n + m->payload.n + m->properties.n + m->client_id.n;
}
