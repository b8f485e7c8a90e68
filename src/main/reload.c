#include "main/reload.h"

#include <stdio.h>

#include "adapter/mqtt/mqtt_reload.h"
#include "base/check.h"
#include "base/log.h"
#include "config/config_diff.h"
#include "core/rule_table.h"
#include "main/revocation_options.h"
#include "main/rule_limits.h"
#include "main/rule_options.h"
#include "main/server.h"
#include "main/tls_options.h"
#include "main/to_mqtt_options.h"
#include "obs/metrics.h"
#include "registry/revocation_list.h"

enum result { APPLIED, UNCHANGED, REFUSED, FAILED, RESULTS };

static struct metric results[RESULTS] = {
    [APPLIED] = {.name = "millrace_config_reload_total",
                 .labels = "result=\"applied\"",
                 .help =
                     "Reloads: applied; unchanged: nothing differed; refused: something needs a restart; failed: the file is "
                     "invalid, topics could not be made, or Kafka's records not be read",
                 .kind = METRIC_COUNTER},
    [UNCHANGED] = {.name = "millrace_config_reload_total", .labels = "result=\"unchanged\"", .kind = METRIC_COUNTER},
    [REFUSED] = {.name = "millrace_config_reload_total", .labels = "result=\"refused\"", .kind = METRIC_COUNTER},
    [FAILED] = {.name = "millrace_config_reload_total", .labels = "result=\"failed\"", .kind = METRIC_COUNTER},
};

static double read_generation(void *context)
{
    return (double)(*((struct reload *)context)->holds)->number;
}

static double read_age(void *context)
{
    uint64_t good_ms = ((struct reload *)context)->good_ms, now_ms = loop_wall_ms();

    return now_ms > good_ms ? (double)(now_ms - good_ms) / 1e3 : 0;
}

static double read_success(void *context)
{
    return ((struct reload *)context)->was_good;
}

static double read_not_after(void *context)
{
    return (double)tls_options_not_after(&(*((struct reload *)context)->holds)->tls);
}

static struct metric states[] = {
    {.name = "millrace_config_generation",
     .help = "Which configuration holds: 1 at the start, one more with each reload that was applied",
     .kind = METRIC_GAUGE,
     .read = read_generation},
    {.name = "millrace_config_age_seconds",
     .help = "How long ago the configuration that holds was last found to be that of the file",
     .kind = METRIC_GAUGE,
     .read = read_age},
    {.name = "millrace_config_last_reload_successful",
     .help = "0: the file was not taken over when it was last read; the log says why",
     .kind = METRIC_GAUGE,
     .read = read_success},
    {.name = "millrace_tls_certificate_expiry_timestamp_seconds",
     .help = "When the first of the certificates shown to clients is over, in seconds since 1970; 0: there is none",
     .kind = METRIC_GAUGE,
     .read = read_not_after},
};

/* --- reading --- */

err reload_load(const struct cli *cli, uint64_t number, const struct generation *before, struct generation **out_generation,
                struct config_errors *errors)
{
    struct rule_table *rules = NULL;
    struct to_mqtt_rules *to_mqtt = NULL;
    struct revocation_lists *lists = NULL;
    struct config *config = NULL;
    struct generation *made;
    err e = cli_load_config(cli, &config, errors);

    if (e == E_OK)
        e = rule_options_make(config, cli_source_name(cli), &rules, errors); /* finds what is wrong with the others, too */
    if (e == E_OK)
        e = to_mqtt_options_make(config, cli_source_name(cli), &to_mqtt, errors);
    if (e != E_OK) {
        rule_table_unref(rules);
        config_unref(config);
        return e;
    }
    made = generation_new(number, config, rules);
    made->to_mqtt = to_mqtt;
    e = tls_options_make(config, cli_source_name(cli), before ? before->tls.tickets : NULL, made->registry, &made->tls, errors);
    if (e == E_OK)
        e = revocation_options_load(config, cli_source_name(cli), &lists, errors);
    if (e == E_OK)
        registry_use_revocation_lists(made->registry, lists);
    if (e == E_OK)
        *out_generation = made;
    else
        generation_unref(made);
    return e;
}

void reload_apply_log_levels(const struct config *config)
{
    for (int sub = 0; sub < LOG_SUBS; sub++)
        log_set_level((enum log_sub)sub, config->log_levels[sub]);
}

/* --- how it ends --- */

static void note(struct reload *r, enum result result)
{
    metric_add(&results[result], 1);
    r->was_good = result == APPLIED || result == UNCHANGED;
    if (r->was_good)
        r->good_ms = loop_wall_ms();
    else
        LOG_WARN(LOG_CONFIG, "reload.kept", F_INT("generation", r->s->now->number),
                 F_INT("age_s", (loop_wall_ms() - r->good_ms) / 1000));
}

static void log_errors(const struct config_errors *errors)
{
    for (size_t i = 0; i < errors->count; i++)
        LOG_ERROR(LOG_CONFIG, "reload.invalid", F_TEXT("file", errors->items[i].file), F_INT("line", errors->items[i].line),
                  F_TEXT("why", errors->items[i].text));
    if (errors->omitted)
        LOG_ERROR(LOG_CONFIG, "reload.invalid_more", F_INT("errors", errors->omitted));
}

static void log_limits(const struct config_errors *errors)
{
    for (size_t i = 0; i < errors->count; i++)
        LOG_ERROR(LOG_CONFIG, "reload.refused", F_TEXT("file", errors->items[i].file), F_INT("line", errors->items[i].line),
                  F_TEXT("why", errors->items[i].text));
    if (errors->omitted)
        LOG_ERROR(LOG_CONFIG, "reload.refused_more", F_INT("options", errors->omitted));
}

static void log_fixed(const struct reload *r, const struct config_diff *diff)
{
    for (size_t i = 0; i < diff->n_fixed && i < CONFIG_DIFF_MAX_FIXED; i++)
        LOG_ERROR(LOG_CONFIG, "reload.refused", F_TEXT("file", cli_source_name(r->cli)), F_INT("line", diff->fixed[i].line),
                  F_TEXT("option", diff->fixed[i].path), F_TEXT("why", "needs a restart"));
    if (diff->n_fixed > CONFIG_DIFF_MAX_FIXED)
        LOG_ERROR(LOG_CONFIG, "reload.refused_more", F_INT("options", diff->n_fixed - CONFIG_DIFF_MAX_FIXED));
}

/* --- the change --- */

static void on_in_use(struct mail *m)
{
    struct reload *r = CONTAINER_OF(m, struct reload, in_use);

    generation_unref(r->s->now);
    r->s->now = r->next;
    r->next = NULL;
    r->is_changing = false;
    LOG_INFO(LOG_CONFIG, "reload.applied", F_INT("generation", r->s->now->number),
             F_INT("tenants", r->s->now->config->tenant_count), F_INT("rules", r->s->now->config->to_kafka_count),
             F_INT("rules_to_mqtt", r->s->now->config->to_mqtt_count));
    reload_apply_log_levels(r->s->now->config);
    server_registry_use(&r->s->registry, r->s->now);
    if (r->s->admin)
        admin_use_tls(r->s->admin, r->s->now->tls.admin);
    server_fanout_use_tls(&r->s->fanout, r->s->now->tls.client);
    tls_watch_use(&r->tls_watch, r->s->now->config, cli_source_name(r->cli));
    note(r, APPLIED);
    if (r->is_wanted)
        reload_ask(r);
}

static void on_mqtt_in_use(struct mail *m)
{
    struct reload *r = CONTAINER_OF(m, struct reload, in_mqtt);

    server_command_use(r->s, r->next, &r->in_command);
}

static void on_command_in_use(struct mail *m)
{
    struct reload *r = CONTAINER_OF(m, struct reload, in_command);

    server_feed_use(r->s, r->next, &r->in_use);
}

/* One after the other: what devices send, over HTTP and MQTT, then what comes to them from Kafka. */
static void on_http_in_use(struct mail *m)
{
    struct reload *r = CONTAINER_OF(m, struct reload, in_http);

    mqtt_reload_use(r->s->mqtt, r->next, &r->in_mqtt, &r->s->loop.mailbox);
}

static void change(struct reload *r)
{
    r->awaited = NULL;
    r->is_changing = true;
    authority_plane_use(&r->s->authority, r->next->config, r->next->tls.client);
    http_adapter_use(r->s->http, r->next, &r->in_http, &r->s->loop.mailbox);
}

static void drop_next(struct reload *r)
{
    generation_unref(r->next);
    r->next = NULL;
    r->awaited = NULL;
}

/* The file was changed again before what it said could be applied. */
static void supersede(struct reload *r)
{
    if (r->next)
        LOG_WARN(LOG_CONFIG, "reload.superseded", F_INT("generation", r->next->number));
    drop_next(r);
}

static void unlink_topics(struct reload *r, const struct server_topics *topics)
{
    struct server_topics **at = &r->asked;

    while (*at != topics)
        at = &(*at)->next;
    *at = topics->next;
}

/* Answers to other requests than the awaited one belong to generations that were given up. */
static void on_topics(struct mail *m)
{
    struct server_topics *topics = CONTAINER_OF(m, struct server_topics, request.mail);
    struct reload *r = topics->owner;
    bool is_awaited = r->is_ready && topics == r->awaited;

    unlink_topics(r, topics);
    if (is_awaited && topics->request.result.code == E_OK) {
        change(r);
    } else if (is_awaited) {
        LOG_ERROR(LOG_CONFIG, "reload.topics_failed", F_TEXT("why", topics->request.result.text));
        drop_next(r);
        note(r, FAILED);
    }
    server_kafka_free_topics(topics);
}

/* Topics first: a device that is let in must not find its topics missing. */
static void prepare(struct reload *r)
{
    struct server_topics *topics = server_kafka_missing_topics(r->s->now, r->next);

    if (!topics) {
        change(r);
        return;
    }
    LOG_INFO(LOG_CONFIG, "reload.topics", F_INT("generation", r->next->number), F_INT("topics", topics->request.n_names));
    topics->owner = r;
    topics->request.mail.on_mail = on_topics;
    topics->request.home = &r->s->loop.mailbox;
    topics->next = r->asked;
    r->asked = r->awaited = topics;
    kafka_ensure_topics(r->s->kafka, &topics->request);
}

/* The section alone, even an empty one, says that there is a fan-out, which no option tells. */
static bool has_other_parts(const struct reload *r, const struct generation *found)
{
    if (r->s->now->config->fanout.is_enabled == found->config->fanout.is_enabled)
        return false;
    LOG_ERROR(LOG_CONFIG, "reload.refused", F_TEXT("file", cli_source_name(r->cli)), F_TEXT("option", "fanout"),
              F_TEXT("why", "needs a restart"));
    return true;
}

/* Whether nothing in it needs a restart. */
static bool is_reloadable(struct reload *r, const struct generation *found, const struct config_diff *diff)
{
    static struct config_errors limits; /* larger than a stack frame should be */

    limits = (struct config_errors){0};
    if (rule_limits_check(r->s->now->rules, found->rules, found->config, cli_source_name(r->cli), &limits) != E_OK)
        log_limits(&limits);
    log_fixed(r, diff);
    return !has_other_parts(r, found) && diff->n_fixed == 0 && limits.count == 0;
}

static void consider(struct reload *r, struct generation *found)
{
    struct config_diff diff;
    struct errinfo ei = {0};
    bool is_changed;

    config_diff_make(r->s->now->config, found->config, &diff);
    is_changed =
        diff.n_changes > 0 || !tls_options_is_same(&r->s->now->tls, &found->tls) ||
        !revocation_list_is_same(registry_revocation_lists(r->s->now->registry), registry_revocation_lists(found->registry));
    if (!is_reloadable(r, found, &diff)) {
        generation_unref(found);
        note(r, REFUSED);
        return;
    }
    if (is_changed && server_feed_prepare(r->s, found, &ei) != E_OK) {
        LOG_ERROR(LOG_CONFIG, "reload.consumer", F_TEXT("why", ei.text));
        generation_unref(found);
        note(r, FAILED);
        return;
    }
    supersede(r);
    if (!is_changed) {
        generation_unref(found);
        LOG_INFO(LOG_CONFIG, "reload.unchanged", F_INT("generation", r->s->now->number));
        note(r, UNCHANGED);
        return;
    }
    LOG_INFO(LOG_CONFIG, "reload", F_INT("generation", found->number), F_INT("changes", diff.n_changes),
             F_TEXT("first", diff.n_changes ? diff.first.path : "certificates, keys or revocation lists"),
             F_INT("line", diff.first.line));
    server_feed_warn_of_loops(found);
    server_registry_prepare(&r->s->registry, found);
    registry_use_authority(found->registry, &r->s->authority.port);
    r->next = found;
    prepare(r);
}

static void start(struct reload *r)
{
    static struct config_errors errors; /* larger than a stack frame should be */
    struct generation *found;

    if (reload_load(r->cli, r->s->now->number + 1, r->s->now, &found, &errors) == E_OK) {
        consider(r, found);
        return;
    }
    log_errors(&errors);
    note(r, FAILED);
}

/* --- life --- */

static void on_change(struct file_watch *fw)
{
    reload_ask(CONTAINER_OF(fw, struct reload, watch));
}

static void on_tls_change(struct tls_watch *tw)
{
    LOG_INFO(LOG_CONFIG, "reload.tls_files_changed");
    reload_ask(CONTAINER_OF(tw, struct reload, tls_watch));
}

void reload_init(struct reload *r, struct server *s, const struct cli *cli, const struct file_watch_stamp *before)
{
    struct errinfo ei = {0};

    *r = (struct reload){
        .s = s,
        .cli = cli,
        .holds = &s->now,
        .in_http = {.on_mail = on_http_in_use},
        .in_mqtt = {.on_mail = on_mqtt_in_use},
        .in_command = {.on_mail = on_command_in_use},
        .in_use = {.on_mail = on_in_use},
        .good_ms = loop_wall_ms(),
        .was_good = true,
    };
    metrics_register(results, RESULTS);
    for (size_t i = 0; i < ARRAY_LEN(states); i++)
        states[i].context = r;
    metrics_register(states, ARRAY_LEN(states));
    if (before->inode &&
        file_watch_open(&r->watch, &s->loop, cli->config_file, FILE_WATCH_SETTLE_MS, before, on_change, &ei) != E_OK)
        LOG_WARN(LOG_CONFIG, "reload.watch", F_TEXT("why", ei.text));
    tls_watch_open(&r->tls_watch, &s->loop, s->now->config, cli_source_name(cli), on_tls_change);
}

void reload_begin(struct reload *r)
{
    r->is_ready = true;
    if (r->is_wanted)
        reload_ask(r);
}

void reload_ask(struct reload *r)
{
    r->is_wanted = !r->is_ready || r->is_changing;
    if (!r->is_wanted)
        start(r);
}

void reload_end(struct reload *r)
{
    r->is_ready = false;
    file_watch_close(&r->watch);
    tls_watch_close(&r->tls_watch);
}

void reload_fini(struct reload *r)
{
    struct server_topics *topics;

    file_watch_close(&r->watch);
    tls_watch_close(&r->tls_watch);
    while ((topics = r->asked)) {
        r->asked = topics->next;
        server_kafka_free_topics(topics);
    }
    drop_next(r);
}
