/* config_watch: tells when the file of the configuration has changed.
 *
 * inotify watches the folder in which the path stands, and the one in which the file itself lies when the path leads there over
 * links. So it sees a file written in place, one renamed over it, and a link that turns to another folder, which is how Kubernetes
 * renews a mounted ConfigMap. What an event means is left open: after each the file's stamp (device, inode, size, times) is
 * compared with the last one, and the change is told once the stamp has been the same for a while, so that nobody reads half a
 * file. A slow look at the stamp besides covers what inotify does not see: network file systems, a folder far up that is exchanged.
 *
 * Lives on the loop of the main thread. Looks at the disk, so it may block; never reads the file. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "loop/loop.h"

enum {
    CONFIG_WATCH_SETTLE_MS = 200, /* between the writes of one change there is less */
    CONFIG_WATCH_LOOK_MS = 5000,
};

/* What tells a changed file from an unchanged one; all-zero: there is none. */
struct config_watch_stamp {
    dev_t device;
    ino_t inode;
    off_t size;
    int64_t modified_ns, changed_ns;
};

struct config_watch {
    struct io io; /* inotify */
    struct loop *loop;
    const char *path;
    void (*on_change)(struct config_watch *cw);
    struct timer settle, look;
    struct config_watch_stamp seen;
    int link_wd, file_wd; /* the two folders; -1: not watched */
};

/* The stamp of the file at `path`; of nothing if there is none, or something that is read but once, as a pipe. */
struct config_watch_stamp config_watch_stamp(const char *path);

/* Begins to watch `path`, which is borrowed. `before` is the stamp taken before the file was read: a change since then is told as
 * well. on_change() runs on the loop's thread, a while after the last change. E_IO: the system has no inotify for us; the reason
 * is in `ei`, and the file is looked at now and then all the same. */
MUST_USE err config_watch_open(struct config_watch *cw, struct loop *l, const char *path,
                               const struct config_watch_stamp *before, void (*on_change)(struct config_watch *cw),
                               struct errinfo *ei);

/* Ends it; a no-op on what is all-zero. */
void config_watch_close(struct config_watch *cw);
