#include "config/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct str by_file = STR_INIT("file:");
static const struct str by_variable = STR_INIT("env:");

bool secret_is_reference(struct str value)
{
    return str_starts_with(value, by_file) || str_starts_with(value, by_variable);
}

static err keep(struct arena *a, struct str secret, struct str *out_value, struct errinfo *ei)
{
    if (secret.n == 0)
        return errinfo_set(ei, E_INVAL, "it is empty");
    if (memchr(secret.p, '\0', secret.n))
        return errinfo_set(ei, E_INVAL, "it holds a NUL character");
    *out_value = arena_copy(a, MEM_CONFIG, secret);
    return E_OK;
}

static err read_variable(struct arena *a, struct str name, struct str *out_value, struct errinfo *ei)
{
    char text[256];
    const char *value;

    if (name.n == 0 || name.n >= sizeof text)
        return errinfo_set(ei, E_INVAL, "the name of the variable is empty or too long");
    memcpy(text, name.p, name.n);
    text[name.n] = '\0';
    value = getenv(text);
    if (!value)
        return errinfo_set(ei, E_NOTFOUND, "there is no such environment variable");
    return keep(a, str_from(value), out_value, ei);
}

static err make_path(struct str path, const char *beside, char *out_path, struct errinfo *ei)
{
    const char *slash = beside ? strrchr(beside, '/') : NULL;
    int folder = slash && path.n && path.p[0] != '/' ? (int)(slash - beside) + 1 : 0;
    int n = snprintf(out_path, PATH_MAX, "%.*s%.*s", folder, beside ? beside : "", STR_ARG(path));

    return path.n && n < PATH_MAX ? E_OK : errinfo_set(ei, E_INVAL, "the path is empty or too long");
}

static struct str without_line_end(struct str s)
{
    if (s.n && s.p[s.n - 1] == '\n')
        s.n--;
    if (s.n && s.p[s.n - 1] == '\r')
        s.n--;
    return s;
}

static err read_descriptor(struct arena *a, int fd, struct str *out_value, struct errinfo *ei)
{
    char bytes[SECRET_MAX_BYTES + 1];
    struct stat about;
    size_t n = 0;
    ssize_t got;
    err e;

    if (fstat(fd, &about) != 0)
        return errinfo_set(ei, E_IO, "%m");
    if (!S_ISREG(about.st_mode))
        return errinfo_set(ei, E_IO, "it is not an ordinary file");
    while ((got = read(fd, bytes + n, sizeof bytes - n)) > 0)
        n += (size_t)got;
    if (got < 0)
        e = errinfo_set(ei, E_IO, "%m");
    else if (n > SECRET_MAX_BYTES)
        e = errinfo_set(ei, E_LIMIT, "it is too large (at most 64 KiB)");
    else
        e = keep(a, without_line_end((struct str){bytes, n}), out_value, ei);
    explicit_bzero(bytes, n);
    return e;
}

static err read_file(struct arena *a, struct str name, const char *beside, struct str *out_value, struct errinfo *ei)
{
    char path[PATH_MAX];
    err e = make_path(name, beside, path, ei);
    int fd;

    if (e != E_OK)
        return e;
    /* Not blocking, so that a pipe is refused below instead of waited for. */
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return errinfo_set(ei, errno == ENOENT ? E_NOTFOUND : E_IO, "%m");
    e = read_descriptor(a, fd, out_value, ei);
    (void)close(fd); /* only read from */
    return e;
}

err secret_read(struct arena *a, struct str reference, const char *beside, struct str *out_value, struct errinfo *ei)
{
    if (str_starts_with(reference, by_file))
        return read_file(a, str_from_offset(reference, by_file.n), beside, out_value, ei);
    return read_variable(a, str_from_offset(reference, by_variable.n), out_value, ei);
}
