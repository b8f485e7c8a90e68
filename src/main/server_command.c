#include "main/server_command.h"

#include <stdio.h>

#include "base/arena.h"
#include "base/check.h"
#include "command/command.h"
#include "kafka/kafka_consumer.h"
#include "main/kafka_options.h"
#include "main/server.h"

enum { GROUP_BYTES = 256, EMBEDDED_FIND_MS = 500 };

/* Whether devices can take commands by any listener. */
static bool takes_commands(const struct config *config)
{
    for (size_t i = 0; i < config->listener_count; i++)
        if (config->listeners[i].is_hono)
            return true;
    return false;
}

static err open_consumer(struct server *s, struct errinfo *ei)
{
    const struct config *config = s->now->config;
    struct kafka_consumer_settings settings = {
        .for_whom = KAFKA_CONSUMER_COMMANDS,
        .find_ms = config->kafka.is_embedded ? EMBEDDED_FIND_MS : 0,
        .max_unsettled = (uint32_t)config->kafka.max_uncommitted,
        .max_bytes = config->kafka.max_uncommitted_bytes,
        .reader = command_reader(s->command.plane),
        .wants = s->now,
    };
    struct kafka_settings kafka;
    struct arena scratch = {0};
    char name[KAFKA_OPTIONS_INSTANCE_BYTES], group[GROUP_BYTES];
    err e = kafka_options_instance(config, name, ei);

    if (e != E_OK)
        return e;
    settings.instance = str_from(name);
    settings.group = (struct str){group, (size_t)snprintf(group, sizeof group, "%.*s.command", STR_ARG(config->kafka.group))};
    kafka_options_make(&scratch, config, &kafka);
    e = kafka_consumer_open(s->kafka, &kafka, &settings, &s->command.consumer, ei);
    arena_free(&scratch, MEM_CONFIG);
    return e;
}

static void on_used(struct mail *m)
{
    struct server_command *c = CONTAINER_OF(m, struct server_command, used);
    struct server *s = CONTAINER_OF(c, struct server, command);

    kafka_consumer_read_wanted(c->consumer);
    c->next = NULL;
    mailbox_post(&s->loop.mailbox, c->done);
}

static void on_left(struct mail *m)
{
    struct server_command *c = CONTAINER_OF(m, struct server_command, left);
    struct server *s = CONTAINER_OF(c, struct server, command);

    command_use(c->plane, c->next, &c->used, &s->loop.mailbox);
}

void server_command_use(struct server *s, struct generation *next, struct mail *done)
{
    struct server_command *c = &s->command;

    server_command_link_use(&s->command_link, next);
    c->next = next;
    c->done = done;
    if (c->plane)
        kafka_consumer_want(c->consumer, next, &c->left, &s->loop.mailbox);
    else
        mailbox_post(&s->loop.mailbox, done);
}

err server_command_open(struct server *s, struct errinfo *ei)
{
    struct command_settings settings = {.workers = &s->workers, .sink = kafka_sink(s->kafka), .generation = s->now};

    if (!takes_commands(s->now->config))
        return E_OK;
    s->command.left.on_mail = on_left;
    s->command.used.on_mail = on_used;
    s->command.plane = command_new(&settings);
    return open_consumer(s, ei);
}

void server_command_start(struct server_command *c)
{
    if (!c->plane)
        return;
    command_start(c->plane, kafka_consumer_source(c->consumer));
    kafka_consumer_start(c->consumer);
}

void server_command_drain(struct server_command *c)
{
    if (!c->plane)
        return;
    kafka_consumer_pause(c->consumer);
    command_drain(c->plane);
}

void server_command_stop(struct server_command *c)
{
    if (c->consumer)
        kafka_consumer_stop(c->consumer);
}

void server_command_free(struct server_command *c)
{
    command_free(c->plane);
    kafka_consumer_free(c->consumer);
    *c = (struct server_command){0};
}
