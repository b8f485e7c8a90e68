#include "fanout/fanout_control.h"

#include "base/check.h"
#include "base/log.h"
#include "base/siphash.h"
#include "config/report.h"
#include "obs/metrics.h"

enum { SOURCES_MAX = 2 };

/* What tells one text from another. */
struct text_mark {
    uint64_t hash;
    size_t n;
    const struct fanout_source *source;
};

struct fanout_control {
    struct loop *loop;
    struct fanout_abilities abilities;
    bool isolates_channels;
    struct fanout_source *sources[SOURCES_MAX]; /* in their order */
    size_t n_sources;
    struct fanout_source *put; /* one of them, or NULL */
    fanout_control_apply apply;
    void *context;
    struct fanout_snapshot *now, *next; /* `next` while the workers take it over */
    struct text_mark mark, next_mark;
    struct config_errors next_errors; /* of the channels that `next` does not have as its text has them */
    struct mail applied;
    struct fanout_control_put *waiting; /* whose text `next` is */
    bool is_begun, is_applying, is_wanted;
    struct fanout_control_report report;
};

static struct metric results[FANOUT_CONTROL_STATUSES] = {
    [FANOUT_CONTROL_APPLIED] =
        {.name = "millrace_fanout_config_reload_total",
         .labels = "result=\"applied\"",
         .help = "Configurations of the fan-out that were looked at: applied; partial: applied but for "
                 "channels that are wrong; unchanged; failed: unreadable or invalid, so what held before holds",
         .kind = METRIC_COUNTER},
    [FANOUT_CONTROL_PARTIAL] = {.name = "millrace_fanout_config_reload_total",
                                .labels = "result=\"partial\"",
                                .kind = METRIC_COUNTER},
    [FANOUT_CONTROL_UNCHANGED] = {.name = "millrace_fanout_config_reload_total",
                                  .labels = "result=\"unchanged\"",
                                  .kind = METRIC_COUNTER},
    [FANOUT_CONTROL_FAILED] = {.name = "millrace_fanout_config_reload_total",
                               .labels = "result=\"failed\"",
                               .kind = METRIC_COUNTER},
};

static double read_generation(void *context)
{
    return (double)((struct fanout_control *)context)->now->generation;
}

static double read_status(void *context)
{
    const struct fanout_control *c = context;

    return c->report.status != FANOUT_CONTROL_FAILED && c->now->n_isolated == 0;
}

static double count_isolated(const struct fanout_control *c, bool is_kept)
{
    size_t n = 0;

    for (size_t i = 0; i < c->now->n_isolated; i++)
        n += (c->now->isolated[i].kept != NULL) == is_kept;
    return (double)n;
}

static double read_kept(void *context)
{
    return count_isolated(context, true);
}

static double read_left_out(void *context)
{
    return count_isolated(context, false);
}

static double read_channels(void *context)
{
    return (double)((struct fanout_control *)context)->now->n_channels;
}

static double read_subscriptions(void *context)
{
    return (double)((struct fanout_control *)context)->now->n_subscriptions;
}

static struct metric states[] = {
    {.name = "millrace_fanout_config_generation",
     .help = "Which configuration of the fan-out holds",
     .kind = METRIC_GAUGE,
     .read = read_generation},
    {.name = "millrace_fanout_config_last_reload_status",
     .help =
         "0: the last configuration that was looked at was not taken over, or not with all channels; GET /config and the log "
         "say why",
     .kind = METRIC_GAUGE,
     .read = read_status},
    {.name = "millrace_fanout_channels_isolated",
     .labels = "fate=\"kept\"",
     .help = "Channels whose configuration is wrong: kept as they were before, or left out",
     .kind = METRIC_GAUGE,
     .read = read_kept},
    {.name = "millrace_fanout_channels_isolated", .labels = "fate=\"left_out\"", .kind = METRIC_GAUGE, .read = read_left_out},
    {.name = "millrace_fanout_channels", .help = "Channels", .kind = METRIC_GAUGE, .read = read_channels},
    {.name = "millrace_fanout_subscriptions",
     .help = "Subscriptions of all channels",
     .kind = METRIC_GAUGE,
     .read = read_subscriptions},
};

/* --- how it ends --- */

static void log_errors(const struct config_errors *errors)
{
    for (size_t i = 0; i < errors->count; i++)
        LOG_ERROR(LOG_CONFIG, "fanout.invalid", F_TEXT("file", errors->items[i].file), F_INT("line", errors->items[i].line),
                  F_TEXT("why", errors->items[i].text));
    if (errors->omitted)
        LOG_ERROR(LOG_CONFIG, "fanout.invalid_more", F_INT("errors", errors->omitted));
}

/* Whom a configuration does not have as its text has it. */
static void log_isolated(const struct fanout_snapshot *now)
{
    for (size_t i = 0; i < now->n_isolated; i++) {
        const struct fanout_isolated *one = &now->isolated[i];

        LOG_WARN(LOG_CONFIG, one->kept ? "fanout.channel.kept" : "fanout.channel.left_out", F_STR("channel", one->key),
                 F_INT("line", one->line), F_INT("generation", one->kept ? one->kept->donor->generation : now->generation));
    }
}

static void note(struct fanout_control *c, enum fanout_control_status status, const struct fanout_source *source,
                 const struct config_errors *errors)
{
    c->report = (struct fanout_control_report){.status = status,
                                               .at_ms = loop_wall_ms(),
                                               .generation = c->now ? c->now->generation : 0,
                                               .source = source ? source->kind->name : STR("")};
    metric_add(&results[status], 1);
    if (status != FANOUT_CONTROL_FAILED && status != FANOUT_CONTROL_PARTIAL)
        return;
    c->report.errors = *errors;
    log_errors(errors);
    if (status == FANOUT_CONTROL_PARTIAL)
        log_isolated(c->now);
    else if (c->now)
        LOG_WARN(LOG_CONFIG, "fanout.kept", F_INT("generation", c->now->generation));
}

/* --- reading and building --- */

static struct text_mark mark_of(const struct fanout_source *source, struct str text)
{
    return (struct text_mark){siphash(text), text.n, source};
}

static bool is_marked(const struct text_mark *a, const struct text_mark *b)
{
    return a->source == b->source && a->n == b->n && a->hash == b->hash;
}

/* The first source that has something, or E_NOTFOUND. `*out_source` is the last one asked. */
static err pick(struct fanout_control *c, struct fanout_source **out_source, struct fanout_text *out_text,
                struct config_errors *errors)
{
    struct errinfo ei = {0};
    err e = E_NOTFOUND;

    for (size_t i = 0; i < c->n_sources && e == E_NOTFOUND; i++) {
        *out_source = c->sources[i];
        e = c->sources[i]->kind->read(c->sources[i], out_text, &ei);
    }
    if (e != E_OK && !(e == E_NOTFOUND && c->put)) /* where puts are taken, nothing is what there is at first */
        report_error(errors, out_text->name, 0, "%s", ei.text);
    return e;
}

static err build(struct fanout_control *c, const struct fanout_source *source, const struct fanout_text *text,
                 struct fanout_snapshot **out_snapshot, struct config_errors *errors)
{
    uint64_t counted = c->now ? c->now->generation + 1 : 1, generation = text->generation ? text->generation : counted;
    struct str bytes = buf_str(&text->bytes);
    err e;

    if (c->isolates_channels)
        e = fanout_config_build_isolated(bytes, text->name, generation, &c->abilities, c->now, out_snapshot, errors);
    else
        e = fanout_config_build(bytes, text->name, generation, &c->abilities, out_snapshot, errors);

    if (e == E_OK)
        (*out_snapshot)->source = source->kind->name;
    return e;
}

/* --- the change --- */

static void look(struct fanout_control *c);

static void on_applied(struct mail *m)
{
    struct fanout_control *c = CONTAINER_OF(m, struct fanout_control, applied);
    struct fanout_control_put *put = c->waiting;

    fanout_snapshot_unref(c->now);
    c->now = c->next;
    c->mark = c->next_mark;
    c->next = NULL;
    c->waiting = NULL;
    c->is_applying = false;
    LOG_INFO(LOG_CONFIG, "fanout.applied", F_STR("source", c->now->source), F_INT("generation", c->now->generation),
             F_INT("channels", c->now->n_channels), F_INT("subscriptions", c->now->n_subscriptions));
    note(c, c->now->n_isolated ? FANOUT_CONTROL_PARTIAL : FANOUT_CONTROL_APPLIED, c->mark.source, &c->next_errors);
    if (put)
        put->on_done(put, c->now);
    if (c->is_wanted && c->is_begun)
        look(c);
}

/* The snapshot's reference is taken. */
static void change(struct fanout_control *c, struct fanout_snapshot *next, struct text_mark mark)
{
    c->next = next;
    c->next_mark = mark;
    c->is_applying = true;
    c->apply(c->context, next, &c->applied, &c->loop->mailbox);
}

static void look(struct fanout_control *c)
{
    static struct config_errors errors; /* larger than a stack frame should be */
    struct fanout_snapshot *next = NULL;
    struct fanout_source *source = NULL;
    struct fanout_text text = {0};
    struct text_mark mark;
    err e;

    errors = (struct config_errors){0};
    c->is_wanted = false;
    e = pick(c, &source, &text, &errors);
    mark = mark_of(source, buf_str(&text.bytes));
    if (e == E_OK && is_marked(&mark, &c->mark)) {
        note(c, FANOUT_CONTROL_UNCHANGED, source, NULL);
    } else if (errors.count || build(c, source, &text, &next, &errors) != E_OK) {
        note(c, FANOUT_CONTROL_FAILED, source, &errors);
    } else {
        c->next_errors = errors;
        change(c, next, mark);
    }
    buf_free(&text.bytes, MEM_CONFIG);
}

void fanout_control_reload(struct fanout_control *c)
{
    if (c->is_begun && !c->is_applying)
        look(c);
    else
        c->is_wanted = true;
}

static void on_source_change(struct fanout_source *source)
{
    fanout_control_reload(source->owner);
}

/* --- puts --- */

/* Whether the source that holds comes before `put`. */
static bool is_outranked(const struct fanout_control *c)
{
    for (size_t i = 0; i < c->n_sources && c->sources[i] != c->put; i++)
        if (c->mark.source == c->sources[i])
            return true;
    return false;
}

static err check_put(struct fanout_control *c, struct config_errors *errors)
{
    static const char name[] = "PUT /config";

    *errors = (struct config_errors){0};
    if (!c->put) {
        report_error(errors, name, 0, "fanout.sources does not have put: the configuration comes from elsewhere");
        return E_DENIED;
    }
    if (is_outranked(c)) {
        report_error(errors, name, 0, "the configuration of the source %.*s comes first", STR_ARG(c->now->source));
        return E_DENIED;
    }
    if (c->is_applying || !c->is_begun) {
        report_error(errors, name, 0, "another change is under way");
        return E_AGAIN;
    }
    return E_OK;
}

static err check_generation(struct fanout_control *c, const struct fanout_control_put *put, uint64_t generation,
                            struct config_errors *errors)
{
    static const char name[] = "PUT /config";
    uint64_t last = fanout_source_put_generation(c->put);

    if (generation == 0) {
        report_error(errors, name, 0, "no generation: a number above %llu is needed", (unsigned long long)last);
        return E_NOTFOUND;
    }
    if (put->generation && put->generation != generation) {
        report_error(errors, name, 0, "the text has generation %llu, the request %llu", (unsigned long long)generation,
                     (unsigned long long)put->generation);
        return E_INVAL;
    }
    if (generation <= last) {
        report_error(errors, name, 0, "generation %llu is not above %llu", (unsigned long long)generation,
                     (unsigned long long)last);
        return E_LIMIT;
    }
    return E_OK;
}

static err store(struct fanout_control *c, struct str text, uint64_t generation, struct config_errors *errors)
{
    struct errinfo ei = {0};
    err e = fanout_source_put_store(c->put, text, generation, &ei);

    if (e != E_OK)
        report_error(errors, "PUT /config", 0, "%s", ei.text);
    return e;
}

err fanout_control_put(struct fanout_control *c, struct fanout_control_put *put, struct config_errors *errors)
{
    struct fanout_snapshot *next = NULL;
    err e = check_put(c, errors);

    if (e != E_OK)
        return e;
    e = fanout_config_build(put->text, "PUT /config", put->generation, &c->abilities, &next, errors);
    if (e == E_OK)
        e = check_generation(c, put, next->generation, errors);
    if (e == E_OK)
        e = store(c, put->text, next->generation, errors); /* first: what was told to hold must hold after a restart */
    if (e != E_OK) {
        fanout_snapshot_unref(next);
        note(c, FANOUT_CONTROL_FAILED, c->put, errors);
        return e;
    }
    next->source = c->put->kind->name;
    c->waiting = put;
    change(c, next, mark_of(c->put, put->text));
    return E_OK;
}

/* Looks at what comes next without what was put. If that is broken, what was put is kept after all. */
static err go_on_without(struct fanout_control *c, const struct fanout_text *kept, struct config_errors *errors)
{
    look(c);
    if (c->is_applying || c->report.status != FANOUT_CONTROL_FAILED)
        return E_OK;
    *errors = c->report.errors;
    if (kept->generation && store(c, buf_str(&kept->bytes), kept->generation, errors) != E_OK)
        return E_IO;
    return E_INVAL;
}

err fanout_control_forget(struct fanout_control *c, struct fanout_control_put *put, struct config_errors *errors)
{
    struct fanout_text kept = {0};
    struct errinfo ei = {0};
    err e = check_put(c, errors);

    if (e != E_OK)
        return e;
    e = c->put->kind->read(c->put, &kept, &ei);
    if (e == E_OK || e == E_NOTFOUND)
        e = fanout_source_put_forget(c->put, &ei);
    if (e != E_OK) {
        report_error(errors, "DELETE /config", 0, "%s", ei.text);
        e = E_IO;
    } else {
        c->waiting = put;
        e = go_on_without(c, &kept, errors);
        if (!c->is_applying)
            c->waiting = NULL;
        if (!c->is_applying && e == E_OK) /* there is nothing new to wait for */
            put->on_done(put, c->now);
    }
    buf_free(&kept.bytes, MEM_CONFIG);
    return e;
}

/* --- life --- */

static void make_sources(struct fanout_control *c, const struct config *config)
{
    const struct config_strings *names = &config->fanout.sources;

    for (size_t i = 0; i < names->count && c->n_sources < SOURCES_MAX; i++) {
        struct fanout_source *source;

        if (str_equal(names->items[i], STR("put")))
            source = c->put = fanout_source_put_new(config->data_dir);
        else
            source = fanout_source_file_new(config->fanout.config_dir);
        source->on_change = on_source_change;
        source->owner = c;
        c->sources[c->n_sources++] = source;
    }
}

static err take_first(struct fanout_control *c, struct config_errors *errors)
{
    struct fanout_source *source = NULL;
    struct fanout_text text = {0};
    err e = pick(c, &source, &text, errors);

    if (errors->count == 0) {
        e = build(c, source, &text, &c->now, errors);
        c->mark = mark_of(source, buf_str(&text.bytes));
    }
    buf_free(&text.bytes, MEM_CONFIG);
    return e;
}

err fanout_control_open(const struct fanout_control_settings *settings, struct fanout_control **out_control,
                        struct config_errors *errors)
{
    struct fanout_control *c = mem_alloc_zero(MEM_CONFIG, sizeof *c);
    err e;

    *errors = (struct config_errors){0};
    c->loop = settings->loop;
    c->abilities = settings->abilities;
    c->isolates_channels = settings->config->fanout.isolates_channels;
    c->applied.on_mail = on_applied;
    make_sources(c, settings->config);
    e = take_first(c, errors);
    *out_control = c; /* the names in `errors` are its sources' */
    if (e != E_OK)
        return e;
    metrics_register(results, FANOUT_CONTROL_STATUSES);
    for (size_t i = 0; i < ARRAY_LEN(states); i++)
        states[i].context = c;
    metrics_register(states, ARRAY_LEN(states));
    note(c, c->now->n_isolated ? FANOUT_CONTROL_PARTIAL : FANOUT_CONTROL_APPLIED, c->mark.source, errors);
    return E_OK;
}

void fanout_control_begin(struct fanout_control *c, fanout_control_apply apply, void *context)
{
    c->apply = apply;
    c->context = context;
    c->is_begun = true;
    for (size_t i = 0; i < c->n_sources; i++)
        if (c->sources[i]->kind->watch)
            c->sources[i]->kind->watch(c->sources[i], c->loop);
    if (c->is_wanted)
        look(c);
}

void fanout_control_end(struct fanout_control *c)
{
    struct fanout_control_put *put = c->waiting;

    c->is_begun = false;
    c->waiting = NULL;
    if (put)
        put->on_done(put, c->now);
}

void fanout_control_free(struct fanout_control *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->n_sources; i++)
        c->sources[i]->kind->free(c->sources[i]);
    fanout_snapshot_unref(c->next);
    fanout_snapshot_unref(c->now);
    mem_free(MEM_CONFIG, c);
}

struct fanout_snapshot *fanout_control_now(const struct fanout_control *c)
{
    return c->now;
}

const struct fanout_control_report *fanout_control_report(const struct fanout_control *c)
{
    return &c->report;
}

bool fanout_control_takes_puts(const struct fanout_control *c)
{
    return c->put != NULL;
}

uint64_t fanout_control_put_generation(const struct fanout_control *c)
{
    return c->put ? fanout_source_put_generation(c->put) : 0;
}
