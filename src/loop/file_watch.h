/* file_watch: tells when a file has changed: that of the configuration, or one of the fan-out's.
 *
 * inotify watches the folder in which the path stands, and the one in which the file itself lies when the path leads there over
 * links. So it sees a file written in place, one renamed over it, and a link that turns to another folder, which is how Kubernetes
 * renews a mounted ConfigMap. What an event means is left open: after each the file's stamp (device, inode, size, times) is
 * compared with the last one, and the change is told once the stamp has been the same for a while, so that nobody reads half a
 * file. A slow look at the stamp besides covers what inotify does not see: network file systems, a folder far up that is exchanged.
 *
 * Lives on the loop of one thread, one that nothing waits for. Looks at the disk, so it may block; never reads the file. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "loop/loop.h"

enum {
    FILE_WATCH_SETTLE_MS = 200, /* between the writes of one change there is less, for most who write */
    FILE_WATCH_LOOK_MS = 5000,
};

/* What tells a changed file from an unchanged one; all-zero: there is none. */
struct file_watch_stamp {
    dev_t device;
    ino_t inode;
    off_t size;
    int64_t modified_ns, changed_ns;
};

struct file_watch {
    struct io io; /* inotify */
    struct loop *loop;
    const char *path;
    void (*on_change)(struct file_watch *fw);
    struct timer settle, look;
    struct file_watch_stamp seen;
    uint32_t settle_ms;
    int link_wd, file_wd; /* the two folders; -1: not watched */
};

/* The stamp of the file or folder at `path`; of nothing if there is none, or something that is read but once, as a pipe. */
struct file_watch_stamp file_watch_stamp(const char *path);

/* Begins to watch `path`, which is borrowed. `before` is the stamp taken before the file was read: a change since then is told as
 * well. on_change() runs on the loop's thread, `settle_ms` after the last change. E_IO: the system has no inotify for us; the reason
 * is in `ei`, and the file is looked at now and then all the same. */
MUST_USE err file_watch_open(struct file_watch *fw, struct loop *l, const char *path, uint32_t settle_ms,
                             const struct file_watch_stamp *before, void (*on_change)(struct file_watch *fw),
                             struct errinfo *ei);

/* Ends it; a no-op on what is all-zero. */
void file_watch_close(struct file_watch *fw);
