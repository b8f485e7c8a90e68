#include "store/store_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/store_pages.h"

enum { NOTE_BYTES = 128 };

const char *store_file_path(char *out, const char *directory, const char *name)
{
    int n = snprintf(out, STORE_PATH_BYTES, "%s/%s", directory, name);

    if (n >= STORE_PATH_BYTES)
        out[STORE_PATH_BYTES - 1] = 0;
    return out;
}

/* What changes when anybody writes to the file, or puts another in its place. */
static size_t write_note(char out[NOTE_BYTES], const struct stat *st)
{
    return (size_t)snprintf(out, NOTE_BYTES, "%lld bytes, inode %llu, changed %lld.%09ld\n", (long long)st->st_size,
                            (unsigned long long)st->st_ino, (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
}

/* Whether the note of the last end describes this file. The note holds once: from now on the file is in use. */
static bool has_ended_orderly(const char *directory, const struct stat *st)
{
    char path[STORE_PATH_BYTES], expected[NOTE_BYTES], found[NOTE_BYTES] = "";
    size_t n = write_note(expected, st);
    int fd = open(store_file_path(path, directory, STORE_FILE_ORDERLY), O_RDONLY | O_CLOEXEC);
    ssize_t n_found;

    if (fd < 0)
        return false;
    n_found = read(fd, found, sizeof found);
    close(fd);
    return unlink(path) == 0 && n_found == (ssize_t)n && memcmp(found, expected, n) == 0;
}

static err examine(int fd, const char *path, size_t n, struct errinfo *ei)
{
    void *p = mmap(NULL, n, PROT_READ, MAP_SHARED, fd, 0);
    const char *fault;

    if (p == MAP_FAILED)
        return errinfo_set(ei, E_IO, "%s cannot be read: %s", path, strerror(errno));
    (void)madvise(p, n, MADV_WILLNEED);
    fault = store_pages_fault((struct str){p, n});
    munmap(p, n);
    return fault ? errinfo_set(ei, E_PROTO, "%s is damaged: %s", path, fault) : E_OK;
}

err store_file_examine(const char *directory, struct errinfo *ei)
{
    char path[STORE_PATH_BYTES];
    struct stat st;
    err e = E_OK;
    int fd = open(store_file_path(path, directory, STORE_FILE_DATA), O_RDONLY | O_CLOEXEC);

    if (fd < 0 && errno == ENOENT)
        return E_OK;
    if (fd < 0 || fstat(fd, &st))
        e = errinfo_set(ei, E_IO, "%s: %s", path, strerror(errno));
    /* Empty: ended between making the file and writing to it. */
    else if (st.st_size > 0 && !has_ended_orderly(directory, &st))
        e = examine(fd, path, (size_t)st.st_size, ei);
    if (fd >= 0)
        close(fd);
    return e;
}

void store_file_note_end(const char *directory)
{
    char path[STORE_PATH_BYTES], note[NOTE_BYTES];
    struct stat st;
    size_t n;
    int fd;

    if (stat(store_file_path(path, directory, STORE_FILE_DATA), &st))
        return;
    n = write_note(note, &st);
    fd = open(store_file_path(path, directory, STORE_FILE_ORDERLY), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    if (write(fd, note, n) != (ssize_t)n)
        (void)unlink(path);
    close(fd);
}

err store_file_erase(const char *directory, struct errinfo *ei)
{
    static const char *const names[] = {STORE_FILE_DATA, STORE_FILE_READERS, STORE_FILE_ORDERLY};
    char path[STORE_PATH_BYTES];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (unlink(store_file_path(path, directory, names[i])) && errno != ENOENT)
            return errinfo_set(ei, E_IO, "%s cannot be removed: %s", path, strerror(errno));
    return E_OK;
}
