/* command_topics_private: what the two files of the transport by topics share. A worker's part belongs to its thread. */
#pragma once

#include <stdatomic.h>

#include "base/list.h"
#include "command/command_envelope.h"
#include "command/command_topics.h"
#include "command/command_topics_metrics.h"

struct command_topics;

/* For the headers of a record. */
struct command_topics_room {
    struct record_header *headers;
    size_t n;
};

/* Somebody who is written to. */
struct command_topics_peer {
    struct list link;
    struct command_topics_worker *worker;
    struct sink_topic *topic;
    struct command_peer id; /* its name is in `text` */
    struct list out;        /* messages that Kafka has, in order */
    struct list failed;     /* that it has refused, in order */
    size_t bytes;           /* of both */
    char text[];
};

struct command_topics_worker {
    struct command_topics *topics;
    struct worker *worker;
    struct list peers;
    size_t bytes; /* of all messages */
    bool wants_room;
    struct sink_waiter waiter;
    struct timer again;
    struct mail look;
    atomic_bool is_look_due;
    struct command_topics_room read, write; /* what is read may be answered meanwhile */
};

struct command_topics {
    struct command_transport transport;
    struct command_topics_settings settings; /* its text is ours */
    struct source_reader reader;
    struct source *source;
    struct command_topics_worker *workers;
    char instance[COMMAND_TOPICS_NAME_BYTES], own[COMMAND_TOPICS_NAME_BYTES];
};

static inline void command_topics_count(enum command_topics_metric which, int64_t n)
{
    metric_add(&command_topics_metrics[which], (uint64_t)n);
}

/* Room for that many headers; NULL: there is no memory. */
struct record_header *command_topics_make_room(struct command_topics_room *room, size_t n);

/* --- command_topics_out.c --- */

void command_topics_out_init(struct command_topics_worker *tw);
void command_topics_out_fini(struct command_topics_worker *tw);
err command_topics_out_send_request(struct command_topics_worker *tw, const struct command_request *request);
err command_topics_out_send_result(struct command_topics_worker *tw, const struct command_result_message *result);
