/* command_link_private: what the files of the link share. A worker's part belongs to its thread. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/list.h"
#include "command/command_link.h"
#include "command/command_link_frame.h"
#include "command/command_link_metrics.h"
#include "loop/listener.h"
#include "loop/resolver.h"

enum {
    COMMAND_LINK_WINDOW_BYTES = 8 << 20, /* that a channel keeps, */
    COMMAND_LINK_HANDED_BYTES = 8 << 20, /* and that an inlet has on the way to other workers: a frame more, each */
    COMMAND_LINK_MISSES = 3,             /* heartbeats that a peer may leave out */
    COMMAND_LINK_PATIENCE = 5,           /* heartbeats until a connection must stand */
    COMMAND_LINK_USER_TIMEOUT = 10,      /* heartbeats until the kernel gives up sending */
};

struct command_link_worker {
    struct command_link *link;
    struct worker *worker;
    struct list channels; /* to others */
    struct list inlets;   /* from others */
    struct list handed;   /* what was received and went to other workers */
    struct timer tick;    /* a heartbeat */
    struct mail start, look;
    atomic_bool is_look_due;
    struct task room;
    bool is_room_wanted;
};

struct command_link {
    struct command_transport transport;
    struct command_link_settings settings; /* its texts are ours, its TLS is not used */
    struct command_link_worker *workers;
    struct resolver resolver;
    struct listener listener; /* worker 0's, as the timer */
    struct timer listen_again;
    struct mail *ready;
    struct mailbox *ready_home;
    pthread_mutex_t lock; /* of what follows; held for a few instructions */
    struct tls *server, *client;
    struct list conns; /* that others have made, whoever's they are */
    unsigned n_conns;
    char *texts;
    struct str address;
};

/* A reference to one of the two. */
struct tls *command_link_ref_tls(struct command_link *link, bool is_server);

/* A random number. */
uint64_t command_link_random(void);

/* Has the kernel give up on a peer that acknowledges nothing. */
void command_link_set_up_socket(const struct command_link *link, int fd);

/* A channel has room again: whoever found it full is told, at the end of the turn. */
void command_link_note_room(struct command_link_worker *lw);

/* --- command_link_channel.c --- */

/* As send_request() and send_result() of the transport. */
err command_link_channel_send_request(struct command_link_worker *lw, const struct command_request *request);
err command_link_channel_send_result(struct command_link_worker *lw, const struct command_result_message *result);

/* A heartbeat; and whenever instances change: channels to those that are gone go. */
void command_link_channel_tick_all(struct command_link_worker *lw);
void command_link_channel_look_all(struct command_link_worker *lw);

/* After the workers have stopped. */
void command_link_channel_free_all(struct command_link_worker *lw);

/* --- command_link_inlet.c --- */

/* A connection was accepted: worker 0. */
void command_link_inlet_on_accept(struct listener *ln, int fd);

void command_link_inlet_tick_all(struct command_link_worker *lw);

/* After the workers have stopped: of all, or what is left of a worker. */
void command_link_inlet_close_all(struct command_link *link);
void command_link_inlet_free_all(struct command_link_worker *lw);
