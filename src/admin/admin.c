#include "admin/admin.h"

#include "admin/scrape.h"
#include "base/check.h"
#include "base/mem.h"
#include "http/http_server.h"

enum { MAX_CONNECTIONS = 256, MAX_BODY_BYTES = 64 * 1024 };

struct admin {
    struct http_server server;
    struct http_server_options options;
    struct http_route *routes;
    size_t n_routes;
    struct admin_probes probes;
    struct scrape *scrape;
};

static struct http_metrics admin_metrics;

static const struct http1_limits limits = {
    .max_line_bytes = 4096, .max_head_bytes = 16384, .max_headers = 64, .max_body_bytes = MAX_BODY_BYTES};

/* Kafka being away is no reason to take the instance out of service: its devices would lose their connections too. */
static const struct {
    uint16_t status;
    struct str text;
} readiness[ADMIN_READINESSES] = {
    [ADMIN_STARTING] = {503, STR_INIT("starting\n")},
    [ADMIN_READY] = {200, STR_INIT("ok\n")},
    [ADMIN_DEGRADED_KAFKA] = {200, STR_INIT("degraded: kafka\n")},
    [ADMIN_DRAINING] = {503, STR_INIT("draining\n")},
};

static void on_livez(struct http_exchange *x, void *context)
{
    (void)context;
    http_exchange_respond_text(x, 200, STR("ok\n"));
}

static void on_readyz(struct http_exchange *x, void *context)
{
    const struct admin *a = context;
    enum admin_readiness now = a->probes.readiness(a->probes.context);

    ASSERT((unsigned)now < ADMIN_READINESSES);
    http_exchange_respond_text(x, readiness[now].status, readiness[now].text);
}

static void on_metrics(struct http_exchange *x, void *context)
{
    struct admin *a = context;

    scrape_answer(a->scrape, x);
}

static void on_closed(struct http_server *server)
{
    struct admin *a = CONTAINER_OF(server, struct admin, server);

    http_server_fini(server);
    mem_free(MEM_HTTP, a->routes);
    mem_free(MEM_HTTP, a);
}

/* What every process has, then what this one has besides. */
static void make_routes(struct admin *a)
{
    const struct http_route own[] = {
        {.method = HTTP_METHOD_GET, .pattern = "/livez", .handler = on_livez},
        {.method = HTTP_METHOD_GET, .pattern = "/readyz", .handler = on_readyz, .context = a},
        {.method = HTTP_METHOD_GET, .pattern = "/metrics", .handler = on_metrics, .context = a},
    };

    a->n_routes = ARRAY_LEN(own) + a->probes.n_routes;
    a->routes = mem_alloc(MEM_HTTP, a->n_routes * sizeof *a->routes);
    memcpy(a->routes, own, sizeof own);
    if (a->probes.n_routes)
        memcpy(a->routes + ARRAY_LEN(own), a->probes.routes, a->probes.n_routes * sizeof *a->routes);
}

static err refuse(struct str address, err e, const struct errinfo *why, struct errinfo *ei)
{
    return errinfo_set(ei, e, "cannot listen for the administration port on %.*s: %s", STR_ARG(address), why->text);
}

err admin_open(struct loop *l, struct str address, const struct admin_probes *probes, struct admin **out_admin,
               struct errinfo *ei)
{
    struct sockaddr_storage socket_address;
    socklen_t size;
    struct errinfo why = {0};
    struct admin *a;
    err e = listener_parse(address, &socket_address, &size, &why);

    if (e != E_OK)
        return refuse(address, e, &why, ei);
    http_metrics_register(&admin_metrics, "admin");
    a = mem_alloc_zero(MEM_HTTP, sizeof *a);
    a->probes = *probes;
    a->scrape = scrape_new(l, probes->workers);
    make_routes(a);
    a->options = (struct http_server_options){.routes = a->routes,
                                              .n_routes = a->n_routes,
                                              .limits = &limits,
                                              .metrics = &admin_metrics,
                                              .max_connections = MAX_CONNECTIONS};
    http_server_init(&a->server, l, &a->options);
    e = http_server_listen(&a->server, &socket_address, size, false, &why);
    if (e != E_OK) {
        scrape_close(a->scrape);
        on_closed(&a->server);
        return refuse(address, e, &why, ei);
    }
    *out_admin = a;
    return E_OK;
}

void admin_use_tls(struct admin *a, struct tls *tls)
{
    http_server_use_tls(&a->server, tls);
}

void admin_name(const struct admin *a, char *text, size_t size)
{
    listener_name(&a->server.listener, text, size);
}

void admin_close(struct admin *a)
{
    if (!a)
        return;
    scrape_close(a->scrape);
    a->scrape = NULL;
    http_server_drain(&a->server, 0, on_closed);
}
