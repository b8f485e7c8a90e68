#include "config/config.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/check.h"
#include "config/bind.h"
#include "config/option.h"
#include "config/overlay.h"
#include "config/report.h"
#include "config/verify.h"

/* What a snapshot is made of; the public part comes first and lives, as all it points to, in the arena. */
struct snapshot {
    struct config config;
    atomic_uint refs;
    struct arena arena;
    unsigned lines[OPTION_MAX]; /* of the options outside lists and maps, by row of the table */
};

static struct snapshot *snapshot_of(struct config *config)
{
    return CONTAINER_OF(config, struct snapshot, config);
}

static void snapshot_free(struct snapshot *snapshot)
{
    arena_wipe(&snapshot->arena, MEM_CONFIG);
    explicit_bzero(snapshot, sizeof *snapshot);
    mem_free(MEM_CONFIG, snapshot);
}

struct config *config_ref(struct config *config)
{
    atomic_fetch_add_explicit(&snapshot_of(config)->refs, 1, memory_order_relaxed);
    return config;
}

void config_unref(struct config *config)
{
    if (config && atomic_fetch_sub_explicit(&snapshot_of(config)->refs, 1, memory_order_acq_rel) == 1)
        snapshot_free(snapshot_of(config));
}

unsigned config_line(const struct config *config, size_t row)
{
    static_assert(offsetof(struct snapshot, config) == 0, "the public part comes first");
    const struct snapshot *snapshot = (const struct snapshot *)(const void *)config;

    return row < OPTION_MAX ? snapshot->lines[row] : 0;
}

/* By line, the command line last; errors of one line keep their order. */
static void sort_errors(struct config_errors *errors)
{
    for (size_t i = 1; i < errors->count; i++) {
        struct errinfo moved = errors->items[i];
        size_t k = i;

        for (; k > 0 && errors->items[k - 1].line - 1u > moved.line - 1u; k--)
            errors->items[k] = errors->items[k - 1];
        errors->items[k] = moved;
    }
}

static err read_tree(struct arena *a, const struct config_source *source, struct tree_node **out_root,
                     struct config_errors *errors)
{
    err e = tree_parse(a, source->text, source->name, out_root, errors);

    for (size_t i = 0; e == E_OK && i < source->setting_count && (*out_root)->kind == TREE_MAP; i++)
        overlay_apply(a, *out_root, str_from(source->settings[i].text), errors);
    return e;
}

err config_load(const struct config_source *source, struct config **out_config, struct config_errors *errors)
{
    struct snapshot *snapshot = mem_alloc_zero(MEM_CONFIG, sizeof *snapshot);
    struct bind_job job = {&snapshot->arena, source->name, errors, source->skips_secrets, snapshot->lines};
    struct arena scratch = {0};
    struct tree_node *root;
    err e;

    *errors = (struct config_errors){0};
    atomic_init(&snapshot->refs, 1);
    e = read_tree(&scratch, source, &root, errors);
    if (e == E_OK) {
        bind_config(&job, root, &snapshot->config);
        verify_config(&snapshot->config, root, source->name, errors);
    }
    if (errors->count && e == E_OK)
        e = E_INVAL;
    arena_wipe(&scratch, MEM_CONFIG);
    if (e == E_OK) {
        *out_config = &snapshot->config;
    } else {
        sort_errors(errors);
        snapshot_free(snapshot);
    }
    return e;
}

static err fail(struct config_errors *errors, const char *path, err code)
{
    report_error(errors, path, 0, "%s", strerror(errno));
    return code;
}

/* Ordinary files and pipes (`-c <(...)`) alike, up to one byte more than what is allowed. */
static err read_all(int fd, struct buf *text)
{
    enum { STEP_BYTES = 64 << 10 };

    for (;;) {
        char *to = buf_reserve(text, MEM_CONFIG, STEP_BYTES);
        ssize_t got = to ? read(fd, to, STEP_BYTES) : -1;

        if (!to)
            errno = ENOMEM;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return E_IO;
        buf_commit(text, (size_t)got);
        if (got == 0 || buf_size(text) > CONFIG_MAX_TEXT_BYTES)
            return E_OK;
    }
}

err config_load_file(const struct config_source *source, struct config **out_config, struct config_errors *errors)
{
    struct config_source with_text = *source;
    struct buf text = {0};
    int fd = open(source->name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    err e;

    *errors = (struct config_errors){0};
    if (fd < 0)
        return fail(errors, source->name, E_IO);
    e = read_all(fd, &text);
    if (e != E_OK)
        e = fail(errors, source->name, e);
    (void)close(fd); /* only read from */
    if (e == E_OK) {
        with_text.text = buf_str(&text);
        e = config_load(&with_text, out_config, errors);
    }
    if (text.p)
        explicit_bzero(text.p, text.cap); /* passwords */
    buf_free(&text, MEM_CONFIG);
    return e;
}
