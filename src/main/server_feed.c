#include "main/server_feed.h"

#include "base/arena.h"
#include "base/check.h"
#include "base/log.h"
#include "broker/feed.h"
#include "core/to_mqtt_rule.h"
#include "kafka/kafka_consumer.h"
#include "main/kafka_options.h"
#include "main/server.h"
#include "main/to_mqtt_options.h"

enum { EMBEDDED_FIND_MS = 500 };

static void log_loop(void *context, const char *text)
{
    (void)context;
    LOG_WARN(LOG_CONFIG, "rules.feed_each_other", F_TEXT("rules", text));
}

void server_feed_warn_of_loops(const struct generation *g)
{
    (void)to_mqtt_options_find_loops(g->config, g->to_mqtt, g->rules, log_loop, NULL);
}

static err open_consumer(struct server *s, struct errinfo *ei)
{
    const struct config *config = s->now->config;
    struct kafka_consumer_settings settings = {
        .group = config->kafka.group,
        .max_unsettled = (uint32_t)config->kafka.max_uncommitted,
        .max_bytes = config->kafka.max_uncommitted_bytes,
        .find_ms = config->kafka.is_embedded ? EMBEDDED_FIND_MS : 0,
        .reader = feed_reader(s->feed.feed),
        .wants = s->now->to_mqtt,
    };
    struct kafka_settings kafka;
    struct arena scratch = {0};
    char name[KAFKA_OPTIONS_INSTANCE_BYTES];
    err e = kafka_options_instance(config, name, ei);

    if (e != E_OK)
        return e;
    settings.instance = str_from(name);
    kafka_options_make(&scratch, config, &kafka);
    e = kafka_consumer_open(s->kafka, &kafka, &settings, &s->feed.consumer, ei);
    arena_free(&scratch, MEM_CONFIG);
    return e;
}

/* --- other rules --- */

static void on_used(struct mail *m)
{
    struct server_feed *f = CONTAINER_OF(m, struct server_feed, used);
    struct server *s = CONTAINER_OF(f, struct server, feed);

    if (f->consumer && !f->is_started)
        server_feed_start(f);
    if (f->consumer)
        kafka_consumer_read_wanted(f->consumer);
    f->next = NULL;
    mailbox_post(&s->loop.mailbox, f->done);
}

static void on_left(struct mail *m)
{
    struct server_feed *f = CONTAINER_OF(m, struct server_feed, left);
    struct server *s = CONTAINER_OF(f, struct server, feed);

    feed_use(f->feed, f->next->to_mqtt, &f->used, &s->loop.mailbox);
}

err server_feed_prepare(struct server *s, const struct generation *next, struct errinfo *ei)
{
    return s->feed.consumer || to_mqtt_rules_count(next->to_mqtt) == 0 ? E_OK : open_consumer(s, ei);
}

void server_feed_use(struct server *s, const struct generation *next, struct mail *done)
{
    struct server_feed *f = &s->feed;

    f->next = next;
    f->done = done;
    if (f->consumer)
        kafka_consumer_want(f->consumer, next->to_mqtt, &f->left, &s->loop.mailbox);
    else
        mailbox_post(&s->loop.mailbox, &f->left);
}

/* --- life --- */

err server_feed_open(struct server *s, struct errinfo *ei)
{
    s->feed.left.on_mail = on_left;
    s->feed.used.on_mail = on_used;
    s->feed.feed = feed_new(mqtt_adapter_broker(s->mqtt), &s->workers, s->now->to_mqtt);
    server_feed_warn_of_loops(s->now);
    return server_feed_prepare(s, s->now, ei);
}

void server_feed_start(struct server_feed *f)
{
    if (!f->consumer)
        return;
    f->is_started = true;
    feed_start(f->feed, kafka_consumer_source(f->consumer));
    kafka_consumer_start(f->consumer);
}

void server_feed_drain(struct server_feed *f)
{
    if (f->consumer)
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
