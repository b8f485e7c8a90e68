#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "fanout/fanout_file.h"
#include "fanout/fanout_source.h"
#include "loop/file_watch.h"

enum { SETTLE_MS = 100 }; /* a mounted folder is exchanged at once; a file written in place by hand takes a few writes */

/* The first that is there counts. */
static const char *const names[] = {FANOUT_SOURCE_FILE_OURS, FANOUT_SOURCE_FILE_KNATIVE};

enum { FILES = ARRAY_LEN(names), FILE_PATH_BYTES = PATH_MAX + 32 }; /* our names are shorter than 32 */

/* One of the files. */
struct place {
    struct source_file *source;
    char path[FILE_PATH_BYTES];
    struct file_watch_stamp seen;
    struct file_watch watch;
};

struct source_file {
    struct fanout_source base;
    char folder[PATH_MAX];
    struct place places[FILES];
};

const char *fanout_source_file_choose(const char *folder)
{
    char path[FILE_PATH_BYTES];

    snprintf(path, sizeof path, "%s/%s", folder, FANOUT_SOURCE_FILE_OURS);
    return access(path, F_OK) == 0 ? FANOUT_SOURCE_FILE_OURS : FANOUT_SOURCE_FILE_KNATIVE;
}

/* The stamps are from before the reading, so that a change in between is seen when the watch begins. */
static err file_read(struct fanout_source *base, struct fanout_text *out_text, struct errinfo *ei)
{
    struct source_file *s = CONTAINER_OF(base, struct source_file, base);
    err e = E_NOTFOUND;

    for (size_t i = 0; i < FILES; i++)
        s->places[i].seen = file_watch_stamp(s->places[i].path);
    for (size_t i = 0; i < FILES && e == E_NOTFOUND; i++) {
        out_text->name = s->places[i].path;
        e = fanout_file_read(s->places[i].path, &out_text->bytes, ei);
    }
    if (e == E_NOTFOUND) {
        out_text->name = s->folder;
        return errinfo_set(ei, e, "neither %s nor %s is there", names[0], names[1]);
    }
    return e;
}

static void on_file_change(struct file_watch *fw)
{
    struct source_file *s = CONTAINER_OF(fw, struct place, watch)->source;

    s->base.on_change(&s->base);
}

static void file_watch(struct fanout_source *base, struct loop *l)
{
    struct source_file *s = CONTAINER_OF(base, struct source_file, base);

    for (size_t i = 0; i < FILES; i++) {
        struct place *at = &s->places[i];
        struct errinfo ei = {0};

        if (file_watch_open(&at->watch, l, at->path, SETTLE_MS, &at->seen, on_file_change, &ei) != E_OK)
            LOG_WARN(LOG_CONFIG, "fanout.watch", F_TEXT("why", ei.text));
    }
}

static void file_free(struct fanout_source *base)
{
    struct source_file *s = CONTAINER_OF(base, struct source_file, base);

    for (size_t i = 0; i < FILES; i++)
        file_watch_close(&s->places[i].watch);
    mem_free(MEM_CONFIG, s);
}

static const struct fanout_source_kind kind = {STR_INIT("file"), file_read, file_watch, file_free};

struct fanout_source *fanout_source_file_new(struct str folder)
{
    struct source_file *s = mem_alloc_zero(MEM_CONFIG, sizeof *s);

    while (folder.n > 1 && folder.p[folder.n - 1] == '/')
        folder.n--;
    s->base.kind = &kind;
    snprintf(s->folder, sizeof s->folder, "%.*s", STR_ARG(folder)); /* the option is bounded at 4000 bytes */
    for (size_t i = 0; i < FILES; i++) {
        s->places[i].source = s;
        snprintf(s->places[i].path, sizeof s->places[i].path, "%s/%s", s->folder, names[i]);
    }
    return &s->base;
}
