/* command_port: how an adapter receives commands for those who are connected to it. The adapter embeds a subscriber in its own object and lives
 * on one worker; the routing design (command_design.h) decides what comes. One thread: the subscriber's worker.
 *
 * A subscription belongs to one device or gateway of a tenant; another one for the same takes its place, whoever made it and on whatever
 * instance, and nobody is told: a connection that ends late takes nothing away from a newer one. One that is still there when the newer one
 * ends gets its place back. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "base/mail.h"
#include "config/config.h"
#include "core/command_record.h"
#include "core/source.h"
#include "routes/routes.h"

struct command_entry;
struct command_plane;
struct command_router;
struct command_subscriber;
struct worker;

/* What came of a delivery. */
enum command_result {
    COMMAND_RECEIVED,  /* the client has acknowledged it */
    COMMAND_ATTEMPTED, /* it was written to the client, which acknowledges nothing */
    COMMAND_RETURNED,  /* the client is gone, and its subscription ends: another one may have it */
    COMMAND_FAILED,    /* status and text say why */
};

/* One command on its way. The router's, in the subscriber's hands between deliver and command_done(). */
struct command {
    struct mail mail;
    struct command_record record;
    struct str tenant;
    struct str target; /* the device, when it is reached through a gateway; empty: the subscriber itself */

    /* The router's. */
    struct list link; /* in its lane; once it is over, among those whose notice found no room */
    struct command_router *router;
    struct command_lane *lane; /* NULL: it came from another instance, whose lane it is in */
    struct command_partition *partition;
    struct list of_partition;
    struct command_entry *entry;              /* whom it was sent to, when that is here */
    struct command_item *item;                /* in the memory of tickets (command_memory.h) */
    struct list unsent;                       /* it is to go to another instance, and cannot now */
    struct source_record *source;             /* NULL: another instance has it, or it has waited in the table */
    uint64_t number;                          /* there */
    struct routes_write write;                /* to get there, and away */
    void (*on_back)(struct command *command); /* the subscriber has given it back */
    struct delivery delivery;                 /* of its notice */
    int64_t done_from;                        /* what is done with it: the offsets from here on */
    unsigned making;                          /* of its partition, when it came */
    enum command_fault fault;
    enum command_result result;
    int status;
    const char *text;
    uint64_t sent_ms; /* when it was passed on */
    bool is_sent;
    bool is_passed_on; /* to another instance */
    bool is_over;      /* its outcome is known, and not settled yet */
    bool is_lost;      /* its partition belongs to another instance now */
    char answer[80];   /* the text, when it came from another instance */
};

struct command_subscriber_ops {
    /* The subscription stands (E_OK) or could not be made; told once, never within command_subscribe(). */
    void (*on_subscribed)(struct command_subscriber *subscriber, err result);
    /* A command has come; command_done() must follow, within the call or later, whatever happens to the subscriber. */
    void (*on_command)(struct command_subscriber *subscriber, struct command *command);
};

struct command_subscriber {
    const struct command_subscriber_ops *ops;
    struct command_entry *entry; /* the plane's; NULL: not subscribed */
};

/* All views are borrowed for the call. */
struct command_subscription {
    struct str tenant, device; /* whose commands */
    struct str gateway;        /* who subscribes, when it is not the device itself */
    bool is_for_all;           /* a gateway, for the devices it may act for as well */
    bool has_events;           /* applications are told by events with `ttd` -1 and 0 */
    enum config_adapter_type adapter;
};

/* Subscribes. The subscriber must not be subscribed already. */
void command_subscribe(struct command_plane *plane, struct worker *w, struct command_subscriber *subscriber,
                       const struct command_subscription *subscription);

/* Ends a subscription, or the wait for it: none of the ops is called any more. A no-op when there is none. */
void command_unsubscribe(struct command_subscriber *subscriber);

/* Gives a command back. `status` and `text` (static, without need for escapes in JSON) are those of COMMAND_FAILED. */
void command_done(struct command *command, enum command_result result, int status, const char *text);

/* A device has answered a command; counted. Any thread, once there is a plane. */
void command_note_answer(void);

/* A gateway has just been heard from on behalf of a device: the preferred way to it if there are several. `gateway` is the device's own id when
 * it spoke itself. Any worker. */
void command_note_gateway(struct command_plane *plane, struct str tenant, struct str device, struct str gateway);
