/* command_link_fixture: two instances with workers whose loops the test turns, real certificates, and a proxy between them that opens what
 * passes and can cut it at any byte. For the tests of the link. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "command/command_link.h"
#include "command/command_link_frame.h"
#include "command/command_link_metrics.h"
#include "command/command_port.h"
#include "loop/listener.h"
#include "loop/stream.h"
#include "loop/tls.h"
#include "loop/tls_fixture.h"

enum { WORKERS_A = 2, WORKERS_B = 3, TENANTS = 4, TURNS_MAX = 500000, INCARNATION = 5, NAME_BYTES = 80 };

/* What a side has been told of one tenant. */
struct heard {
    int64_t last; /* offsets begin at 1; 0: nothing */
    unsigned n_again;
};

struct side {
    const char *name;
    unsigned n_workers;
    struct workers workers;
    struct command_transport *transport;
    struct heard requests[TENANTS], results[TENANTS];
    unsigned n_rooms;
    bool is_ready;
    struct mail ready;
    struct str address_of_other; /* `p` NULL: it is gone */
    void (*on_request)(struct side *side, const struct command_request *request);
};

/* Two streams with the bytes of one connection, opened. */
struct proxied {
    struct stream near, far; /* to whoever connected, to whom it wanted */
    bool is_near_open, is_far_open;
};

static struct {
    struct loop loop;
    struct listener listener;
    struct tls *server, *client;
    char target[NAME_BYTES];
    struct proxied pairs[8];
    unsigned n_pairs;
    size_t cut_to, cut_from; /* after so many bytes to the far end, or from it, a connection is cut, once; 0: never */
    bool is_deaf;            /* reads nothing more of whoever connected */
    bool is_mute;            /* passes nothing on, but reads */
} proxy;

static struct side a = {.name = "a", .n_workers = WORKERS_A}, b = {.name = "b", .n_workers = WORKERS_B};
static struct tls_stats server_stats, client_stats;
static int64_t counted[COMMAND_LINK_COUNTS];
static unsigned heartbeat_ms;

static inline int64_t counts(enum command_link_metric which)
{
    return metric_value(&command_link_metrics[which]) - counted[which];
}

/* --- certificates --- */

/* Server or client by the certificate NAME, trusting CA. */
static inline struct tls *make_tls(const char *name, const char *ca, bool is_server)
{
    char files[2][64];
    const char *cert, *key, *ca_path = tls_fixture_path(ca);
    struct tls_options options = {
        .cert_files = &cert,
        .key_files = &key,
        .n_certs = 1,
        .ca_files = &ca_path,
        .n_cas = 1,
        .client_auth = TLS_CLIENT_REQUIRED,
        .alpn = is_server ? (const char *const[]){COMMAND_LINK_ALPN, NULL} : NULL,
        .handshake_timeout_ms = 10000,
        .stats = is_server ? &server_stats : &client_stats,
    };
    struct errinfo ei = {0};
    struct tls *tls = NULL;

    snprintf(files[0], sizeof files[0], "%s.pem", name);
    snprintf(files[1], sizeof files[1], "%s.key", name);
    cert = tls_fixture_path(files[0]);
    key = tls_fixture_path(files[1]);
    if ((is_server ? tls_new_server(&options, &tls, &ei) : tls_new_client(&options, &tls, &ei)) != E_OK)
        fail_msg("%s", ei.text);
    return tls;
}

static inline int make_certificates(void **state)
{
    struct identity root, stranger, leaf;

    (void)state;
    tls_fixture_open();
    root = identity_ca("root", NULL);
    stranger = identity_ca("stranger", NULL);
    identity_write("root", &root, NULL);
    identity_write("stranger", &stranger, NULL);
    for (const char *const *name = (const char *const[]){"a", "b", "c", NULL}; *name; name++) {
        char san[16];

        snprintf(san, sizeof san, "DNS:%s", *name);
        leaf = identity_leaf(*name, &root, san);
        identity_write(*name, &leaf, NULL);
        identity_free(&leaf);
    }
    leaf = identity_leaf("a", &stranger, "DNS:a");
    identity_write("forged", &leaf, NULL);
    identity_free(&leaf);
    identity_free(&root);
    identity_free(&stranger);
    return 0;
}

static inline int remove_certificates(void **state)
{
    (void)state;
    tls_fixture_close();
    return 0;
}

/* --- the sides --- */

static inline struct command_plane *as_plane(struct side *side)
{
    return (struct command_plane *)(void *)side;
}

static inline unsigned tenant_number(struct str tenant)
{
    assert_true(tenant.n == 2 && tenant.p[0] == 't' && tenant.p[1] >= '0' && tenant.p[1] < '0' + TENANTS);
    return (unsigned)(tenant.p[1] - '0');
}

/* In order: nothing is new but what follows the last one. */
static inline void hear(struct heard *heard, int64_t offset)
{
    assert_true(offset >= 1 && offset <= heard->last + 1);
    if (offset == heard->last + 1)
        heard->last = offset;
    else
        heard->n_again++;
}

static inline void on_request(struct command_plane *plane, const struct command_request *request)
{
    struct side *side = (struct side *)(void *)plane;

    assert_true(str_equal(request->to.instance, str_from(side->name)));
    assert_int_equal(request->from.instance.n, 1);
    hear(&side->requests[tenant_number(request->ticket.tenant)], request->ticket.offset);
    if (side->on_request)
        side->on_request(side, request);
}

static inline void on_result(struct command_plane *plane, const struct command_result_message *result)
{
    struct side *side = (struct side *)(void *)plane;

    assert_true(str_equal(result->to.instance, str_from(side->name)));
    hear(&side->results[tenant_number(result->ticket.tenant)], result->ticket.offset);
}

static inline void on_room(struct command_plane *plane, unsigned worker)
{
    struct side *side = (struct side *)(void *)plane;

    assert_true(worker < side->n_workers);
    side->n_rooms++;
}

static inline unsigned worker_of(void *context, struct str tenant)
{
    return tenant_number(tenant) % ((struct side *)context)->n_workers;
}

static inline struct str address_of(void *context, unsigned worker, const struct command_peer *peer)
{
    (void)worker;
    return peer->incarnation == INCARNATION ? ((struct side *)context)->address_of_other : (struct str){0};
}

static inline void on_ready(struct mail *m)
{
    CONTAINER_OF(m, struct side, ready)->is_ready = true;
}

/* With the certificate NAME; `listen` an address. */
static inline void open_side(struct side *side, const char *certificate, const char *ca, const char *listen)
{
    struct errinfo ei = {0};
    struct command_link_settings settings = {
        .workers = &side->workers,
        .user = {.plane = as_plane(side), .on_request = on_request, .on_result = on_result, .on_room = on_room},
        .instance = str_from(side->name),
        .listen = str_from(listen),
        .host = STR("127.0.0.1"),
        .server = make_tls(certificate, ca, true),
        .client = make_tls(certificate, ca, false),
        .context = side,
        .worker_of = worker_of,
        .address_of = address_of,
        .heartbeat_ms = heartbeat_ms,
        .retry_ms = 2,
    };

    memset(side->requests, 0, sizeof side->requests);
    memset(side->results, 0, sizeof side->results);
    side->n_rooms = 0;
    side->is_ready = false;
    side->on_request = NULL;
    side->ready.on_mail = on_ready;
    assert_int_equal(workers_init(&side->workers, side->n_workers, 1 << 20, NULL, NULL), E_OK);
    if (command_link_new(&settings, &side->transport, &ei) != E_OK)
        fail_msg("%s", ei.text);
    tls_unref(settings.server);
    tls_unref(settings.client);
    side->transport->ops->start(side->transport, &side->ready, &side->workers.list[0].loop.mailbox);
}

static inline void close_side(struct side *side)
{
    if (!side->transport)
        return;
    side->transport->ops->free(side->transport);
    side->transport = NULL;
    workers_fini(&side->workers);
}

/* --- the proxy --- */

static inline void end_pair(struct proxied *p)
{
    stream_close(&p->near, E_CLOSED);
    stream_close(&p->far, E_CLOSED);
}

/* Passes bytes on, up to the cut. */
static inline size_t pass(struct proxied *p, struct stream *to, size_t *cut, struct str bytes)
{
    size_t n = bytes.n;

    if (proxy.is_mute)
        return n;
    if (*cut && *cut <= n)
        bytes.n = *cut;
    assert_true(stream_write(to, bytes) == E_OK || stream_is_closing(to));
    if (*cut && *cut <= n) {
        *cut = 0;
        end_pair(p);
    } else if (*cut) {
        *cut -= n;
    }
    return n;
}

static inline size_t on_near_data(struct stream *s, struct str bytes)
{
    struct proxied *p = CONTAINER_OF(s, struct proxied, near);

    if (proxy.is_deaf) {
        stream_pause(s);
        return 0;
    }
    return pass(p, &p->far, &proxy.cut_to, bytes);
}

static inline size_t on_far_data(struct stream *s, struct str bytes)
{
    struct proxied *p = CONTAINER_OF(s, struct proxied, far);

    return pass(p, &p->near, &proxy.cut_from, bytes);
}

static inline void on_near_close(struct stream *s, err why)
{
    struct proxied *p = CONTAINER_OF(s, struct proxied, near);

    (void)why;
    p->is_near_open = false;
    stream_close(&p->far, E_CLOSED);
}

static inline void on_far_close(struct stream *s, err why)
{
    struct proxied *p = CONTAINER_OF(s, struct proxied, far);

    (void)why;
    p->is_far_open = false;
    stream_close(&p->near, E_CLOSED);
}

static const struct stream_ops near_ops = {.on_data = on_near_data, .on_close = on_near_close};
static const struct stream_ops far_ops = {.on_data = on_far_data, .on_close = on_far_close};

static inline void on_proxy_accept(struct listener *ln, int fd)
{
    struct proxied *p = NULL;
    struct sockaddr_storage address;
    socklen_t size;

    for (size_t i = 0; i < ARRAY_LEN(proxy.pairs) && !p; i++)
        if (!proxy.pairs[i].is_near_open && !proxy.pairs[i].is_far_open)
            p = &proxy.pairs[i];
    assert_non_null(p);
    assert_int_equal(listener_parse(str_from(proxy.target), &address, &size, NULL), E_OK);
    proxy.n_pairs++;
    p->is_near_open = p->is_far_open = true;
    assert_int_equal(stream_open_tls(&p->near, ln->loop, fd, &near_ops, proxy.server), E_OK);
    assert_int_equal(stream_connect_tls(&p->far, ln->loop, (struct sockaddr *)&address, size, &far_ops, proxy.client,
                                        &(struct tls_server){.name = "b", .alpn = COMMAND_LINK_ALPN}),
                     E_OK);
}

/* Between A and B, whose certificates it has. Returns its address. */
static inline struct str open_proxy(void)
{
    static char name[NAME_BYTES];
    struct sockaddr_storage address;
    socklen_t size;
    struct str to = command_link_address(b.transport);

    memset(&proxy, 0, sizeof proxy);
    snprintf(proxy.target, sizeof proxy.target, "%.*s", STR_ARG(to));
    proxy.server = make_tls("b", "root.pem", true);
    proxy.client = make_tls("a", "root.pem", false);
    proxy.listener.on_accept = on_proxy_accept;
    assert_int_equal(loop_init(&proxy.loop, 1 << 20, NULL), E_OK);
    assert_int_equal(listener_parse(STR("127.0.0.1:0"), &address, &size, NULL), E_OK);
    assert_int_equal(listener_open(&proxy.listener, &proxy.loop, &address, size, false, NULL), E_OK);
    assert_int_equal(listener_start(&proxy.listener, NULL), E_OK);
    listener_name(&proxy.listener, name, sizeof name);
    return str_from(name);
}

static inline void close_proxy(void)
{
    if (!proxy.server)
        return;
    listener_close(&proxy.listener);
    for (size_t i = 0; i < ARRAY_LEN(proxy.pairs); i++) {
        stream_fini(&proxy.pairs[i].near);
        stream_fini(&proxy.pairs[i].far);
    }
    loop_fini(&proxy.loop);
    tls_unref(proxy.server);
    tls_unref(proxy.client);
    memset(&proxy, 0, sizeof proxy);
}

/* --- time --- */

static inline void turn_side(struct side *side)
{
    for (unsigned i = 0; side->transport && i < side->n_workers; i++)
        loop_turn(&side->workers.list[i].loop, 0);
}

static inline void turn_all(void)
{
    turn_side(&a);
    turn_side(&b);
    if (proxy.server)
        loop_turn(&proxy.loop, 0);
}

static inline void turn_until(bool (*is_so)(void), const char *what)
{
    for (unsigned i = 0; !is_so(); i++) {
        if (i == TURNS_MAX)
            fail_msg("never: %s", what);
        turn_all();
        if (i > 100)
            loop_turn(&a.workers.list[0].loop, 1); /* rests, once it is not at once */
    }
}

#define TURN_UNTIL(is_so) turn_until(is_so, #is_so)

static inline bool is_ready(void)
{
    return a.is_ready && b.is_ready;
}

/* A and B, connected through the proxy where `is_proxied`. */
static inline void open_both(bool is_proxied)
{
    open_side(&a, "a", "root.pem", "127.0.0.1:0");
    open_side(&b, "b", "root.pem", "127.0.0.1:0");
    a.address_of_other = is_proxied ? open_proxy() : command_link_address(b.transport);
    b.address_of_other = command_link_address(a.transport);
    for (size_t i = 0; i < COMMAND_LINK_COUNTS; i++)
        counted[i] += counts(i);
    TURN_UNTIL(is_ready);
}

static inline void close_both(void)
{
    close_side(&a);
    close_side(&b);
    close_proxy();
}

static inline int tear_down(void **state)
{
    (void)state;
    close_both();
    heartbeat_ms = 0;
    return 0;
}

/* --- what they say --- */

static const char *const tenants[TENANTS] = {"t0", "t1", "t2", "t3"};

static inline struct command_request request_of(unsigned tenant, int64_t offset, struct str value)
{
    return (struct command_request){
        .ticket = {.tenant = str_from(tenants[tenant]), .partition = 3, .offset = offset},
        .from = {.instance = STR("a"), .incarnation = 9},
        .to = {.instance = STR("b"), .incarnation = INCARNATION},
        .after = 1,
        .epoch = 2,
        .key = STR("4711"),
        .value = value,
    };
}

static inline err ask(unsigned tenant, int64_t offset, struct str value)
{
    struct command_request request = request_of(tenant, offset, value);

    return a.transport->ops->send_request(a.transport, tenant % WORKERS_A, &request);
}

static inline void ask_all(int64_t offset)
{
    for (unsigned i = 0; i < TENANTS; i++)
        assert_int_equal(ask(i, offset, STR("on")), E_OK);
}

static inline err answer(struct side *side, struct str to, unsigned tenant, int64_t offset)
{
    const struct command_result_message result = {
        .ticket = {.tenant = str_from(tenants[tenant]), .partition = 3, .offset = offset},
        .from = {.instance = str_from(side->name), .incarnation = INCARNATION},
        .to = {.instance = to, .incarnation = INCARNATION},
        .result = COMMAND_RECEIVED,
    };

    return side->transport->ops->send_result(side->transport, tenant % side->n_workers, &result);
}
