/* fanout_control: which configuration of the fan-out holds, and how the next one comes to hold:
 *
 *   a source has changed, or a text was put --> read, build off the request path, compare
 *       invalid    --> what holds goes on; told in the log with file and line, in a metric, and in fanout_control_report()
 *       unchanged  --> nothing to do
 *       else       --> given to the workers --> it holds; with fanout.isolate_channels also when single channels are invalid, which stay as
 *                      they were, or are left out
 *
 * One change at a time; what comes meanwhile is looked at afterwards. The main thread. Requests never wait for any of this: each
 * holds the snapshot it began with. */
#pragma once

#include "config/config.h"
#include "fanout/fanout_config.h"
#include "fanout/fanout_source.h"

struct fanout_control;
struct fanout_control_put;

struct fanout_control_settings {
    struct loop *loop;
    const struct config *config; /* its section `fanout`, and data_dir; borrowed */
    struct fanout_abilities abilities;
};

enum fanout_control_status {
    FANOUT_CONTROL_APPLIED,
    FANOUT_CONTROL_PARTIAL, /* applied, but for channels that are wrong (fanout.isolate_channels) */
    FANOUT_CONTROL_UNCHANGED,
    FANOUT_CONTROL_FAILED, /* to be read or built; what held before holds */
    FANOUT_CONTROL_STATUSES,
};

/* How the last reload went. */
struct fanout_control_report {
    enum fanout_control_status status;
    uint64_t at_ms;              /* wall clock */
    uint64_t generation;         /* of what was applied or found unchanged */
    struct str source;           /* "file", "put" */
    struct config_errors errors; /* of one that failed, or of the channels that are not in it */
};

/* Gives a snapshot to whoever serves requests with it; `done` is posted to `home` when all do. */
typedef void (*fanout_control_apply)(void *context, struct fanout_snapshot *next, struct mail *done, struct mailbox *home);

/* Makes the sources and takes the first configuration. E_*: there is none, or it is broken: `errors` says why, and the process should
 * not go on; E_OK with errors: of single channels that are isolated. `*out_control` is written all the same, since they name its files. Registers metrics: before threads start. */
MUST_USE err fanout_control_open(const struct fanout_control_settings *settings, struct fanout_control **out_control,
                                 struct config_errors *errors);

/* What holds. Borrowed until the next turn of the loop. */
struct fanout_snapshot *fanout_control_now(const struct fanout_control *control);

/* The workers serve: sources are watched from now on, and changes go through `apply`. */
void fanout_control_begin(struct fanout_control *control, fanout_control_apply apply, void *context);

/* Looks at the sources, now or as soon as possible: SIGHUP. */
void fanout_control_reload(struct fanout_control *control);

/* No more changes from now on. */
void fanout_control_end(struct fanout_control *control);

/* After fanout_control_end(), when no change is under way on any worker. NULL is a no-op. */
void fanout_control_free(struct fanout_control *control);

const struct fanout_control_report *fanout_control_report(const struct fanout_control *control);

/* Whether `put` is among the sources, and what was last put there; 0: nothing. */
bool fanout_control_takes_puts(const struct fanout_control *control);
uint64_t fanout_control_put_generation(const struct fanout_control *control);

/* One text that somebody puts, or takes away again; owned by the caller until on_done(). */
struct fanout_control_put {
    struct str text;     /* borrowed for the call */
    uint64_t generation; /* 0: the text says it */
    void (*on_done)(struct fanout_control_put *put, const struct fanout_snapshot *now);
};

/* Builds, keeps and applies a text. E_OK: on_done() is called once it holds, or when the process ends first. Else nothing was changed,
 * and `errors` says why. E_DENIED: puts are not taken, or another source comes first and has something. E_AGAIN: another change is
 * under way. E_INVAL: the text is invalid, or its generation and the given one differ. E_NOTFOUND: there is no generation. E_LIMIT: the
 * generation is not above the last one. E_IO: it could not be kept on disk. */
MUST_USE err fanout_control_put(struct fanout_control *control, struct fanout_control_put *put, struct config_errors *errors);

/* Takes away what was put; the next source, or an empty configuration, holds then. E_OK: on_done() is called, perhaps at once. E_INVAL: the
 * next source is broken, so what was put is kept. E_DENIED, E_AGAIN, E_IO as above. */
MUST_USE err fanout_control_forget(struct fanout_control *control, struct fanout_control_put *put,
                                   struct config_errors *errors);
