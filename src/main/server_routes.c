#include "main/server_routes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/log.h"
#include "main/kafka_options.h"
#include "main/server.h"
#include "routes/routes.h"
#include "store/store.h"
#include "table/table.h"
#include "table/table_log_local.h"

enum { PATH_BYTES = 4096, PARTITIONS = 1 /* one order for everything */ };

static const char table_name[] = "routes";

bool server_routes_are_wanted(const struct config *config)
{
    for (size_t i = 0; i < config->listener_count; i++)
        if (config->listeners[i].is_hono)
            return true;
    return config->command.role == CONFIG_COMMAND_ROLE_ROUTER;
}

/* --- the table --- */

static err open_store(const struct config *config, const char *name, struct store **out, struct errinfo *ei)
{
    char path[PATH_BYTES];
    struct store_options options = {.path = path, .durability = STORE_REBUILDABLE};
    err e;

    if (mkdir(config->data_dir.p, 0700) != 0 && errno != EEXIST)
        return errinfo_set(ei, E_IO, "cannot make the data directory %s: %s", config->data_dir.p, strerror(errno));
    if (snprintf(path, sizeof path, "%s/%s", config->data_dir.p, name) >= (int)sizeof path)
        return errinfo_set(ei, E_INVAL, "the path of data_dir is too long");
    e = store_open(&options, out, ei);
    if (e == E_OK && store_damage(*out))
        LOG_WARN(LOG_COMMAND, "routes.store_replaced", F_TEXT("name", name), F_TEXT("why", store_damage(*out)));
    return e;
}

/* A table whose topics are wrong is worse than none. */
static void on_table_topics(struct mail *m)
{
    struct kafka_table_topics *topics = CONTAINER_OF(m, struct kafka_table_topics, topics.mail);
    struct server_routes *r = CONTAINER_OF(topics, struct server_routes, topics);

    if (topics->topics.result.code == E_OK || topics->topics.result.code == E_CLOSED)
        return;
    LOG_ERROR(LOG_COMMAND, "topics.failed", F_TEXT("why", topics->topics.result.text));
    r->server->status = 1;
    loop_stop(&r->server->loop);
}

static err open_shared_log(struct server_routes *r, const struct config *config, struct errinfo *ei)
{
    struct kafka *kafka = r->server->kafka;
    struct kafka_settings settings;
    struct arena scratch = {0};
    err e;

    kafka_options_make(&scratch, config, &settings);
    kafka_table_log_topics(kafka, table_name, PARTITIONS, 0, &r->topics);
    r->topics.topics.mail.on_mail = on_table_topics;
    r->topics.topics.home = &r->server->loop.mailbox;
    e = kafka_table_log_open(kafka, &settings, table_name, PARTITIONS, &r->log, ei);
    arena_free(&scratch, MEM_CONFIG);
    if (e == E_OK)
        kafka_ensure_topics(kafka, &r->topics.topics);
    return e;
}

/* What is lost with the local one comes again: everybody subscribes anew. */
static err open_local_log(struct server_routes *r, const struct config *config, struct errinfo *ei)
{
    err e = open_store(config, "routes-log", &r->log_store, ei);

    return e == E_OK ? table_log_local_open(r->log_store, table_name, PARTITIONS, &r->log, ei) : e;
}

static void on_opened(struct mail *m)
{
    struct server_routes *r = CONTAINER_OF(m, struct server_routes, opened);

    server_command_receive(r->server, &r->receiving);
}

/* Whoever is told that this instance lives may pass commands on to it at once. */
static void on_receiving(struct mail *m)
{
    struct server_routes *r = CONTAINER_OF(m, struct server_routes, receiving);

    if (r->routes && r->server->state == SERVER_STARTING)
        routes_start(r->routes, r->table, r->ready, &r->server->loop.mailbox);
}

/* --- the routes --- */

static unsigned roles_of(const struct config *config)
{
    static const unsigned roles[] = {[CONFIG_COMMAND_ROLE_ALL] = ROUTES_ADAPTER | ROUTES_ROUTER,
                                     [CONFIG_COMMAND_ROLE_ADAPTER] = ROUTES_ADAPTER,
                                     [CONFIG_COMMAND_ROLE_ROUTER] = ROUTES_ROUTER};
    bool has_roles = config->command.routing == CONFIG_ROUTING_ROUTER || config->command.routing == CONFIG_ROUTING_LINK;

    return roles[has_roles ? config->command.role : CONFIG_COMMAND_ROLE_ALL];
}

/* On worker 0. */
static void on_fenced(void *context, struct str instance)
{
    struct server *s = context;

    server_command_topics_forget(&s->command_topics, instance);
}

static err make_routes(struct server_routes *r, const struct config *config, struct errinfo *ei)
{
    char name[KAFKA_OPTIONS_INSTANCE_BYTES];
    struct routes_settings settings = {
        .workers = &r->server->workers,
        .address = server_command_link_address(&r->server->command_link),
        .roles = roles_of(config),
        .lease_ms = (uint32_t)config->command.lease_ms,
        .is_alone = !r->is_shared,
        .on_fenced = on_fenced,
        .context = r->server,
    };
    err e = kafka_options_instance(config, name, ei);

    if (e != E_OK)
        return e;
    settings.instance = str_from(name);
    r->routes = routes_new(&settings);
    return E_OK;
}

static err open_table(struct server_routes *r, struct errinfo *ei)
{
    struct table_options options = {.name = table_name,
                                    .ops = &routes_table_ops,
                                    .context = r->routes,
                                    .store = r->view_store,
                                    .log = r->log,
                                    .n_partitions = PARTITIONS};

    return table_open(&options, &r->opened, &r->server->loop.mailbox, &r->table, ei);
}

err server_routes_open(struct server *s, struct mail *ready, struct errinfo *ei)
{
    struct server_routes *r = &s->routes;
    const struct config *config = s->now->config;
    err e;

    *r = (struct server_routes){
        .server = s, .opened = {.on_mail = on_opened}, .receiving = {.on_mail = on_receiving}, .ready = ready};
    if (!server_routes_are_wanted(config)) {
        mailbox_post(&s->loop.mailbox, ready);
        return E_OK;
    }
    r->is_shared = config->command.is_shared && !config->kafka.is_embedded;
    e = make_routes(r, config, ei);
    if (e == E_OK)
        e = open_store(config, "routes", &r->view_store, ei);
    if (e == E_OK)
        e = r->is_shared ? open_shared_log(r, config, ei) : open_local_log(r, config, ei);
    return e == E_OK ? open_table(r, ei) : e;
}

void server_routes_leave(struct server *s, struct mail *left)
{
    if (s->routes.table)
        routes_leave(s->routes.routes, left, &s->loop.mailbox);
    else
        mailbox_post(&s->loop.mailbox, left);
}

void server_routes_free(struct server_routes *r)
{
    if (!r->routes)
        return;
    routes_stop(r->routes);
    table_close(r->table);
    if (r->is_shared)
        kafka_table_log_close(r->log);
    else
        table_log_local_close(r->log);
    store_close(r->log_store);
    store_close(r->view_store);
    routes_free(r->routes);
    r->routes = NULL; /* no more: its mails may be on their way */
    r->table = NULL;
}
