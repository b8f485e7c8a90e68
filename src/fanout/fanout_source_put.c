#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "fanout/fanout_file.h"
#include "fanout/fanout_source.h"

/* The file begins with a line of its own, a comment to whoever reads it: the generation, and whether the rest counts. */
#define HEAD "# put, generation "
#define GONE " (deleted)"

enum { HEAD_BYTES = 64 };

struct source_put {
    struct fanout_source base;
    char folder[PATH_MAX];
    char path[PATH_MAX + 32];
    uint64_t generation;
};

/* Takes the first line off. False: it is not one of ours. */
static bool take_head(struct buf *bytes, uint64_t *out_generation, bool *out_is_gone)
{
    static const struct str head = STR_INIT(HEAD), gone = STR_INIT(GONE);
    struct str rest = buf_str(bytes), line;
    bool has_more;

    line = str_take(&rest, '\n', &has_more);
    if (!has_more || !str_starts_with(line, head))
        return false;
    buf_consume(bytes, line.n + 1);
    line = str_from_offset(line, head.n);
    *out_is_gone = line.n > gone.n && str_equal(str_from_offset(line, line.n - gone.n), gone);
    if (*out_is_gone)
        line.n -= gone.n;
    return str_to_u64(line, INT64_MAX, out_generation) && *out_generation > 0;
}

static err put_read(struct fanout_source *base, struct fanout_text *out_text, struct errinfo *ei)
{
    struct source_put *s = CONTAINER_OF(base, struct source_put, base);
    bool is_gone = false;
    err e;

    out_text->name = s->path;
    e = fanout_file_read(s->path, &out_text->bytes, ei);
    if (e == E_NOTFOUND)
        return errinfo_set(ei, e, "nothing was put yet");
    if (e != E_OK)
        return e;
    if (!take_head(&out_text->bytes, &s->generation, &is_gone))
        return errinfo_set(ei, E_IO, "not a file of ours: its first line does not tell a generation");
    if (is_gone)
        return errinfo_set(ei, E_NOTFOUND, "what was put was deleted");
    out_text->generation = s->generation;
    return E_OK;
}

/* Each folder of the path that is missing; whether that went well shows when the file is made. */
static void make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    (void)mkdir(path, 0700);
}

static err keep(struct source_put *s, const char *mark, struct str text, uint64_t generation, struct errinfo *ei)
{
    char head[HEAD_BYTES];
    int n = snprintf(head, sizeof head, HEAD "%" PRIu64 "%s\n", generation, mark);
    err e;

    make_folders(s->folder);
    e = fanout_file_replace(s->path, (struct str){head, (size_t)n}, text, 0600, ei);
    if (e == E_OK)
        s->generation = generation;
    return e;
}

err fanout_source_put_store(struct fanout_source *source, struct str text, uint64_t generation, struct errinfo *ei)
{
    return keep(CONTAINER_OF(source, struct source_put, base), "", text, generation, ei);
}

err fanout_source_put_forget(struct fanout_source *source, struct errinfo *ei)
{
    struct source_put *s = CONTAINER_OF(source, struct source_put, base);

    return s->generation ? keep(s, GONE, (struct str){0}, s->generation, ei) : E_OK;
}

uint64_t fanout_source_put_generation(const struct fanout_source *source)
{
    return ((const struct source_put *)source)->generation;
}

static void put_free(struct fanout_source *base)
{
    mem_free(MEM_CONFIG, CONTAINER_OF(base, struct source_put, base));
}

static const struct fanout_source_kind kind = {STR_INIT("put"), put_read, NULL, put_free};

struct fanout_source *fanout_source_put_new(struct str data_folder)
{
    struct source_put *s = mem_alloc_zero(MEM_CONFIG, sizeof *s);

    s->base.kind = &kind;
    snprintf(s->folder, sizeof s->folder, "%.*s", STR_ARG(data_folder)); /* the option is bounded at 4000 bytes */
    snprintf(s->path, sizeof s->path, "%s/fanout-config", s->folder);
    return &s->base;
}
