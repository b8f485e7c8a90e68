#include "main/server_registry.h"

#include "adapter/mqtt/mqtt_reload.h"
#include "admin/manage.h"
#include "base/check.h"
#include "base/log.h"
#include "main/server.h"
#include "main/server_kafka.h"
#include "registry/hash_pool.h"
#include "registry/registry_decide.h"
#include "registry/registry_view.h"
#include "table/table.h"

enum {
    HASH_THREADS = 1,       /* at idle priority */
    LOOK_INTERVAL_MS = 100, /* between two looks at all sessions: who was disabled leaves within a second */
};

/* Topics of a tenant that was made or enabled. */
struct tenant_creation {
    struct server_topics *topics;
    struct server_registry *registry;
    struct tenant_creation *next;
};

static const struct table_ops table_ops = {
    .decide = registry_decide, .on_applied = registry_view_on_applied, .on_rebuild = registry_view_on_rebuild};

/* --- topics of tenants --- */

static void on_topics(struct mail *m)
{
    struct server_topics *topics = CONTAINER_OF(m, struct server_topics, request.mail);
    struct tenant_creation *creation = topics->context, **at = &creation->registry->creations;

    if (topics->request.result.code != E_OK)
        LOG_ERROR(LOG_KAFKA, "topics.failed", F_TEXT("why", topics->request.result.text));
    while (*at != creation)
        at = &(*at)->next;
    *at = creation->next;
    server_kafka_free_topics(topics);
    mem_free(MEM_REGISTRY, creation);
}

static void make_topics(struct server_registry *r, struct str tenant)
{
    struct tenant_creation *creation = mem_alloc_zero(MEM_REGISTRY, sizeof *creation);

    creation->registry = r;
    creation->topics = server_kafka_tenant_topics(r->server->now->config, tenant);
    creation->topics->context = creation;
    creation->topics->request.mail.on_mail = on_topics;
    creation->topics->request.home = &r->server->loop.mailbox;
    creation->next = r->creations;
    r->creations = creation;
    kafka_ensure_topics(r->server->kafka, &creation->topics->request);
}

static bool is_enabled_tenant(const struct manage_change *change)
{
    return (change->op == REGISTRY_TENANT_CREATE || change->op == REGISTRY_TENANT_UPDATE) &&
           document_get_bool(change->document, "enabled", true);
}

static void on_change(void *context, const struct manage_change *change)
{
    struct server_registry *r = context;

    LOG_INFO(LOG_REGISTRY, "changed", F_TEXT("operation", registry_request_op_name(change->op)),
             F_STR("tenant", change->tenant), F_STR("device", change->device), F_STR("user", change->user));
    registry_records_tell(&r->records, change);
    if (is_enabled_tenant(change))
        make_topics(r, change->tenant);
}

/* Those of tenants that were made when this instance was away, or that somebody has removed. */
static void make_all_topics(struct server_registry *r)
{
    struct table_reader reader = {0};
    struct table_item item = {0};

    if (table_reader_open(r->table.table, &reader) != E_OK)
        return;
    while (registry_view_next_tenant(&reader, item.key, &item))
        make_topics(r, str_from_offset(item.key, 2));
    table_reader_close(&reader);
}

/* --- who has to leave --- */

static void look(struct server_registry *r)
{
    if (r->is_looking || r->server->state != SERVER_READY)
        return;
    r->is_looking = true;
    r->has_changed = false;
    mqtt_reload_look(r->server->mqtt, &r->looked, &r->server->loop.mailbox);
}

static void on_look_timer(struct timer *t)
{
    look(CONTAINER_OF(t, struct server_registry, look_timer));
}

static void look_later(struct server_registry *r)
{
    if (!r->is_looking && !wheel_is_set(&r->look_timer))
        wheel_start(&r->server->loop.wheel, &r->look_timer, LOOK_INTERVAL_MS);
}

/* Until the timer runs, others may change as well. */
static void on_changed(struct mail *m)
{
    struct server_registry *r = CONTAINER_OF(m, struct server_registry, changed);

    registry_view_accept_changes(r->view);
    r->has_changed = true;
    look_later(r);
}

static void on_looked(struct mail *m)
{
    struct server_registry *r = CONTAINER_OF(m, struct server_registry, looked);

    r->is_looking = false;
    if (r->has_changed)
        look_later(r);
}

/* --- life --- */

static void on_loaded(struct registry_loader *loader)
{
    struct server_registry *r = CONTAINER_OF(loader, struct server_registry, loader);

    if (r->is_stopped)
        return;
    LOG_INFO(LOG_REGISTRY, "loaded", F_INT("created", loader->n_created), F_INT("refused", loader->n_refused));
    if (!r->ready)
        return;
    make_all_topics(r);
    mailbox_post(&r->server->loop.mailbox, r->ready);
    r->ready = NULL;
}

static void on_opened(struct mail *m)
{
    struct server_registry *r = CONTAINER_OF(m, struct server_registry, opened);

    if (r->is_stopped)
        return;
    r->loader = (struct registry_loader){.table = r->table.table, .home = &r->server->loop.mailbox, .on_done = on_loaded};
    registry_loader_start(&r->loader, r->server->now->config);
}

static void open_management(struct server_registry *r, const struct config *config)
{
    const struct manage_options options = {
        .loop = &r->server->loop,
        .table = r->table.table,
        .pool = r->pool,
        .users = config->admin_users,
        .user_count = config->admin_user_count,
        .bcrypt_cost = (unsigned)config->bcrypt_cost,
        .bcrypt_max_cost = (unsigned)config->bcrypt_max_cost,
        .on_change = on_change,
        .context = r,
    };

    registry_records_init(&r->records, kafka_sink(r->server->kafka), &r->server->loop.mailbox, config->audit_topic);
    r->provisioner = (struct registry_provisioner){.table = r->table.table,
                                                   .home = &r->server->loop.mailbox,
                                                   .records = &r->records,
                                                   .on_change = on_change,
                                                   .context = r};
    registry_view_use_provisioner(r->view, registry_provision_take, &r->provisioner);
    r->manage = manage_new(&options);
}

err server_registry_open(struct server *s, struct mail *ready, struct errinfo *ei)
{
    struct server_registry *r = &s->registry;
    const struct config *config = s->now->config;
    struct server_table_options options = {.name = "registry",
                                           .ops = &table_ops,
                                           .view = "tables",
                                           .log = "tables-log",
                                           .log_kept = STORE_DURABLE,
                                           .is_shared = config->is_registry_shared};
    err e;

    *r = (struct server_registry){.server = s,
                                  .opened = {.on_mail = on_opened},
                                  .ready = ready,
                                  .changed = {.on_mail = on_changed},
                                  .looked = {.on_mail = on_looked},
                                  .look_timer = {.on_timer = on_look_timer}};
    e = hash_pool_start(HASH_THREADS, &r->pool, ei);
    if (e != E_OK)
        return e;
    r->view = registry_view_new(r->pool, &r->changed, &s->loop.mailbox);
    options.context = r->view;
    e = server_table_open(s, &options, &r->opened, &r->table, ei);
    if (e != E_OK)
        return e;
    registry_view_use_table(r->view, r->table.table);
    registry_use_view(s->now->registry, r->view);
    if (config->is_managed && config->admin_listen.host.n)
        open_management(r, config);
    return E_OK;
}

const struct http_route *server_registry_routes(const struct server_registry *r, size_t *out_n)
{
    *out_n = 0;
    return r->manage ? manage_routes(r->manage, out_n) : NULL;
}

void server_registry_prepare(struct server_registry *r, struct generation *next)
{
    registry_use_view(next->registry, r->view);
}

void server_registry_use(struct server_registry *r, const struct generation *next)
{
    registry_loader_start(&r->loader, next->config);
    if (r->manage)
        manage_use_users(r->manage, next->config->admin_users, next->config->admin_user_count);
}

void server_registry_stop(struct server_registry *r)
{
    if (!r->server)
        return;
    r->is_stopped = r->provisioner.is_stopped = true;
    wheel_stop(&r->look_timer);
    registry_loader_stop(&r->loader);
    hash_pool_stop(r->pool);
    r->pool = NULL;
}

void server_registry_free(struct server_registry *r)
{
    if (!r->server)
        return;
    hash_pool_stop(r->pool);
    registry_view_close(r->view);
    server_table_close(&r->table);
    loop_turn(&r->server->loop, 0); /* requests that waited are answered, */
    loop_turn(&r->server->loop, 0); /* and what waited for that ends */
    registry_records_fini(&r->records);
    manage_free(r->manage);
    registry_view_free(r->view);
    while (r->creations) {
        struct tenant_creation *creation = r->creations;

        r->creations = creation->next;
        server_kafka_free_topics(creation->topics);
        mem_free(MEM_REGISTRY, creation);
    }
}
