/* command: commands of applications on their way from Kafka to devices (docs/wire/commands.md).
 *
 * All of a tenant belongs to one worker, its router: its subscriptions, its commands in the order of their partitions, the choice of
 * a target by that worker's replica of the routes (routes/routes.h). What this instance does with a command is the design's to say
 * (command_design.h). It goes by mail to the worker of the subscriber, or to another instance (command_transport.h), and comes back with what
 * became of it; only then is its record settled, behind the notice that tells the application, if there is one to be told.
 *
 * Commands of one device stay in order: a lane sends the next ones by the same way while earlier ones are out, and waits for these when
 * the way changes or one comes back. No lane waits for another. */
#pragma once

#include "core/sink.h"
#include "core/source.h"
#include "loop/worker.h"
#include "registry/generation.h"

struct command_design;
struct command_plane;
struct command_transport;
struct command_transport_user;
struct routes;

struct command_settings {
    struct workers *workers;       /* prepared, not started; borrowed */
    struct sink *sink;             /* borrowed */
    struct routes *routes;         /* not started; borrowed, lives longer */
    struct generation *generation; /* to begin with; references are taken. Its `command.routing` is the design */
    bool is_alone;                 /* there are no other instances: the routes are local */
    bool takes_subscriptions;      /* devices can take commands here; else every subscription is refused */
};

/* Sets up; registers metrics: before the threads start. The caller owns it. */
struct command_plane *command_new(const struct command_settings *settings);

/* What the source is to be opened with; lives as long as the plane. Its wants are a struct generation, whose tenants' commands it reads. */
const struct source_reader *command_reader(struct command_plane *plane);

/* The design, for whoever opens the source and the transport. */
const struct command_design *command_design(const struct command_plane *plane);

/* What a transport is to be opened with; lives as long as the plane. And the transport, before the routes are started; borrowed. */
const struct command_transport_user *command_user(struct command_plane *plane);
void command_use_transport(struct command_plane *plane, struct command_transport *transport);

/* Before the source is started: where records are settled. */
void command_start(struct command_plane *plane, struct source *source);

/* The next generation for all routers (references are taken); `done` is posted to `home` when all use it. One at a time. */
void command_use(struct command_plane *plane, struct generation *next, struct mail *done, struct mailbox *home);

/* The process is about to end: what comes back undelivered from now on is not settled, so that it comes again. Any thread. */
void command_drain(struct command_plane *plane);

/* The adapters are drained, nobody subscribes any more: `done` is posted to `home` when every subscription has been ended in the routes and its event
 * is with the sink. Once. Any thread. */
void command_leave(struct command_plane *plane, struct mail *done, struct mailbox *home);

/* After the workers have stopped and the adapters were freed, before the source, the transport and the routes are. NULL is a no-op. */
void command_free(struct command_plane *plane);
