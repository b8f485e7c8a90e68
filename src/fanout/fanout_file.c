#include "fanout/fanout_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"

enum { STEP_BYTES = 64 << 10 };

static err read_all(int fd, struct buf *text, struct errinfo *ei)
{
    for (;;) {
        char *to = buf_reserve(text, MEM_CONFIG, STEP_BYTES);
        ssize_t got = to ? read(fd, to, STEP_BYTES) : -1;

        if (!to)
            return errinfo_set(ei, E_NOMEM, "no memory to read it");
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errinfo_set(ei, E_IO, "%s", strerror(errno));
        buf_commit(text, (size_t)got);
        if (buf_size(text) > CONFIG_MAX_TEXT_BYTES)
            return errinfo_set(ei, E_LIMIT, "larger than %d MiB", CONFIG_MAX_TEXT_BYTES >> 20);
        if (got == 0)
            return E_OK;
    }
}

err fanout_file_read(const char *path, struct buf *out_text, struct errinfo *ei)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;
    err e;

    if (fd < 0)
        return errinfo_set(ei, errno == ENOENT || errno == ENOTDIR ? E_NOTFOUND : E_IO, "%s", strerror(errno));
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        e = errinfo_set(ei, E_IO, "not an ordinary file");
    else
        e = read_all(fd, out_text, ei);
    (void)close(fd); /* only read from */
    return e;
}

static bool write_all(int fd, struct str text)
{
    while (text.n) {
        ssize_t n = write(fd, text.p, text.n);

        if (n < 0 && errno != EINTR)
            return false;
        if (n > 0)
            text = str_from_offset(text, (size_t)n);
    }
    return true;
}

/* So that a new name in the folder is on the disk as well. */
static bool sync_folder_of(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    int fd;
    bool is_ok;

    memcpy(folder, path, n); /* the whole path was short enough */
    folder[n] = '\0';
    fd = open(slash ? (n ? folder : "/") : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    is_ok = fsync(fd) == 0;
    (void)close(fd);
    return is_ok;
}

static err write_fresh(const char *fresh, struct str head, struct str text, mode_t mode, struct errinfo *ei)
{
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
    bool is_ok;

    if (fd < 0)
        return errinfo_set(ei, E_IO, "cannot make %s: %s", fresh, strerror(errno));
    is_ok = write_all(fd, head) && write_all(fd, text) && fsync(fd) == 0;
    if (close(fd) != 0 || !is_ok) {
        err e = errinfo_set(ei, E_IO, "cannot write %s: %s", fresh, strerror(errno));

        (void)unlink(fresh);
        return e;
    }
    return E_OK;
}

err fanout_file_replace(const char *path, struct str head, struct str text, mode_t mode, struct errinfo *ei)
{
    char fresh[PATH_MAX];
    err e;

    if (snprintf(fresh, sizeof fresh, "%s.%ld.new", path, (long)getpid()) >= (int)sizeof fresh)
        return errinfo_set(ei, E_IO, "the path is too long");
    e = write_fresh(fresh, head, text, mode, ei);
    if (e != E_OK)
        return e;
    if (rename(fresh, path) != 0) {
        e = errinfo_set(ei, E_IO, "cannot put it at %s: %s", path, strerror(errno));
        (void)unlink(fresh);
        return e;
    }
    return sync_folder_of(path) ? E_OK : errinfo_set(ei, E_IO, "cannot make %s last: %s", path, strerror(errno));
}
