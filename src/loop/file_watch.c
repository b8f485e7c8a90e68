#include "loop/file_watch.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"

enum {
    EVENTS = IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB | IN_DELETE_SELF |
             IN_MOVE_SELF,
    EVENT_BYTES = 4096,
};

static int64_t ns_of(struct timespec t)
{
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

struct file_watch_stamp file_watch_stamp(const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0 || (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
        return (struct file_watch_stamp){0};
    return (struct file_watch_stamp){st.st_dev, st.st_ino, st.st_size, ns_of(st.st_mtim), ns_of(st.st_ctim)};
}

static bool is_same(const struct file_watch_stamp *a, const struct file_watch_stamp *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size && a->modified_ns == b->modified_ns &&
           a->changed_ns == b->changed_ns;
}

/* The same folder gives the same number again; one that is missing gives -1, until the next look. */
static int watch_folder_of(const struct file_watch *fw, const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;

    if (fw->io.fd < 0 || n >= sizeof folder)
        return -1;
    memcpy(folder, path, n);
    folder[n] = '\0';
    return inotify_add_watch(fw->io.fd, slash ? (n ? folder : "/") : ".", EVENTS | IN_ONLYDIR);
}

/* Where the links lead may have changed with the file. A folder that has gone took its watch along. */
static void watch_folders(struct file_watch *fw)
{
    char real[PATH_MAX];
    int before = fw->file_wd;

    fw->link_wd = watch_folder_of(fw, fw->path);
    if (!realpath(fw->path, real))
        return;
    fw->file_wd = watch_folder_of(fw, real);
    if (before >= 0 && before != fw->file_wd && before != fw->link_wd)
        (void)inotify_rm_watch(fw->io.fd, before); /* fails if it is gone already */
}

static void look(struct file_watch *fw)
{
    struct file_watch_stamp now = file_watch_stamp(fw->path);

    if (is_same(&now, &fw->seen))
        return;
    fw->seen = now;
    wheel_start(&fw->loop->wheel, &fw->settle, fw->settle_ms);
}

static void on_settle(struct timer *t)
{
    struct file_watch *fw = CONTAINER_OF(t, struct file_watch, settle);

    watch_folders(fw);
    look(fw);
    if (!wheel_is_set(&fw->settle))
        fw->on_change(fw);
}

static void on_look(struct timer *t)
{
    struct file_watch *fw = CONTAINER_OF(t, struct file_watch, look);

    watch_folders(fw);
    look(fw);
    wheel_start(&fw->loop->wheel, &fw->look, FILE_WATCH_LOOK_MS);
}

static void on_events(struct io *io, uint32_t events)
{
    struct file_watch *fw = CONTAINER_OF(io, struct file_watch, io);
    char ignored[EVENT_BYTES];

    (void)events;
    while (read(io->fd, ignored, sizeof ignored) > 0)
        ;
    look(fw);
}

err file_watch_open(struct file_watch *fw, struct loop *l, const char *path, uint32_t settle_ms,
                    const struct file_watch_stamp *before, void (*on_change)(struct file_watch *fw), struct errinfo *ei)
{
    err e = E_OK;

    *fw = (struct file_watch){
        .io = {.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), .on_io = on_events},
        .loop = l,
        .path = path,
        .on_change = on_change,
        .settle = {.on_timer = on_settle},
        .look = {.on_timer = on_look},
        .seen = *before,
        .settle_ms = settle_ms,
        .link_wd = -1,
        .file_wd = -1,
    };
    if (fw->io.fd < 0)
        e = errinfo_set(ei, E_IO, "no inotify: %s", strerror(errno));
    else
        e = loop_watch(l, &fw->io, EPOLLIN);
    watch_folders(fw);
    if (e == E_OK && fw->link_wd < 0)
        e = errinfo_set(ei, E_IO, "cannot watch the folder of %s: %s", path, strerror(errno));
    look(fw);
    wheel_start(&l->wheel, &fw->look, FILE_WATCH_LOOK_MS);
    return e;
}

void file_watch_close(struct file_watch *fw)
{
    if (!fw->loop)
        return;
    wheel_stop(&fw->settle);
    wheel_stop(&fw->look);
    if (fw->io.fd >= 0) {
        loop_unwatch(fw->loop, &fw->io);
        close(fw->io.fd);
    }
    *fw = (struct file_watch){.io = {.fd = -1}};
}
