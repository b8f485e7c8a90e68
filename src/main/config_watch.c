#include "main/config_watch.h"

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

struct config_watch_stamp config_watch_stamp(const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return (struct config_watch_stamp){0};
    return (struct config_watch_stamp){st.st_dev, st.st_ino, st.st_size, ns_of(st.st_mtim), ns_of(st.st_ctim)};
}

static bool is_same(const struct config_watch_stamp *a, const struct config_watch_stamp *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size && a->modified_ns == b->modified_ns &&
           a->changed_ns == b->changed_ns;
}

/* The same folder gives the same number again; one that is missing gives -1, until the next look. */
static int watch_folder_of(const struct config_watch *cw, const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;

    if (cw->io.fd < 0 || n >= sizeof folder)
        return -1;
    memcpy(folder, path, n);
    folder[n] = '\0';
    return inotify_add_watch(cw->io.fd, slash ? (n ? folder : "/") : ".", EVENTS | IN_ONLYDIR);
}

/* Where the links lead may have changed with the file. A folder that has gone took its watch along. */
static void watch_folders(struct config_watch *cw)
{
    char real[PATH_MAX];
    int before = cw->file_wd;

    cw->link_wd = watch_folder_of(cw, cw->path);
    if (!realpath(cw->path, real))
        return;
    cw->file_wd = watch_folder_of(cw, real);
    if (before >= 0 && before != cw->file_wd && before != cw->link_wd)
        (void)inotify_rm_watch(cw->io.fd, before); /* fails if it is gone already */
}

static void look(struct config_watch *cw)
{
    struct config_watch_stamp now = config_watch_stamp(cw->path);

    if (is_same(&now, &cw->seen))
        return;
    cw->seen = now;
    wheel_start(&cw->loop->wheel, &cw->settle, CONFIG_WATCH_SETTLE_MS);
}

static void on_settle(struct timer *t)
{
    struct config_watch *cw = CONTAINER_OF(t, struct config_watch, settle);

    watch_folders(cw);
    look(cw);
    if (!wheel_is_set(&cw->settle))
        cw->on_change(cw);
}

static void on_look(struct timer *t)
{
    struct config_watch *cw = CONTAINER_OF(t, struct config_watch, look);

    watch_folders(cw);
    look(cw);
    wheel_start(&cw->loop->wheel, &cw->look, CONFIG_WATCH_LOOK_MS);
}

static void on_events(struct io *io, uint32_t events)
{
    struct config_watch *cw = CONTAINER_OF(io, struct config_watch, io);
    char ignored[EVENT_BYTES];

    (void)events;
    while (read(io->fd, ignored, sizeof ignored) > 0)
        ;
    look(cw);
}

err config_watch_open(struct config_watch *cw, struct loop *l, const char *path, const struct config_watch_stamp *before,
                      void (*on_change)(struct config_watch *cw), struct errinfo *ei)
{
    err e = E_OK;

    *cw = (struct config_watch){
        .io = {.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), .on_io = on_events},
        .loop = l,
        .path = path,
        .on_change = on_change,
        .settle = {.on_timer = on_settle},
        .look = {.on_timer = on_look},
        .seen = *before,
        .link_wd = -1,
        .file_wd = -1,
    };
    if (cw->io.fd < 0)
        e = errinfo_set(ei, E_IO, "no inotify: %s", strerror(errno));
    else
        e = loop_watch(l, &cw->io, EPOLLIN);
    watch_folders(cw);
    if (e == E_OK && cw->link_wd < 0)
        e = errinfo_set(ei, E_IO, "cannot watch the folder of %s: %s", path, strerror(errno));
    look(cw);
    wheel_start(&l->wheel, &cw->look, CONFIG_WATCH_LOOK_MS);
    return e;
}

void config_watch_close(struct config_watch *cw)
{
    if (!cw->loop)
        return;
    wheel_stop(&cw->settle);
    wheel_stop(&cw->look);
    if (cw->io.fd >= 0) {
        loop_unwatch(cw->loop, &cw->io);
        close(cw->io.fd);
    }
    *cw = (struct config_watch){.io = {.fd = -1}};
}
