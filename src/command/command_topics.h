/* command_topics: the transport of the routing designs router and shared: each instance reads the one partition of a topic of its own,
 * `hono.command_internal.INSTANCE`, and the others write requests and results to it (docs/wire/commands.md).
 *
 * The topic is transport only: it is read from its end when its instance starts. What Kafka refuses is kept and written again, behind
 * it nothing new is taken (E_IO), for as long as the peer's incarnation lives. Making the topic, reading and removing it are main's. */
#pragma once

#include "command/command_transport.h"
#include "core/sink.h"
#include "core/source.h"
#include "loop/worker.h"

enum {
    COMMAND_TOPICS_WINDOW_BYTES =
        16 << 20, /* that a worker has on the way to Kafka: past it E_AGAIN; past half of it for one peer E_IO,
                                             * and on_room() comes as well */
    COMMAND_TOPICS_RETRY_MS = 500,
};

/* What the topics must know of the rest; all borrowed but for the text. */
struct command_topics_settings {
    struct workers *workers; /* prepared, not started */
    struct sink *sink;
    struct command_transport_user user; /* may be set later: command_topics_set_user() */
    struct str instance;                /* this one's name */
    void *context;                      /* of what follows */
    /* The worker of a tenant. Any thread. */
    unsigned (*worker_of)(void *context, struct str tenant);
    /* Whether an incarnation lives. On that worker's thread. */
    bool (*lives)(void *context, unsigned worker, const struct command_peer *peer);
    /* The transport's `start`: has the own topic made, and read with command_topics_reader(); `ready` to `home` when everything that is
     * written to it from now on will come. */
    void (*begin)(void *context, struct mail *ready, struct mailbox *home);
    /* The own topic may have been removed, because others took this instance for dead: it is to be there again. Worker 0's thread. */
    void (*ensure)(void *context);
};

/* Registers metrics: before the threads start. The caller owns it and gives it to its `free` after workers and sink have stopped.
 * NULL: the instance's name cannot be part of a topic's. */
struct command_transport *command_topics_new(const struct command_topics_settings *settings);

/* Who is told; before `start`, and before anything is sent. */
void command_topics_set_user(struct command_transport *transport, const struct command_transport_user *user);

/* What the source is to be opened with, as one that keeps no positions, and its wants. Live as long as the transport. */
const struct source_reader *command_topics_reader(struct command_transport *transport);
void *command_topics_wants(struct command_transport *transport);

/* Before the source is started: where records are settled. */
void command_topics_attach(struct command_transport *transport, struct source *source);

/* The topic's name, without the prefix. Lives as long as the transport. */
struct str command_topics_own(struct command_transport *transport);

enum { COMMAND_TOPICS_NAME_BYTES = 249 + 1 };

/* The name of an instance's topic. E_INVAL: too long. */
MUST_USE err command_topics_name(struct str instance, char out[COMMAND_TOPICS_NAME_BYTES]);
