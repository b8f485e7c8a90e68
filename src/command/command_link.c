#include "command/command_link.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "command/command_link_private.h"
#include "loop/tls.h"

enum { HEARTBEAT_MS = 1000, RETRY_MS = 100, LISTEN_AGAIN_MS = 1000, ADDRESS_BYTES = 80 };

static struct command_link *link_of(struct command_transport *transport)
{
    return CONTAINER_OF(transport, struct command_link, transport);
}

/* --- for the other files --- */

struct tls *command_link_ref_tls(struct command_link *link, bool is_server)
{
    struct tls *tls;

    pthread_mutex_lock(&link->lock);
    tls = tls_ref(is_server ? link->server : link->client);
    pthread_mutex_unlock(&link->lock);
    return tls;
}

uint64_t command_link_random(void)
{
    uint64_t number;

    ASSERT(getrandom(&number, sizeof number, 0) == (ssize_t)sizeof number);
    return number;
}

/* Heartbeats find a dead peer; this is for what the kernel would go on to send to it. It counts also while a living peer reads nothing,
 * so it is longer than anybody rests. */
void command_link_set_up_socket(const struct command_link *link, int fd)
{
    unsigned limit_ms = COMMAND_LINK_USER_TIMEOUT * link->settings.heartbeat_ms;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof limit_ms); /* later, not wrong, without it */
}

static void run_room(struct task *t)
{
    struct command_link_worker *lw = CONTAINER_OF(t, struct command_link_worker, room);
    const struct command_transport_user *user = &lw->link->settings.user;

    if (!lw->is_room_wanted)
        return;
    lw->is_room_wanted = false;
    user->on_room(user->plane, lw->worker->id);
}

void command_link_note_room(struct command_link_worker *lw)
{
    if (lw->is_room_wanted)
        loop_defer(&lw->worker->loop, &lw->room);
}

/* --- life on a worker --- */

static void on_tick(struct timer *t)
{
    struct command_link_worker *lw = CONTAINER_OF(t, struct command_link_worker, tick);

    wheel_start(&lw->worker->loop.wheel, t, lw->link->settings.heartbeat_ms);
    command_link_channel_tick_all(lw);
    command_link_inlet_tick_all(lw);
}

static void on_look(struct mail *m)
{
    struct command_link_worker *lw = CONTAINER_OF(m, struct command_link_worker, look);

    atomic_store(&lw->is_look_due, false);
    command_link_channel_look_all(lw);
}

/* Who ends may still listen there; until it does not, nobody may be told of our address. */
static void listen_now(struct command_link *link)
{
    struct errinfo ei = {0};

    if (listener_start(&link->listener, &ei) == E_OK) {
        mailbox_post(link->ready_home, link->ready);
        return;
    }
    LOG_ERROR(LOG_COMMAND, "link.listen_failed", F_STR("address", link->settings.listen), F_TEXT("why", ei.text));
    wheel_start(&link->listener.loop->wheel, &link->listen_again, LISTEN_AGAIN_MS);
}

static void on_listen_again(struct timer *t)
{
    listen_now(CONTAINER_OF(t, struct command_link, listen_again));
}

static void on_start(struct mail *m)
{
    struct command_link_worker *lw = CONTAINER_OF(m, struct command_link_worker, start);

    wheel_start(&lw->worker->loop.wheel, &lw->tick, lw->link->settings.heartbeat_ms);
    if (lw->worker->id == 0)
        listen_now(lw->link);
}

/* --- the transport --- */

static err send_request(struct command_transport *transport, unsigned worker, const struct command_request *request)
{
    return command_link_channel_send_request(&link_of(transport)->workers[worker], request);
}

static err send_result(struct command_transport *transport, unsigned worker, const struct command_result_message *result)
{
    return command_link_channel_send_result(&link_of(transport)->workers[worker], result);
}

static void on_instances(struct command_transport *transport)
{
    struct command_link *link = link_of(transport);

    for (unsigned i = 0; i < link->settings.workers->n; i++)
        if (!atomic_exchange(&link->workers[i].is_look_due, true))
            mailbox_post(&link->workers[i].worker->loop.mailbox, &link->workers[i].look);
}

static void start(struct command_transport *transport, struct mail *ready, struct mailbox *home)
{
    struct command_link *link = link_of(transport);

    link->ready = ready;
    link->ready_home = home;
    for (unsigned i = 0; i < link->settings.workers->n; i++)
        mailbox_post(&link->workers[i].worker->loop.mailbox, &link->workers[i].start);
}

static void free_link(struct command_transport *transport)
{
    struct command_link *link = link_of(transport);

    listener_close(&link->listener);
    wheel_stop(&link->listen_again);
    resolver_fini(&link->resolver); /* its questions are ours again */
    command_link_inlet_close_all(link);
    for (unsigned i = 0; i < link->settings.workers->n; i++) {
        wheel_stop(&link->workers[i].tick);
        command_link_channel_free_all(&link->workers[i]);
        command_link_inlet_free_all(&link->workers[i]);
    }
    tls_unref(link->server);
    tls_unref(link->client);
    pthread_mutex_destroy(&link->lock);
    mem_free(MEM_COMMAND, link->workers);
    mem_free(MEM_COMMAND, link->texts);
    mem_free(MEM_COMMAND, link);
}

static const struct command_transport_ops ops = {
    .send_request = send_request,
    .send_result = send_result,
    .on_instances = on_instances,
    .start = start,
    .free = free_link,
};

/* --- beginning --- */

/* Once the listener is bound: with what others can do to reach it. */
static void keep_texts(struct command_link *link)
{
    struct command_link_settings *s = &link->settings;
    char bound[ADDRESS_BYTES];
    struct str port;
    char *at;

    listener_name(&link->listener, bound, sizeof bound);
    port = str_from(strrchr(bound, ':'));
    at = link->texts = mem_alloc(MEM_COMMAND, s->instance.n + s->listen.n + s->advertise.n + s->host.n + port.n + 1);
    s->instance = str_put(&at, s->instance);
    s->listen = str_put(&at, s->listen);
    link->address = str_put(&at, s->advertise.n ? s->advertise : s->host);
    if (s->advertise.n == 0)
        link->address.n += str_put(&at, port).n; /* they lie side by side */
    s->advertise = s->host = (struct str){0};
}

static err open_listener(struct command_link *link, struct errinfo *ei)
{
    struct sockaddr_storage address;
    socklen_t size;
    err e = listener_parse(link->settings.listen, &address, &size, ei);

    link->listener.io.fd = -1;
    link->listener.on_accept = command_link_inlet_on_accept;
    if (e == E_OK)
        e = listener_open(&link->listener, &link->settings.workers->list[0].loop, &address, size, false, ei);
    return e;
}

static void set_up_worker(struct command_link *link, unsigned i)
{
    struct command_link_worker *lw = &link->workers[i];

    lw->link = link;
    lw->worker = &link->settings.workers->list[i];
    lw->tick.on_timer = on_tick;
    lw->start.on_mail = on_start;
    lw->look.on_mail = on_look;
    lw->room.run = run_room;
    list_init(&lw->channels);
    list_init(&lw->inlets);
    list_init(&lw->handed);
}

err command_link_new(const struct command_link_settings *settings, struct command_transport **out_transport, struct errinfo *ei)
{
    struct command_link *link = mem_alloc_zero(MEM_COMMAND, sizeof *link);
    err e;

    link->transport.ops = &ops;
    link->settings = *settings;
    e = settings->instance.n > COMMAND_LINK_INSTANCE_BYTES
            ? errinfo_set(ei, E_INVAL, "the instance's name is longer than %d bytes", COMMAND_LINK_INSTANCE_BYTES)
            : open_listener(link, ei);
    if (e != E_OK) {
        mem_free(MEM_COMMAND, link);
        return e;
    }
    if (!settings->heartbeat_ms)
        link->settings.heartbeat_ms = HEARTBEAT_MS;
    if (!settings->retry_ms)
        link->settings.retry_ms = RETRY_MS;
    keep_texts(link);
    link->listen_again.on_timer = on_listen_again;
    link->server = tls_ref(settings->server);
    link->client = tls_ref(settings->client);
    pthread_mutex_init(&link->lock, NULL);
    list_init(&link->conns);
    resolver_init(&link->resolver);
    link->workers = mem_alloc_zero(MEM_COMMAND, settings->workers->n * sizeof *link->workers);
    for (unsigned i = 0; i < settings->workers->n; i++)
        set_up_worker(link, i);
    metrics_register(command_link_metrics, COMMAND_LINK_COUNTS);
    *out_transport = &link->transport;
    return E_OK;
}

void command_link_set_user(struct command_transport *transport, const struct command_transport_user *user)
{
    link_of(transport)->settings.user = *user;
}

struct str command_link_address(struct command_transport *transport)
{
    return link_of(transport)->address;
}

void command_link_use_tls(struct command_transport *transport, struct tls *server, struct tls *client)
{
    struct command_link *link = link_of(transport);
    struct tls *before[2];

    pthread_mutex_lock(&link->lock);
    before[0] = link->server;
    before[1] = link->client;
    link->server = tls_ref(server);
    link->client = tls_ref(client);
    pthread_mutex_unlock(&link->lock);
    tls_unref(before[0]);
    tls_unref(before[1]);
}
