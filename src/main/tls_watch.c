#include "main/tls_watch.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "loop/file_watch.h"
#include "main/revocation_options.h"
#include "main/tls_options.h"

struct tls_watch_file {
    char *path;
    struct file_watch_stamp seen;
};

static bool has_changed(struct tls_watch_file *f)
{
    struct file_watch_stamp now = file_watch_stamp(f->path);
    bool is_same = now.device == f->seen.device && now.inode == f->seen.inode && now.size == f->seen.size &&
                   now.modified_ns == f->seen.modified_ns && now.changed_ns == f->seen.changed_ns;

    f->seen = now;
    return !is_same;
}

static void on_look(struct timer *t)
{
    struct tls_watch *tw = CONTAINER_OF(t, struct tls_watch, look);
    bool is_moving = false;

    for (size_t i = 0; i < tw->n_files; i++)
        is_moving |= has_changed(&tw->files[i]);
    wheel_start(&tw->loop->wheel, &tw->look, TLS_WATCH_LOOK_MS);
    if (!is_moving && tw->is_changed) {
        tw->is_changed = false;
        tw->on_change(tw);
    } else {
        tw->is_changed |= is_moving;
    }
}

static void count_file(void *context, const char *path)
{
    (void)path;
    (*(size_t *)context)++;
}

/* What is being put together, and what was there before. */
struct lists {
    struct tls_watch *tw;
    struct tls_watch_file *before;
    size_t n_before;
    size_t room;
};

static void add_file(void *context, const char *path)
{
    struct lists *lists = context;
    struct tls_watch_file *f;

    if (lists->tw->n_files == lists->room)
        return; /* one more in a folder since they were counted: that has changed then, too */
    f = &lists->tw->files[lists->tw->n_files++];
    f->path = mem_copy_text(MEM_CONFIG, path, strlen(path));
    for (size_t i = 0; i < lists->n_before; i++)
        if (strcmp(lists->before[i].path, path) == 0) {
            f->seen = lists->before[i].seen;
            return;
        }
    f->seen = file_watch_stamp(path);
}

static void free_files(struct tls_watch_file *files, size_t n)
{
    for (size_t i = 0; i < n; i++)
        mem_free(MEM_CONFIG, files[i].path);
    mem_free(MEM_CONFIG, files);
}

void tls_watch_use(struct tls_watch *tw, const struct config *config, const char *file)
{
    struct lists lists = {.tw = tw, .before = tw->files, .n_before = tw->n_files};
    size_t n = 0;

    tls_options_list_files(config, file, count_file, &n);
    revocation_options_list_files(config, file, count_file, &n);
    lists.room = n;
    tw->files = n ? mem_alloc_zero(MEM_CONFIG, n * sizeof *tw->files) : NULL;
    tw->n_files = 0;
    tls_options_list_files(config, file, add_file, &lists);
    revocation_options_list_files(config, file, add_file, &lists);
    free_files(lists.before, lists.n_before);
    if (tw->n_files)
        wheel_start(&tw->loop->wheel, &tw->look, TLS_WATCH_LOOK_MS);
    else
        wheel_stop(&tw->look);
}

void tls_watch_open(struct tls_watch *tw, struct loop *l, const struct config *config, const char *file,
                    void (*on_change)(struct tls_watch *tw))
{
    *tw = (struct tls_watch){.loop = l, .on_change = on_change, .look = {.on_timer = on_look}};
    tls_watch_use(tw, config, file);
}

void tls_watch_close(struct tls_watch *tw)
{
    if (!tw->loop)
        return;
    wheel_stop(&tw->look);
    free_files(tw->files, tw->n_files);
    *tw = (struct tls_watch){0};
}
