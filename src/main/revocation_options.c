#include "main/revocation_options.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/buf.h"
#include "config/report.h"
#include "main/tls_options.h"
#include "registry/revocation_list.h"

enum { MAX_FILES = 1000 };

static int is_list(const struct dirent *entry)
{
    struct str name = str_from(entry->d_name), end = str_from_offset(name, name.n > 4 ? name.n - 4 : name.n);

    return entry->d_name[0] != '.' && (str_equal(end, STR(".crl")) || str_equal(end, STR(".pem")));
}

static err read_file(const char *path, struct buf *out, struct errinfo *ei)
{
    FILE *file = fopen(path, "rbe");
    struct stat status;
    err e = E_OK;
    char *to;
    size_t n;

    if (!file)
        return errinfo_set(ei, E_IO, "%s", strerror(errno));
    if (fstat(fileno(file), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > REVOCATION_LIST_FILE_BYTES)
        e = errinfo_set(ei, E_LIMIT, "is no file, or larger than %d MiB", REVOCATION_LIST_FILE_BYTES >> 20);
    while (e == E_OK && (to = buf_reserve(out, MEM_CONFIG, BUFSIZ)) && (n = fread(to, 1, BUFSIZ, file)) > 0)
        buf_commit(out, n);
    if (e == E_OK && (ferror(file) || buf_size(out) > REVOCATION_LIST_FILE_BYTES))
        e = errinfo_set(ei, E_IO, "cannot be read");
    (void)fclose(file); /* it was only read */
    return e;
}

static err load_one(const char *path, struct revocation_lists *lists, struct errinfo *ei)
{
    struct buf text = {0};
    err e = read_file(path, &text, ei);

    if (e == E_OK)
        e = revocation_list_add(lists, buf_str(&text), ei);
    buf_free(&text, MEM_CONFIG);
    return e;
}

/* Calls `each` for the lists, in the order of their names. E_IO: errno says why the folder cannot be read; E_LIMIT: there are too many. */
static err walk(const char *folder, err (*each)(void *context, const char *path), void *context)
{
    struct dirent **entries;
    int n = scandir(folder, &entries, is_list, alphasort);
    err e = n < 0 ? E_IO : n > MAX_FILES ? E_LIMIT : E_OK;

    for (int i = 0; i < n; i++) {
        char path[PATH_MAX];
        int path_n = snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);

        if (e == E_OK && path_n < (int)sizeof path)
            e = each(context, path);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
    return e;
}

struct loading {
    struct revocation_lists *lists;
    const char *file;
    struct config_errors *errors;
    bool is_bad;
};

/* Goes on to the next, so that all that is wrong is told. */
static err load_each(void *context, const char *path)
{
    struct loading *loading = context;
    struct errinfo ei = {0};

    if (load_one(path, loading->lists, &ei) != E_OK) {
        report_error(loading->errors, loading->file, 0, "authentication.revocation.crl_dir: %s: %s", path, ei.text);
        loading->is_bad = true;
    }
    return E_OK;
}

err revocation_options_load(const struct config *config, const char *file, struct revocation_lists **out_lists,
                            struct config_errors *errors)
{
    struct str folder = config->authentication.revocation.crl_dir;
    struct loading loading = {.file = file, .errors = errors};
    struct arena arena = {0};
    const char *path;
    err e;

    *out_lists = NULL;
    if (folder.n == 0)
        return E_OK;
    path = tls_options_path(&arena, file, folder);
    loading.lists = revocation_list_new();
    e = walk(path, load_each, &loading);
    if (e == E_IO)
        report_error(errors, file, 0, "authentication.revocation.crl_dir: %s: %s", path, strerror(errno));
    else if (e == E_LIMIT)
        report_error(errors, file, 0, "authentication.revocation.crl_dir: %s: has more than %d lists", path, MAX_FILES);
    arena_free(&arena, MEM_CONFIG);
    if (e != E_OK || loading.is_bad) {
        revocation_list_unref(loading.lists);
        return E_INVAL;
    }
    *out_lists = loading.lists;
    return E_OK;
}

struct listing {
    void (*each)(void *context, const char *path);
    void *context;
};

static err list_each(void *context, const char *path)
{
    const struct listing *listing = context;

    listing->each(listing->context, path);
    return E_OK;
}

void revocation_options_list_files(const struct config *config, const char *file, void (*each)(void *context, const char *path),
                                   void *context)
{
    struct listing listing = {each, context};
    struct str folder = config->authentication.revocation.crl_dir;
    struct arena arena = {0};
    const char *path;

    if (folder.n == 0)
        return;
    path = tls_options_path(&arena, file, folder);
    each(context, path);
    ERR_IGNORE(walk(path, list_each, &listing)); /* what cannot be read has been told when it was loaded */
    arena_free(&arena, MEM_CONFIG);
}
