#include "main/fanout_check.h"

#include <limits.h>
#include <stdio.h>

#include "config/report.h"
#include "fanout/fanout_config.h"
#include "fanout/fanout_source.h"

static bool has_source(const struct config_fanout *fanout, struct str name)
{
    for (size_t i = 0; i < fanout->sources.count; i++)
        if (str_equal(fanout->sources.items[i], name))
            return true;
    return false;
}

/* What the process can do, as far as the configuration tells; whether it will have a disk shows only there. */
static err build(const struct config *config, const struct fanout_text *text, const char *name, struct config_errors *errors)
{
    const struct fanout_abilities abilities = {.has_kafka = config->kafka.bootstrap.n || config->kafka.is_embedded,
                                               .has_disk = true};
    struct fanout_snapshot *snapshot = NULL;
    err e = fanout_config_build(buf_str(&text->bytes), name, 1, &abilities, &snapshot, errors);

    fanout_snapshot_unref(snapshot);
    return e;
}

err fanout_check(const struct config *config, struct config_errors *errors)
{
    static char name[PATH_MAX]; /* that messages refer to */
    struct fanout_source *source;
    struct fanout_text text = {0};
    struct errinfo ei = {0};
    err e;

    if (!config->fanout.is_enabled || !has_source(&config->fanout, STR("file")))
        return E_OK;
    source = fanout_source_file_new(config->fanout.config_dir);
    e = source->kind->read(source, &text, &ei);
    snprintf(name, sizeof name, "%s", text.name); /* cut at the end of the buffer */
    if (e == E_OK)
        e = build(config, &text, name, errors);
    else if (e == E_NOTFOUND && config->fanout.sources.count > 1)
        e = E_OK; /* what is put takes its place */
    else
        report_error(errors, name, 0, "%s", ei.text);
    buf_free(&text.bytes, MEM_CONFIG);
    source->kind->free(source);
    return e;
}
