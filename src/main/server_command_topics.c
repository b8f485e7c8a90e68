#include "main/server_command_topics.h"

#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/log.h"
#include "command/command_topics.h"
#include "kafka/kafka_consumer.h"
#include "main/kafka_options.h"
#include "main/server.h"
#include "routes/routes.h"

enum {
    LOOK_MS = 10 * 1000,
    LEAVE_MS = 2 * 1000,
    GRACE_MS = 10 * 1000, /* for an instance that was declared dead to come back */
};

/* Nothing in it outlives its instance. */
static const struct kafka_property properties[] = {
    {STR_INIT("cleanup.policy"), STR_INIT("delete")},
    {STR_INIT("retention.ms"), STR_INIT("600000")},
    {STR_INIT("max.message.bytes"), STR_INIT("16777216")}, /* a command that Kafka took, with our headers */
};

static const struct kafka_topic_spec spec = {.n_partitions = 1, .config = properties, .n_config = ARRAY_LEN(properties)};

/* --- what the transport asks --- */

static unsigned worker_of(void *context, struct str tenant)
{
    const struct server_command_topics *t = context;

    return routes_worker_of(t->routes, tenant);
}

static bool lives(void *context, unsigned worker, const struct command_peer *peer)
{
    const struct server_command_topics *t = context;

    return routes_find_instance(routes_replica_at(t->routes, worker), peer->instance, peer->incarnation) != NULL;
}

static void begin(void *context, struct mail *ready, struct mailbox *home)
{
    struct server_command_topics *t = context;

    ASSERT(!t->waiter);
    if (t->is_read) {
        mailbox_post(home, ready);
        return;
    }
    t->waiter = ready;
    t->waiter_home = home;
}

static void ensure(void *context)
{
    struct server_command_topics *t = context;

    if (!atomic_exchange(&t->is_ask_due, true))
        mailbox_post(&t->server->loop.mailbox, &t->ask);
}

/* --- the own topic --- */

static void ask(struct server_command_topics *t)
{
    if (t->is_leaving)
        return;
    t->asks_again = t->is_asking;
    if (t->is_asking)
        return;
    t->is_asking = true;
    kafka_ensure_topics(t->server->kafka, &t->own);
}

static void on_ask(struct mail *m)
{
    struct server_command_topics *t = CONTAINER_OF(m, struct server_command_topics, ask);

    atomic_store(&t->is_ask_due, false);
    ask(t);
}

static void on_look(struct timer *timer)
{
    ask(CONTAINER_OF(timer, struct server_command_topics, look));
}

static void remove_own(struct server_command_topics *t);

/* At the start a topic that cannot be had ends the process; later it is asked for until it can. */
static void fail(struct server_command_topics *t)
{
    struct server *s = t->server;

    LOG_ERROR(LOG_COMMAND, "topics.failed", F_TEXT("why", t->own.result.text));
    if (s->state != SERVER_STARTING)
        return;
    s->status = 1;
    loop_stop(&s->loop);
}

static void on_own(struct mail *m)
{
    struct server_command_topics *t = CONTAINER_OF(m, struct server_command_topics, own.mail);

    t->is_asking = false;
    if (t->own.result.code == E_CLOSED)
        return;
    if (t->is_leaving) {
        remove_own(t);
        return;
    }
    if (t->own.result.code != E_OK)
        fail(t);
    else if (!t->is_reading)
        kafka_consumer_start(t->consumer);
    else if (t->own.n_made)
        kafka_consumer_begin_anew(t->consumer);
    t->is_reading = t->is_reading || t->own.result.code == E_OK;
    wheel_start(&t->server->loop.wheel, &t->look, LOOK_MS);
    if (t->asks_again)
        ask(t);
}

static void on_started(struct mail *m)
{
    struct server_command_topics *t = CONTAINER_OF(m, struct server_command_topics, started);

    t->is_read = true;
    mailbox_post(&t->server->loop.mailbox, t->ready);
    if (t->waiter)
        mailbox_post(t->waiter_home, t->waiter);
    t->waiter = NULL;
}

static void leave(struct server_command_topics *t, const char *why)
{
    struct mail *left = t->left;

    t->left = NULL;
    if (!left)
        return;
    if (why)
        LOG_WARN(LOG_COMMAND, "topics.left", F_STR("topic", t->own_name), F_TEXT("why", why));
    wheel_stop(&t->look);
    mailbox_post(&t->server->loop.mailbox, left);
}

static void on_leave_timeout(struct timer *timer)
{
    leave(CONTAINER_OF(timer, struct server_command_topics, look), "Kafka did not answer");
}

static void on_removed(struct mail *m)
{
    struct server_command_topics *t = CONTAINER_OF(m, struct server_command_topics, own.mail);

    leave(t, t->own.result.code == E_OK ? NULL : t->own.result.text);
}

static void remove_own(struct server_command_topics *t)
{
    t->own.mail.on_mail = on_removed;
    kafka_remove_topics(t->server->kafka, &t->own);
}

/* --- topics of the dead --- */

struct removal {
    struct list link;
    struct mail mail; /* between main and worker 0 */
    struct timer grace;
    struct server_command_topics *topics;
    struct kafka_topics request;
    struct str name;
    bool lives;
    char topic[COMMAND_TOPICS_NAME_BYTES], instance[COMMAND_TOPICS_NAME_BYTES];
};

static void removal_end(struct removal *r)
{
    list_remove(&r->link);
    mem_free(MEM_COMMAND, r);
}

static void on_topic_removed(struct mail *m)
{
    struct removal *r = CONTAINER_OF(m, struct removal, request.mail);

    if (r->request.result.code != E_OK && r->request.result.code != E_CLOSED)
        LOG_WARN(LOG_COMMAND, "topics.left", F_STR("topic", r->name), F_TEXT("why", r->request.result.text));
    removal_end(r);
}

static void on_looked(struct mail *m)
{
    struct removal *r = CONTAINER_OF(m, struct removal, mail);

    if (r->lives) {
        removal_end(r);
        return;
    }
    r->request = (struct kafka_topics){
        .mail = {.on_mail = on_topic_removed}, .home = &r->topics->server->loop.mailbox, .names = &r->name, .n_names = 1};
    kafka_remove_topics(r->topics->server->kafka, &r->request);
}

/* On worker 0. */
static void look_at(struct mail *m)
{
    struct removal *r = CONTAINER_OF(m, struct removal, mail);

    r->lives = routes_find_living(routes_replica_at(r->topics->routes, 0), str_from(r->instance)) != NULL;
    r->mail.on_mail = on_looked;
    mailbox_post(&r->topics->server->loop.mailbox, &r->mail);
}

static void on_grace(struct timer *timer)
{
    struct removal *r = CONTAINER_OF(timer, struct removal, grace);

    r->mail.on_mail = look_at;
    mailbox_post(&r->topics->server->workers.list[0].loop.mailbox, &r->mail);
}

static void on_forget(struct mail *m)
{
    struct removal *r = CONTAINER_OF(m, struct removal, mail);

    list_push(&r->topics->removals, &r->link);
    wheel_start(&r->topics->server->loop.wheel, &r->grace, GRACE_MS);
}

void server_command_topics_forget(struct server_command_topics *t, struct str instance)
{
    struct removal *r;

    if (!t->transport || instance.n >= COMMAND_TOPICS_NAME_BYTES)
        return;
    r = mem_alloc_zero(MEM_COMMAND, sizeof *r);
    if (command_topics_name(instance, r->topic) != E_OK) {
        mem_free(MEM_COMMAND, r);
        return;
    }
    memcpy(r->instance, instance.p, instance.n);
    r->topics = t;
    r->name = str_from(r->topic);
    r->grace.on_timer = on_grace;
    r->mail.on_mail = on_forget;
    mailbox_post(&t->server->loop.mailbox, &r->mail);
}

/* --- life --- */

static err open_consumer(struct server *s, struct str instance, struct errinfo *ei)
{
    const struct config *config = s->now->config;
    struct server_command_topics *t = &s->command_topics;
    struct kafka_consumer_settings settings = {
        .for_whom = KAFKA_CONSUMER_INSTANCES,
        .group = config->kafka.group,
        .instance = instance,
        .is_transient = true,
        .reader = command_topics_reader(t->transport),
        .wants = command_topics_wants(t->transport),
        .started = &t->started,
        .started_home = &s->loop.mailbox,
    };
    struct kafka_settings kafka;
    struct arena scratch = {0};
    err e;

    kafka_options_make(&scratch, config, &kafka);
    e = kafka_consumer_open(s->kafka, &kafka, &settings, &t->consumer, ei);
    arena_free(&scratch, MEM_CONFIG);
    if (e == E_OK)
        command_topics_attach(t->transport, kafka_consumer_source(t->consumer));
    return e;
}

err server_command_topics_open(struct server *s, struct errinfo *ei)
{
    const struct config *config = s->now->config;
    struct server_command_topics *t = &s->command_topics;
    struct command_topics_settings settings = {.workers = &s->workers,
                                               .sink = kafka_sink(s->kafka),
                                               .context = t,
                                               .worker_of = worker_of,
                                               .lives = lives,
                                               .begin = begin,
                                               .ensure = ensure};
    char name[KAFKA_OPTIONS_INSTANCE_BYTES];
    err e;

    if (!config_has_command_topics(config) || !server_routes_are_wanted(config))
        return E_OK;
    *t = (struct server_command_topics){
        .server = s, .ask = {.on_mail = on_ask}, .started = {.on_mail = on_started}, .look = {.on_timer = on_look}};
    list_init(&t->removals);
    e = kafka_options_instance(config, name, ei);
    if (e != E_OK)
        return e;
    settings.instance = str_from(name);
    t->transport = command_topics_new(&settings);
    if (!t->transport)
        return errinfo_set(ei, E_INVAL, "the instance's name %s is too long for the name of a topic", name);
    t->own_name = command_topics_own(t->transport);
    t->own = (struct kafka_topics){
        .mail = {.on_mail = on_own}, .home = &s->loop.mailbox, .names = &t->own_name, .specs = &spec, .n_names = 1};
    return open_consumer(s, settings.instance, ei);
}

void server_command_topics_connect(struct server_command_topics *t, struct routes *routes,
                                   const struct command_transport_user *user)
{
    if (!t->transport)
        return;
    t->routes = routes;
    command_topics_set_user(t->transport, user);
}

void server_command_topics_begin(struct server *s, struct mail *ready)
{
    struct server_command_topics *t = &s->command_topics;

    t->ready = ready;
    t->routes = s->routes.routes;
    if (t->transport)
        ask(t);
    else
        mailbox_post(&s->loop.mailbox, ready);
}

void server_command_topics_leave(struct server *s, struct mail *left)
{
    struct server_command_topics *t = &s->command_topics;

    t->left = left;
    t->is_leaving = true;
    if (!t->transport) {
        mailbox_post(&s->loop.mailbox, left);
        return;
    }
    t->look.on_timer = on_leave_timeout;
    wheel_start(&s->loop.wheel, &t->look, LEAVE_MS);
    kafka_consumer_stop(t->consumer);
    if (!t->is_asking)
        remove_own(t);
}

void server_command_topics_stop(struct server_command_topics *t)
{
    if (t->consumer)
        kafka_consumer_stop(t->consumer);
}

void server_command_topics_free(struct server_command_topics *t)
{
    if (!t->server)
        return;
    wheel_stop(&t->look);
    for (struct list *link; (link = list_pop(&t->removals));) {
        struct removal *r = CONTAINER_OF(link, struct removal, link);

        wheel_stop(&r->grace);
        mem_free(MEM_COMMAND, r);
    }
    if (t->transport)
        t->transport->ops->free(t->transport);
    kafka_consumer_free(t->consumer);
    *t = (struct server_command_topics){0};
}
