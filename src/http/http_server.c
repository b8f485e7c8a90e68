#include "http/http_server.h"

#include <unistd.h>

#include "base/check.h"
#include "http/http_conn.h"
#include "http/http_pool.h"
#include "loop/tls.h"

/* How old the Date of a response may be; its unit is a second. */
enum { DATE_MAX_AGE_MS = 500 };

static void on_accept(struct listener *ln, int fd)
{
    err e = http_server_adopt(CONTAINER_OF(ln, struct http_server, listener), fd);

    (void)e; /* counted there, and there is nobody to tell */
}

static void tell_closed(struct http_server *srv)
{
    if (srv->on_closed)
        srv->on_closed(srv); /* may free srv */
}

static void run_closed(struct task *t)
{
    tell_closed(CONTAINER_OF(t, struct http_server, closed_task));
}

/* Whether this was the last thing a drain waited for; true once. */
static bool is_finished(struct http_server *srv)
{
    if (!srv->is_draining || srv->is_closed || srv->n_conns > 0 || srv->n_exchanges > 0)
        return false;
    srv->is_closed = true;
    wheel_stop(&srv->drain_timer);
    return true;
}

/* The callee may only mark the connection: it is unlinked at the end of a turn. */
static void for_each_conn(struct http_server *srv, void (*call)(struct list *link))
{
    for (struct list *link = srv->conns.next; link != &srv->conns; link = link->next)
        call(link);
}

static void on_drain_timer(struct timer *t)
{
    for_each_conn(CONTAINER_OF(t, struct http_server, drain_timer), http_conn_cut);
}

void http_server_init(struct http_server *srv, struct loop *l, const struct http_server_options *options)
{
    ASSERT(options->metrics && options->metrics->received);
    *srv = (struct http_server){
        .loop = l,
        .options = options,
        .listener = {.io = {.fd = -1}, .on_accept = on_accept},
        .closed_task = {.run = run_closed},
        .drain_timer = {.on_timer = on_drain_timer},
    };
    list_init(&srv->conns);
    list_init(&srv->exchanges);
    list_init(&srv->pool);
}

err http_server_bind(struct http_server *srv, const struct sockaddr_storage *address, socklen_t size, bool is_shared,
                     struct errinfo *ei)
{
    return listener_open(&srv->listener, srv->loop, address, size, is_shared, ei);
}

err http_server_start(struct http_server *srv, struct errinfo *ei)
{
    err e = listener_start(&srv->listener, ei);

    if (e != E_OK)
        listener_close(&srv->listener);
    return e;
}

err http_server_listen(struct http_server *srv, const struct sockaddr_storage *address, socklen_t size, bool is_shared,
                       struct errinfo *ei)
{
    err e = http_server_bind(srv, address, size, is_shared, ei);

    return e == E_OK ? http_server_start(srv, ei) : e;
}

void http_server_use_tls(struct http_server *srv, struct tls *tls)
{
    struct tls *before = srv->tls;

    srv->tls = tls ? tls_ref(tls) : NULL;
    tls_unref(before);
}

err http_server_adopt(struct http_server *srv, int fd)
{
    const struct http_metrics *m = srv->options->metrics;
    err e;

    metric_add(m->accepted, 1);
    if (srv->is_draining || (srv->options->max_connections && srv->n_conns >= srv->options->max_connections)) {
        metric_add(&m->closed[srv->is_draining ? HTTP_CLOSED_DRAIN : HTTP_CLOSED_LIMIT], 1);
        close(fd);
        return E_LIMIT;
    }
    e = http_conn_open(srv, fd);
    if (e == E_OK)
        metric_add(m->open, 1);
    else
        metric_add(&m->closed[HTTP_CLOSED_ERROR], 1);
    return e;
}

void http_server_drain(struct http_server *srv, uint64_t limit_ms, void (*on_closed)(struct http_server *srv))
{
    bool is_first = !srv->is_draining;

    if (srv->is_closed)
        return;
    srv->is_draining = true;
    srv->on_closed = on_closed ? on_closed : srv->on_closed;
    listener_close(&srv->listener);
    if (is_first)
        for_each_conn(srv, http_conn_drain);
    if (limit_ms == 0)
        for_each_conn(srv, http_conn_cut);
    else if (!wheel_is_set(&srv->drain_timer) || srv->drain_timer.due_ms > srv->loop->wheel.clock_ms + limit_ms)
        wheel_start(&srv->loop->wheel, &srv->drain_timer, limit_ms);
    if (is_finished(srv))
        loop_defer(srv->loop, &srv->closed_task);
}

struct str http_server_date(struct http_server *srv)
{
    uint64_t now_ms = srv->loop->now_ms;

    if (srv->date_at_ms == 0 || now_ms - srv->date_at_ms >= DATE_MAX_AGE_MS) {
        http1_encoder_date(srv->date, loop_wall_ms() / 1000);
        srv->date_at_ms = now_ms;
    }
    return (struct str){srv->date, sizeof srv->date};
}

void http_server_hold_exchange(struct http_server *srv, struct http_exchange *x)
{
    list_push(&srv->exchanges, &x->link);
    srv->n_exchanges++;
}

void http_server_finish_exchange(struct http_server *srv)
{
    srv->n_exchanges--;
    if (is_finished(srv)) /* somebody's handler is on the stack */
        loop_defer(srv->loop, &srv->closed_task);
}

void http_server_remove_conn(struct http_server *srv, struct list *link)
{
    list_remove(link);
    srv->n_conns--;
    metric_add(srv->options->metrics->open, (uint64_t)-1);
    if (is_finished(srv)) /* the end of a turn already */
        tell_closed(srv);
}

void http_server_fini(struct http_server *srv)
{
    ASSERT(srv->n_conns == 0 && srv->n_exchanges == 0);
    listener_close(&srv->listener);
    wheel_stop(&srv->drain_timer);
    tls_unref(srv->tls);
    http_pool_free(srv);
}
