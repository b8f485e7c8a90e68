#include "main/server_command_link.h"

#include <limits.h>
#include <unistd.h>

#include "command/command_link.h"
#include "main/kafka_options.h"
#include "main/server.h"
#include "routes/routes.h"

static unsigned worker_of(void *context, struct str tenant)
{
    const struct server_command_link *l = context;

    return routes_worker_of(l->routes, tenant);
}

static struct str address_of(void *context, unsigned worker, const struct command_peer *peer)
{
    const struct server_command_link *l = context;
    const struct routes_replica *replica = routes_replica_at(l->routes, worker);
    const struct routes_instance *instance = routes_find_instance(replica, peer->instance, peer->incarnation);

    if (!instance)
        return (struct str){0};
    return instance->address.n ? instance->address : STR("");
}

err server_command_link_open(struct server *s, struct errinfo *ei)
{
    const struct config *config = s->now->config;
    struct command_link_settings settings = {
        .workers = &s->workers,
        .listen = config->command.link_listen.text,
        .advertise = config->command.link_advertise,
        .server = s->now->tls.link_server,
        .client = s->now->tls.link_client,
        .context = &s->command_link,
        .worker_of = worker_of,
        .address_of = address_of,
    };
    struct errinfo why = {0};
    char name[KAFKA_OPTIONS_INSTANCE_BYTES], host[HOST_NAME_MAX + 1] = "";
    err e;

    if (!config_has_link(config) || !server_routes_are_wanted(config))
        return E_OK;
    e = kafka_options_instance(config, name, ei);
    if (e != E_OK)
        return e;
    if (gethostname(host, sizeof host - 1) != 0)
        return errinfo_set(ei, E_IO, "command.link.advertise is missing, and this host has no name");
    settings.instance = str_from(name);
    settings.host = str_from(host);
    e = command_link_new(&settings, &s->command_link.transport, &why);
    return e == E_OK ? e
                     : errinfo_set(ei, e, "cannot listen for other instances on %.*s: %s", STR_ARG(settings.listen), why.text);
}

struct str server_command_link_address(const struct server_command_link *l)
{
    return l->transport ? command_link_address(l->transport) : (struct str){0};
}

void server_command_link_connect(struct server_command_link *l, struct routes *routes,
                                 const struct command_transport_user *user)
{
    if (!l->transport)
        return;
    l->routes = routes;
    command_link_set_user(l->transport, user);
}

void server_command_link_use(struct server_command_link *l, const struct generation *next)
{
    if (l->transport)
        command_link_use_tls(l->transport, next->tls.link_server, next->tls.link_client);
}

void server_command_link_free(struct server_command_link *l)
{
    if (l->transport)
        l->transport->ops->free(l->transport);
    *l = (struct server_command_link){0};
}
