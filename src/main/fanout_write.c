#include "main/fanout_write.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "config/tree.h"
#include "fanout/fanout_config.h"
#include "fanout/fanout_file.h"
#include "fanout/fanout_source.h"

enum { STEP_BYTES = 64 << 10 };

static err read_stdin(struct buf *text, struct errinfo *ei)
{
    while (!feof(stdin) && buf_size(text) <= CONFIG_MAX_TEXT_BYTES) {
        char *to = buf_reserve(text, MEM_CONFIG, STEP_BYTES);

        if (!to)
            return errinfo_set(ei, E_NOMEM, "no memory");
        buf_commit(text, fread(to, 1, STEP_BYTES, stdin));
        if (ferror(stdin))
            return errinfo_set(ei, E_IO, "cannot be read");
    }
    return E_OK;
}

/* Whether the text, which is good, is in Knative's form. */
static bool is_knative(struct str text, const char *name)
{
    static struct config_errors errors; /* larger than a stack frame should be */
    struct arena scratch = {0};
    struct tree_node *root = NULL;
    bool is_its = tree_parse(&scratch, text, name, &root, &errors) == E_OK && tree_find(root, STR("channelConfigs"));

    arena_free(&scratch, MEM_CONFIG);
    return is_its;
}

/* What the running process can do is not known here, so everything is let pass that some process could. */
static err check(struct str text, const char *name)
{
    static const struct fanout_abilities all = {.has_kafka = true, .has_disk = true};
    static struct config_errors errors; /* larger than a stack frame should be */
    struct fanout_snapshot *snapshot = NULL;
    err e = fanout_config_build(text, name, 1, &all, &snapshot, &errors);

    if (e != E_OK)
        cli_print_errors(stderr, &errors);
    fanout_snapshot_unref(snapshot);
    return e;
}

static err replace(const char *folder, struct str text, const char *name, struct errinfo *ei)
{
    const char *file = is_knative(text, name) ? FANOUT_SOURCE_FILE_KNATIVE : FANOUT_SOURCE_FILE_OURS;
    char path[PATH_MAX];
    err e;

    if (strcmp(file, FANOUT_SOURCE_FILE_KNATIVE) == 0 && strcmp(fanout_source_file_choose(folder), file) != 0)
        return errinfo_set(ei, E_BUSY, "%s in %s comes before %s; remove it first", FANOUT_SOURCE_FILE_OURS, folder, file);
    if (snprintf(path, sizeof path, "%s/%s", folder, file) >= (int)sizeof path)
        return errinfo_set(ei, E_INVAL, "the path is too long");
    e = fanout_file_replace(path, (struct str){0}, text, 0644, ei);
    if (e == E_OK)
        printf("%s\n", path);
    return e;
}

static err write_config(const struct cli *cli, const char *folder)
{
    bool is_file = cli->from && strcmp(cli->from, "-") != 0;
    const char *name = is_file ? cli->from : "stdin";
    struct errinfo ei = {0};
    struct buf text = {0};
    err e = is_file ? fanout_file_read(cli->from, &text, &ei) : read_stdin(&text, &ei);

    if (e != E_OK)
        fprintf(stderr, "%s: %s\n", name, ei.text);
    if (e == E_OK)
        e = check(buf_str(&text), name);
    if (e == E_OK) {
        e = replace(folder, buf_str(&text), name, &ei);
        if (e != E_OK)
            fprintf(stderr, "millrace: %s\n", ei.text);
    }
    buf_free(&text, MEM_CONFIG);
    return e;
}

int fanout_write_run(const struct cli *cli)
{
    static struct config_errors errors; /* larger than a stack frame should be */
    struct config *config;
    err e = cli_load_config(cli, &config, &errors);

    if (e != E_OK) {
        cli_print_errors(stderr, &errors);
        return EXIT_FAILURE;
    }
    e = write_config(cli, config->fanout.config_dir.p);
    config_unref(config);
    return e == E_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
