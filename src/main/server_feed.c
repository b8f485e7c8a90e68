#include "main/server_feed.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/log.h"
#include "broker/feed.h"
#include "kafka/kafka_consumer.h"
#include "main/kafka_options.h"
#include "main/server.h"
#include "main/to_mqtt_options.h"

enum { NAME_BYTES = 101, EMBEDDED_FIND_MS = 500 };

/* The configured name, or the host's as far as a group's name can have it. */
static err instance_name(const struct config *config, char *text, struct errinfo *ei)
{
    if (config->instance.n) {
        memcpy(text, config->instance.p, config->instance.n + 1);
        return E_OK;
    }
    if (gethostname(text, NAME_BYTES) != 0)
        return errinfo_set(ei, E_IO, "the host has no usable name (%s): set instance", strerror(errno));
    text[NAME_BYTES - 1] = '\0';
    return E_OK;
}

static void log_loop(void *context, const char *text)
{
    (void)context;
    LOG_WARN(LOG_CONFIG, "rules.feed_each_other", F_TEXT("rules", text));
}

void server_feed_warn_of_loops(const struct generation *g)
{
    static struct config_errors errors; /* larger than a stack frame should be */
    struct to_mqtt_rules *rules;

    if (to_mqtt_options_make(g->config, "", &rules, &errors) != E_OK)
        return; /* cannot be: they were found good */
    (void)to_mqtt_options_find_loops(g->config, rules, g->rules, log_loop, NULL);
    to_mqtt_rules_unref(rules);
}

static err make_feed(struct server *s, struct errinfo *ei)
{
    const struct config *config = s->now->config;
    struct config_errors errors = {0};
    struct to_mqtt_rules *rules;

    if (to_mqtt_options_make(config, "", &rules, &errors) != E_OK)
        return errinfo_set(ei, E_INVAL, "%s", errors.items[0].text); /* cannot be: they were found good */
    s->feed.feed = feed_new(mqtt_adapter_broker(s->mqtt), &s->workers, rules);
    to_mqtt_rules_unref(rules);
    server_feed_warn_of_loops(s->now);
    return E_OK;
}

err server_feed_open(struct server *s, struct errinfo *ei)
{
    const struct config *config = s->now->config;
    struct kafka_consumer_settings settings = {
        .group = config->kafka.group,
        .max_unsettled = (uint32_t)config->kafka.max_uncommitted,
        .max_bytes = config->kafka.max_uncommitted_bytes,
        .find_ms = config->kafka.is_embedded ? EMBEDDED_FIND_MS : 0,
    };
    struct kafka_settings kafka;
    struct arena scratch = {0};
    char name[NAME_BYTES];
    err e;

    if (config->to_mqtt_count == 0)
        return E_OK;
    e = instance_name(config, name, ei);
    if (e == E_OK)
        e = make_feed(s, ei);
    if (e != E_OK)
        return e;
    settings.instance = str_from(name);
    settings.reader = feed_reader(s->feed.feed);
    kafka_options_make(&scratch, config, &kafka);
    e = kafka_consumer_open(s->kafka, &kafka, &settings, &s->feed.consumer, ei);
    arena_free(&scratch, MEM_CONFIG);
    return e;
}

void server_feed_start(struct server_feed *f)
{
    if (!f->consumer)
        return;
    feed_start(f->feed, kafka_consumer_source(f->consumer));
    kafka_consumer_start(f->consumer);
}

void server_feed_drain(struct server_feed *f)
{
    if (!f->consumer)
        return;
    kafka_consumer_pause(f->consumer);
    feed_drain(f->feed);
}

void server_feed_stop(struct server_feed *f)
{
    if (f->consumer)
        kafka_consumer_stop(f->consumer);
}

void server_feed_free(struct server_feed *f)
{
    feed_free(f->feed);
    kafka_consumer_free(f->consumer);
    *f = (struct server_feed){0};
}
