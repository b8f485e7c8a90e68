/* command: commands of applications on their way from Kafka to devices (docs/wire/commands.md).
 *
 * All of a tenant belongs to one worker, its router: its subscriptions, its commands in the order of their partitions, the choice of
 * a target. A command goes by mail to the worker of the subscriber and comes back with what became of it; only then is its record
 * settled, behind the notice that tells the application, if there is one to be told.
 *
 * Commands of one device stay in order: a lane sends the next ones to the same subscriber while earlier ones are out, and waits for these when
 * the target changes or one comes back. No lane waits for another. */
#pragma once

#include "core/sink.h"
#include "core/source.h"
#include "loop/worker.h"
#include "registry/generation.h"

struct command_plane;

struct command_settings {
    struct workers *workers;       /* prepared, not started; borrowed */
    struct sink *sink;             /* borrowed */
    struct generation *generation; /* to begin with; references are taken */
};

/* Sets up; registers metrics: before the threads start. The caller owns it. */
struct command_plane *command_new(const struct command_settings *settings);

/* What the source is to be opened with; lives as long as the plane. Its wants are a struct generation, whose tenants' commands it reads. */
const struct source_reader *command_reader(struct command_plane *plane);

/* Before the source is started: where records are settled. */
void command_start(struct command_plane *plane, struct source *source);

/* The next generation for all routers (references are taken); `done` is posted to `home` when all use it. One at a time. */
void command_use(struct command_plane *plane, struct generation *next, struct mail *done, struct mailbox *home);

/* The process is about to end: what comes back undelivered from now on is not settled, so that it comes again. Any thread. */
void command_drain(struct command_plane *plane);

/* After the workers have stopped and the adapters were freed, before the source is. NULL is a no-op. */
void command_free(struct command_plane *plane);
