#include "main/server_fanout.h"

#include <limits.h>
#include <stdio.h>

#include "base/log.h"
#include "fanout/fanout.h"
#include "fanout/fanout_admin.h"
#include "fanout/fanout_park_disk.h"
#include "fanout/fanout_park_metrics.h"
#include "main/process.h"

/* The first error as one text; all of them are in the log. */
static err report(const struct config_errors *errors, err e, struct errinfo *ei)
{
    const struct errinfo *first = &errors->items[0];

    for (size_t i = 0; i < errors->count; i++)
        LOG_ERROR(LOG_CONFIG, "fanout.invalid", F_TEXT("file", errors->items[i].file), F_INT("line", errors->items[i].line),
                  F_TEXT("why", errors->items[i].text));
    if (first->line)
        return errinfo_set(ei, e, "%s:%u: %s", first->file, first->line, first->text);
    return errinfo_set(ei, e, "%s: %s", first->file, first->text);
}

static err open_control(struct server_fanout *f, const struct server_fanout_settings *settings, struct errinfo *ei)
{
    static struct config_errors errors; /* larger than a stack frame should be */
    struct fanout_control_settings control = {
        .loop = settings->loop,
        .config = f->config,
        .abilities = {.has_kafka = settings->sink != NULL, .has_disk = settings->has_disk},
    };
    err e = fanout_control_open(&control, &f->control, &errors);

    return e == E_OK ? E_OK : report(&errors, e, ei);
}

/* Only where it can be used: an event may be parked by a configuration that comes later. */
static err open_park(struct server_fanout *f, const struct server_fanout_settings *settings, struct errinfo *ei)
{
    char path[PATH_MAX];
    struct fanout_park_settings park = {
        .path = path,
        .max_bytes = f->config->fanout.park_max_bytes,
        .delay_ms = (uint32_t)f->config->fanout.park_delay_ms,
        .delay_max_ms = (uint32_t)f->config->fanout.park_delay_max_ms,
    };

    err e;

    if (!settings->has_disk)
        return E_OK;
    e = process_make_data_dir(f->config, ei);
    if (e != E_OK)
        return e;
    if (snprintf(path, sizeof path, "%.*s/fanout-park", STR_ARG(f->config->data_dir)) >= (int)sizeof path)
        return errinfo_set(ei, E_INVAL, "the path of data_dir is too long");
    fanout_park_metrics_register();
    return fanout_park_disk_open(&park, &f->park, ei);
}

static void note_https(const struct server_fanout *f)
{
    if (f->on_https)
        f->on_https(f->context);
}

err server_fanout_open(struct server_fanout *f, const struct server_fanout_settings *settings, struct errinfo *ei)
{
    struct fanout_settings plane = {
        .workers = settings->workers, .config = settings->config, .sink = settings->sink, .tls = settings->tls};
    err e;

    *f = (struct server_fanout){.home = &settings->loop->mailbox,
                                .config = config_ref(settings->config),
                                .on_https = settings->on_https,
                                .context = settings->context};
    e = open_control(f, settings, ei);
    if (e == E_OK)
        e = open_park(f, settings, ei);
    plane.park = f->park ? fanout_park_disk_port(f->park) : NULL;
    if (e == E_OK)
        e = fanout_open(&plane, &f->plane, ei);
    if (e != E_OK)
        return e;
    f->admin = fanout_admin_new(f->control, f->config, f->park, f->plane, f->home);
    if (fanout_control_now(f->control)->has_https || f->config->fanout.stateless_token.n)
        note_https(f);
    return E_OK;
}

const struct http_route *server_fanout_routes(const struct server_fanout *f, size_t *out_n)
{
    *out_n = 0;
    return f->admin ? fanout_admin_routes(f->admin, out_n) : NULL;
}

void server_fanout_start(struct server_fanout *f, struct mail *done)
{
    fanout_start(f->plane, fanout_control_now(f->control), done, f->home);
}

static void apply(void *context, struct fanout_snapshot *next, struct mail *done, struct mailbox *home)
{
    struct server_fanout *f = context;

    if (next->has_https)
        note_https(f);
    fanout_apply(f->plane, next, done, home);
}

void server_fanout_follow(struct server_fanout *f)
{
    fanout_control_begin(f->control, apply, f);
    if (f->park)
        fanout_park_disk_start(f->park, fanout_carrier(f->plane));
}

void server_fanout_use_tls(struct server_fanout *f, struct tls *tls)
{
    if (f->plane && tls)
        fanout_use_tls(f->plane, tls);
}

void server_fanout_reload(struct server_fanout *f)
{
    if (f->control)
        fanout_control_reload(f->control);
}

void server_fanout_drain(struct server_fanout *f, struct mail *done)
{
    bool is_second = f->drained != NULL;
    uint32_t grace_ms = is_second ? 0 : (uint32_t)f->config->fanout.grace_ms;
    uint32_t limit_ms = is_second ? 0 : (uint32_t)f->config->drain_timeout_ms;

    if (!is_second) {
        fanout_control_end(f->control);
        if (f->park)
            fanout_park_disk_rest(f->park);
    }
    f->drained = done;
    fanout_drain(f->plane, grace_ms, limit_ms, done, f->home);
}

void server_fanout_name(const struct server_fanout *f, char *to, size_t size)
{
    fanout_name(f->plane, to, size);
}

void server_fanout_free(struct server_fanout *f)
{
    if (f->control)
        fanout_control_end(f->control);
    fanout_park_disk_stop(f->park); /* answers what was put; what it has under way ends with the plane */
    fanout_free(f->plane);
    fanout_park_disk_close(f->park);
    fanout_admin_free(f->admin);
    fanout_control_free(f->control);
    config_unref(f->config);
    *f = (struct server_fanout){0};
}
