#include "main/server_routes.h"

#include "base/check.h"
#include "main/kafka_options.h"
#include "main/server.h"
#include "routes/routes.h"

bool server_routes_are_wanted(const struct config *config)
{
    for (size_t i = 0; i < config->listener_count; i++)
        if (config->listeners[i].is_hono)
            return true;
    return config->command.role == CONFIG_COMMAND_ROLE_ROUTER;
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
        routes_start(r->routes, r->table.table, r->ready, &r->server->loop.mailbox);
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

/* What is lost with a local log comes again: everybody subscribes anew. */
static err open_table(struct server_routes *r, struct errinfo *ei)
{
    const struct server_table_options options = {.name = "routes",
                                                 .ops = &routes_table_ops,
                                                 .context = r->routes,
                                                 .view = "routes",
                                                 .log = "routes-log",
                                                 .log_kept = STORE_REBUILDABLE,
                                                 .is_shared = r->is_shared};

    return server_table_open(r->server, &options, &r->opened, &r->table, ei);
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
    return e == E_OK ? open_table(r, ei) : e;
}

void server_routes_leave(struct server *s, struct mail *left)
{
    if (s->routes.table.table)
        routes_leave(s->routes.routes, left, &s->loop.mailbox);
    else
        mailbox_post(&s->loop.mailbox, left);
}

void server_routes_free(struct server_routes *r)
{
    if (!r->routes)
        return;
    routes_stop(r->routes);
    server_table_close(&r->table);
    routes_free(r->routes);
    r->routes = NULL; /* no more: its mails may be on their way */
}
