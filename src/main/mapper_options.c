#include "main/mapper_options.h"

#include "config/nearest.h"
#include "config/report.h"
#include "http/http_url.h"

struct checker {
    const struct config *config;
    const char *file;
    struct config_errors *errors;
    bool is_bad;
};

#define FAIL(k, line, ...) ((k)->is_bad = true, report_error((k)->errors, (k)->file, (line), __VA_ARGS__))

/* `what` and `id` say who names it. */
static void check_name(struct checker *k, struct str name, const char *what, struct str id, const char *key, unsigned line)
{
    struct nearest near = {.word = name};
    struct str best;

    if (name.n == 0)
        return;
    for (size_t i = 0; i < k->config->mapper_count; i++) {
        if (str_equal(k->config->mappers[i].id, name))
            return;
        nearest_offer(&near, k->config->mappers[i].id);
    }
    best = nearest_result(&near);
    FAIL(k, line, "%s%.*s: %s names %.*s, which is none of the mappers%s%.*s%s", what, STR_ARG(id), key, STR_ARG(name),
         best.n ? " (did you mean " : "", STR_ARG(best), best.n ? "?)" : "");
}

static void check_tenant(struct checker *k, const struct config_tenant *ten)
{
    static const char down[] = "downstream-message-mapper", up[] = "upstream-message-mapper";

    check_name(k, ten->mapper, "tenant ", ten->id, down, ten->line);
    check_name(k, ten->command_mapper, "tenant ", ten->id, up, ten->line);
    for (size_t i = 0; i < ten->device_count; i++) {
        const struct config_device *dev = &ten->devices[i];

        check_name(k, dev->mapper, "device ", dev->id, down, dev->line);
        check_name(k, dev->command_mapper, "device ", dev->id, up, dev->line);
    }
}

err mapper_options_check(const struct config *config, const char *file, struct config_errors *errors)
{
    struct checker k = {.config = config, .file = file, .errors = errors};

    for (size_t i = 0; i < config->mapper_count; i++) {
        const struct config_mapper *mapper = &config->mappers[i];
        struct errinfo ei = {0};
        struct http_url url;

        if (http_url_parse(mapper->url, &url, &ei) != E_OK)
            FAIL(&k, mapper->line, "mappers.%.*s.url: %s", STR_ARG(mapper->id), ei.text);
    }
    for (size_t i = 0; i < config->tenant_count; i++)
        check_tenant(&k, &config->tenants[i]);
    for (size_t i = 0; i < config->to_kafka_count; i++) {
        const struct config_to_kafka *rule = &config->to_kafka[i];

        check_name(&k, rule->mapper, "", rule->id, "mapper", rule->line);
        if (rule->mapper.n && rule->event != CONFIG_EVENT_NONE)
            FAIL(&k, rule->line, "%.*s: an event has no use for a mapper", STR_ARG(rule->id));
    }
    return k.is_bad ? E_INVAL : E_OK;
}
