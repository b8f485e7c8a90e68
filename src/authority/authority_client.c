#include "authority/authority_client.h"

#include "base/check.h"
#include "base/mem.h"
#include "loop/tls.h"

static struct http_client_metrics metrics[AUTHORITY_USES];

static const char *const names[AUTHORITY_USES] = {
    [AUTHORITY_WEBHOOK] = "webhook", [AUTHORITY_KEYS] = "jwks", [AUTHORITY_OCSP] = "ocsp"};

void authority_client_init(struct authority_clients *c, struct workers *workers)
{
    *c = (struct authority_clients){.workers = workers};
    for (int use = 0; use < AUTHORITY_USES; use++)
        http_client_metrics_register(&metrics[use], names[use]);
    c->list = mem_alloc_zero(MEM_HTTP, workers->n * sizeof *c->list);
    resolver_init(&c->resolver);
    pthread_mutex_init(&c->lock, NULL);
    atomic_init(&c->tls_number, 0);
    atomic_init(&c->is_closed, false);
}

void authority_client_use_tls(struct authority_clients *c, struct tls *tls)
{
    pthread_mutex_lock(&c->lock);
    if (c->tls != tls) {
        tls_unref(c->tls);
        c->tls = tls ? tls_ref(tls) : NULL;
        atomic_fetch_add(&c->tls_number, 1);
    }
    pthread_mutex_unlock(&c->lock);
}

/* The worker's own, on its thread. */
static void follow_tls(struct authority_clients *c, struct authority_client *client)
{
    if (client->tls_number == atomic_load(&c->tls_number))
        return;
    pthread_mutex_lock(&c->lock);
    client->tls_number = atomic_load(&c->tls_number);
    http_client_use_tls(&client->http, c->tls);
    pthread_mutex_unlock(&c->lock);
}

static struct worker *find_worker(const struct authority_clients *c, const struct mailbox *home)
{
    for (unsigned i = 0; i < c->workers->n; i++)
        if (&c->workers->list[i].loop.mailbox == home)
            return &c->workers->list[i];
    return NULL;
}

static unsigned share_of(const struct authority_clients *c, uint64_t connections)
{
    uint64_t share = (connections + c->workers->n - 1) / c->workers->n;

    return share ? (unsigned)share : 1;
}

err authority_client_send(struct authority_clients *c, struct mailbox *home, enum authority_use use,
                          const struct authority_client_bounds *bounds, struct http_call *call,
                          const struct http_client_request *request)
{
    struct worker *w = find_worker(c, home);
    struct authority_client *client;

    if (!w || atomic_load(&c->is_closed))
        return E_CLOSED;
    client = &c->list[w->id][use];
    if (!client->is_open) {
        client->options = (struct http_client_options){.metrics = &metrics[use], .resolver = &c->resolver};
        http_client_init(&client->http, &w->loop, &client->options);
        client->is_open = true;
    }
    client->options.max_connections = share_of(c, bounds->connections); /* a reload may have changed them */
    client->options.max_waiting = (unsigned)bounds->max_waiting;
    follow_tls(c, client);
    return http_client_send(&client->http, call, request);
}

void authority_client_close(struct authority_clients *c)
{
    if (!c->workers)
        return;
    atomic_store(&c->is_closed, true);
    for (unsigned i = 0; i < c->workers->n; i++)
        for (int use = 0; use < AUTHORITY_USES; use++)
            if (c->list[i][use].is_open)
                http_client_close(&c->list[i][use].http);
}

void authority_client_fini(struct authority_clients *c)
{
    if (!c->workers)
        return;
    resolver_fini(&c->resolver);
    for (unsigned i = 0; i < c->workers->n; i++)
        for (int use = 0; use < AUTHORITY_USES; use++)
            if (c->list[i][use].is_open)
                http_client_fini(&c->list[i][use].http);
    mem_free(MEM_HTTP, c->list);
    tls_unref(c->tls);
    pthread_mutex_destroy(&c->lock);
    *c = (struct authority_clients){0};
}
