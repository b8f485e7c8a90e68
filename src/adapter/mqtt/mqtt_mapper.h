/* mqtt_mapper: messages that a server rewrites before they go to Kafka, and commands before they go to devices (docs/MAPPER.md): the payload is posted to it, and what
 * it answers with 200 takes the payload's place. Anything else, or no answer in time, is a failure of the mapper.
 *
 * Order: a PUBLISH that is with its mapper stays where it is in the connection's input, and nothing behind it is looked at until
 * the answer has come. So records are submitted in the order of the packets, whatever topic they go to, one message of a connection
 * is with a mapper at a time, and what waits is bounded by the client's own window. When the answer is there the packet is
 * handled again, now with it. A connection that closes meanwhile cancels the request; nothing had been acknowledged.
 *
 * Nothing is allocated before the first message that has a mapper. One thread: the worker's. */
#pragma once

#include "adapter/mqtt/mqtt_conn.h"

struct message;
struct mqtt_mapping;

/* A message as the mapper is told of it. Borrowed for the call; empty fields are left out. */
struct mqtt_mapper_request {
    struct str mapper; /* by its name in the configuration */
    struct str payload, content_type;
    struct str address; /* the topic as it was sent */
    struct str tenant, device, gateway, client_id;
    struct str subject, message_id; /* of a command */
    uint8_t qos;
};

/* What has become of it. */
struct mqtt_mapped {
    bool is_good; /* else the mapper failed, and nothing else is set */
    struct str payload;
    struct str content_type; /* empty: as it was */
    struct str device;       /* whom the message is about now; empty: as it was */
    struct str headers;      /* further ones, encoded as user properties */
};

/* Registers the metrics. Once, before threads start; a no-op when done. */
void mqtt_mapper_register(void);

/* For the packet at the front of the connection's input: asks the mapper, or gives its answer. HANDLE_WAIT: it has been asked, and
 * the connection resumes with the answer. HANDLE_DONE: `*out_mapped` is there until mqtt_mapper_forget(). */
enum handle mqtt_mapper_ask(struct mqtt_conn *c, const struct mqtt_mapper_request *request,
                            const struct mqtt_mapped **out_mapped);

/* The packet has been handled: drops the answer, if there is one; or the connection has let go of everything. */
void mqtt_mapper_forget(struct mqtt_conn *c);

/* The same for a will, which holds up nobody. HANDLE_WAIT: mqtt_publish_in_route_will() is called with the answer. HANDLE_DONE:
 * the answer, until the caller returns. */
enum handle mqtt_mapper_ask_for_will(struct mqtt_worker *mw, const struct principal *principal, struct message *will,
                                     const struct mqtt_mapper_request *request, const struct mqtt_mapped **out_mapped);

/* The same for a command on its way to a client. Never NULL; owned by the caller. `on_mapped` is called once, later, unless there is a
 * result at once. */
struct mqtt_mapping *mqtt_mapper_begin(struct mqtt_worker *mw, const struct mqtt_mapper_request *request,
                                       void (*on_mapped)(void *context), void *context);

/* The answer; NULL: not yet. */
const struct mqtt_mapped *mqtt_mapper_result(const struct mqtt_mapping *mapping);

/* Lets go of the answer, or takes the question back. NULL is a no-op. */
void mqtt_mapper_end(struct mqtt_mapping *mapping);

/* New connections to mappers have the TLS of the generation that holds now. */
void mqtt_mapper_use_tls(struct mqtt_worker *mw);

/* When threads have stopped: answers all that is asked, as failed, and closes connections in the turns that follow; and frees. */
void mqtt_mapper_close(struct mqtt_worker *mw);
void mqtt_mapper_fini(struct mqtt_worker *mw);
