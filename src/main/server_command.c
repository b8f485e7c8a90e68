#include "main/server_command.h"

#include <stdio.h>

#include "base/arena.h"
#include "base/check.h"
#include "command/command.h"
#include "command/command_design.h"
#include "command/command_transport.h"
#include "kafka/kafka_consumer.h"
#include "main/kafka_options.h"
#include "main/server.h"

enum { GROUP_BYTES = 256, EMBEDDED_FIND_MS = 500, PATIENCE_MS = 2000 };

/* How many commands of a partition may be undone at a time. Where the instances tell each other which are, their table has room for so many. */
static uint32_t max_unsettled(const struct server *s)
{
    uint64_t max = s->now->config->kafka.max_uncommitted;
    bool is_told = s->routes.is_shared && !command_design(s->command.plane)->is_grouped;

    return (uint32_t)(is_told && max > KAFKA_CONSUMER_DEFAULT_UNSETTLED ? KAFKA_CONSUMER_DEFAULT_UNSETTLED : max);
}

static err open_consumer(struct server *s, struct errinfo *ei)
{
    const struct config *config = s->now->config;
    struct kafka_consumer_settings settings = {
        .for_whom = KAFKA_CONSUMER_COMMANDS,
        .find_ms = config->kafka.is_embedded ? EMBEDDED_FIND_MS : 0,
        .max_unsettled = max_unsettled(s),
        .max_bytes = config->kafka.max_uncommitted_bytes,
        .is_shared = command_design(s->command.plane)->is_grouped,
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

    if (c->consumer)
        kafka_consumer_read_wanted(c->consumer);
    c->next = NULL;
    mailbox_post(&s->loop.mailbox, c->done);
}

static void on_unwanted(struct mail *m)
{
    struct server_command *c = CONTAINER_OF(m, struct server_command, unwanted);
    struct server *s = CONTAINER_OF(c, struct server, command);

    command_use(c->plane, c->next, &c->used, &s->loop.mailbox);
}

void server_command_use(struct server *s, struct generation *next, struct mail *done)
{
    struct server_command *c = &s->command;

    server_command_link_use(&s->command_link, next);
    c->next = next;
    c->done = done;
    if (c->consumer)
        kafka_consumer_want(c->consumer, next, &c->unwanted, &s->loop.mailbox);
    else if (c->plane)
        command_use(c->plane, next, &c->used, &s->loop.mailbox);
    else
        mailbox_post(&s->loop.mailbox, done);
}

/* --- what carries commands to other instances --- */

/* By the design; NULL: nothing does. */
static struct command_transport *connect_transport(struct server *s)
{
    const struct command_transport_user *user = command_user(s->command.plane);

    switch (command_design(s->command.plane)->carrier) {
    case COMMAND_CARRIER_TOPICS:
        server_command_topics_connect(&s->command_topics, s->routes.routes, user);
        return s->command_topics.transport;
    case COMMAND_CARRIER_LINK:
        server_command_link_connect(&s->command_link, s->routes.routes, user);
        return s->command_link.transport;
    default:
        return NULL;
    }
}

void server_command_receive(struct server *s, struct mail *ready)
{
    struct command_transport *transport = s->command.transport;

    if (transport && transport->ops->start)
        transport->ops->start(transport, ready, &s->loop.mailbox);
    else
        mailbox_post(&s->loop.mailbox, ready);
}

/* --- life --- */

/* With the designs that have roles, one that is only an adapter leaves reading to others, and one that is only a router has no devices. */
static bool has_role(const struct server *s, enum config_command_role role)
{
    int own = s->now->config->command.role;

    return own == CONFIG_COMMAND_ROLE_ALL || own == (int)role || !command_design_of(s->now->config->command.routing)->has_roles;
}

static void on_quiet(struct mail *m);
static void on_impatient(struct timer *t);

err server_command_open(struct server *s, struct errinfo *ei)
{
    struct server_command *c = &s->command;
    struct command_settings settings = {.workers = &s->workers,
                                        .sink = kafka_sink(s->kafka),
                                        .routes = s->routes.routes,
                                        .generation = s->now,
                                        .is_alone = !s->routes.is_shared,
                                        .takes_subscriptions = has_role(s, CONFIG_COMMAND_ROLE_ADAPTER)};

    if (!s->routes.routes)
        return E_OK;
    c->unwanted.on_mail = on_unwanted;
    c->used.on_mail = on_used;
    c->quiet.on_mail = on_quiet;
    c->patience.on_timer = on_impatient;
    c->plane = command_new(&settings);
    c->transport = connect_transport(s);
    command_use_transport(c->plane, c->transport);
    return has_role(s, CONFIG_COMMAND_ROLE_ROUTER) ? open_consumer(s, ei) : E_OK;
}

void server_command_start(struct server_command *c)
{
    if (!c->consumer)
        return;
    command_start(c->plane, kafka_consumer_source(c->consumer));
    kafka_consumer_start(c->consumer);
}

void server_command_drain(struct server_command *c)
{
    if (!c->plane)
        return;
    if (c->consumer)
        kafka_consumer_pause(c->consumer);
    command_drain(c->plane);
}

/* Whichever comes first; the other one finds nobody who waits. */
static void leave(struct server_command *c)
{
    struct server *s = CONTAINER_OF(c, struct server, command);
    struct mail *left = c->left;

    c->left = NULL;
    wheel_stop(&c->patience);
    if (left)
        mailbox_post(&s->loop.mailbox, left);
}

static void on_quiet(struct mail *m)
{
    leave(CONTAINER_OF(m, struct server_command, quiet));
}

static void on_impatient(struct timer *t)
{
    leave(CONTAINER_OF(t, struct server_command, patience));
}

void server_command_leave(struct server *s, struct mail *left)
{
    struct server_command *c = &s->command;

    if (!c->plane) {
        mailbox_post(&s->loop.mailbox, left);
        return;
    }
    c->left = left;
    wheel_start(&s->loop.wheel, &c->patience, PATIENCE_MS);
    command_leave(c->plane, &c->quiet, &s->loop.mailbox);
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
