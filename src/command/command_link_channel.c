/* A channel: what one worker of this process sends to one incarnation of another instance. */
#include <netinet/in.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "command/command_link_private.h"
#include "loop/stream.h"
#include "loop/tls.h"

enum {
    PUMP_BYTES = 256 << 10, /* that lie ready in the stream, besides those that are kept */
    RETRIES_MAX = 20,       /* the longest pause between two attempts, by the first */
    ANSWER_BYTES = COMMAND_LINK_GREETING_BYTES,
};

enum phase {
    PHASE_RESTS,    /* nothing has been sent yet */
    PHASE_PAUSES,   /* until the next attempt to connect */
    PHASE_ASKS,     /* for the addresses of a name */
    PHASE_CONNECTS, /* TCP, TLS, the greeting */
    PHASE_STANDS,   /* frames flow */
};

struct query {
    struct resolver_query query;
    struct command_link_channel *channel;
};

struct command_link_channel {
    struct list link; /* of the worker's */
    struct command_link_worker *home;
    enum phase phase;
    struct stream stream;
    struct timer timer;
    struct query *query;
    struct sockaddr_storage addresses[RESOLVER_ADDRESSES];
    unsigned n_addresses, n_attempts;
    unsigned n_failures; /* attempts to connect since it last stood */
    unsigned n_misses;
    bool has_heard, has_spoken; /* since the last heartbeat */
    bool is_gone;               /* its peer is: it goes too as soon as nothing refers to it */

    uint64_t number;      /* of the channel */
    uint64_t first, next; /* of the frames that are kept */
    struct buf kept;
    size_t n_sent; /* bytes from the front that were given to the newest connection that stood */

    uint64_t incarnation;
    uint16_t port;
    bool is_numeric;
    struct str instance;
    char host[RESOLVER_NAME_MAX + 1];
    char text[]; /* of the instance, ended by a NUL */
};

static struct command_link *link_of(const struct command_link_channel *c)
{
    return c->home->link;
}

static struct command_link_channel *from_stream(struct stream *s)
{
    return CONTAINER_OF(s, struct command_link_channel, stream);
}

/* --- what is kept --- */

/* The peer has everything up to `received`. E_PROTO: it cannot have. */
static err forget(struct command_link_channel *c, uint64_t received)
{
    size_t before = buf_size(&c->kept);

    if (received + 1 < c->first || received >= c->next)
        return E_PROTO;
    while (c->first <= received) {
        size_t n = command_link_frame_bytes(buf_str(&c->kept));

        if (n > c->n_sent)
            return E_PROTO;
        buf_consume(&c->kept, n);
        c->n_sent -= n;
        c->first++;
    }
    command_link_count(COMMAND_LINK_COUNT_KEPT_BYTES, (int64_t)buf_size(&c->kept) - (int64_t)before);
    if (buf_size(&c->kept) == 0)
        buf_free(&c->kept, MEM_COMMAND);
    if (buf_size(&c->kept) <= COMMAND_LINK_WINDOW_BYTES / 2)
        command_link_note_room(c->home);
    return E_OK;
}

static void forget_all(struct command_link_channel *c)
{
    command_link_count(COMMAND_LINK_COUNT_DROPPED, (int64_t)(c->next - c->first));
    command_link_count(COMMAND_LINK_COUNT_KEPT_BYTES, -(int64_t)buf_size(&c->kept));
    c->first = c->next;
    c->n_sent = 0;
    buf_free(&c->kept, MEM_COMMAND);
}

/* A new connection stands and begins with the oldest frame: those that had been sent, or begun, are sent again. */
static void rewind_kept(struct command_link_channel *c)
{
    struct str rest = buf_str(&c->kept);
    size_t sent = c->n_sent;

    c->n_sent = 0;
    while (rest.n && sent >= command_link_frame_bytes(rest)) {
        size_t n = command_link_frame_bytes(rest);

        command_link_count(COMMAND_LINK_COUNT_REPEATED, 1);
        sent -= n;
        rest = str_from_offset(rest, n);
    }
}

/* Gives the stream what it can take. */
static void pump(struct command_link_channel *c)
{
    while (c->phase == PHASE_STANDS && c->n_sent < buf_size(&c->kept) && stream_pending(&c->stream) < PUMP_BYTES) {
        struct str rest = str_from_offset(buf_str(&c->kept), c->n_sent);
        size_t room = PUMP_BYTES - stream_pending(&c->stream);

        if (rest.n > room)
            rest.n = room;
        if (stream_write(&c->stream, rest) != E_OK) {
            stream_close(&c->stream, E_NOMEM); /* a no-op on one that is closing */
            return;
        }
        c->n_sent += rest.n;
        c->has_spoken = true;
    }
}

/* --- the connection --- */

static void stand(struct command_link_channel *c)
{
    wheel_stop(&c->timer);
    c->phase = PHASE_STANDS;
    c->n_failures = c->n_misses = 0;
    command_link_count(COMMAND_LINK_COUNT_CONNECTED, 1);
    command_link_count(COMMAND_LINK_COUNT_OUT, 1);
    LOG_INFO(LOG_COMMAND, "link.connected", F_STR("instance", c->instance), F_TEXT("host", c->host), F_INT("port", c->port));
    rewind_kept(c);
    pump(c);
}

static void on_refusal(struct command_link_channel *c, const struct command_link_frame *f)
{
    LOG_WARN(LOG_COMMAND, "link.refused", F_STR("instance", c->instance), F_TEXT("host", c->host), F_INT("port", c->port),
             F_TEXT("why", command_link_frame_refusal_name(f->refusal)));
    stream_close(&c->stream, E_DENIED);
}

/* What the peer says: a welcome first, then acknowledgements. */
static err take(struct command_link_channel *c, const struct command_link_frame *f)
{
    if (f->kind == COMMAND_LINK_REFUSAL) {
        on_refusal(c, f);
        return E_OK;
    }
    if (f->kind != (c->phase == PHASE_STANDS ? COMMAND_LINK_ACK : COMMAND_LINK_WELCOME) || forget(c, f->number) != E_OK)
        return E_PROTO;
    if (f->kind == COMMAND_LINK_WELCOME)
        stand(c);
    return E_OK;
}

static size_t on_data(struct stream *s, struct str bytes)
{
    struct command_link_channel *c = from_stream(s);
    struct record_header headers[COMMAND_LINK_HEADERS_MAX];
    struct command_link_frame f;
    size_t n;
    err e = command_link_frame_read(bytes, ANSWER_BYTES, headers, &f, &n);

    c->has_heard = true;
    if (e == E_AGAIN)
        return 0;
    if (e == E_OK)
        e = take(c, &f);
    if (e == E_OK)
        return n;
    LOG_WARN(LOG_COMMAND, "link.protocol", F_STR("instance", c->instance), F_TEXT("host", c->host), F_INT("port", c->port));
    stream_close(s, E_PROTO);
    return 0;
}

static void on_connect(struct stream *s)
{
    struct command_link_channel *c = from_stream(s);
    const struct command_link_hello hello = {
        .version = COMMAND_LINK_VERSION,
        .channel = c->number,
        .first = c->first,
        .incarnation = c->incarnation,
        .worker = c->home->worker->id,
        .from = link_of(c)->settings.instance,
        .to = c->instance,
    };

    command_link_set_up_socket(link_of(c), s->io.fd);
    if (command_link_frame_write_hello(&s->out, &hello) != E_OK)
        stream_close(s, E_NOMEM);
    stream_flush(s);
}

static void on_drain(struct stream *s)
{
    pump(from_stream(s));
}

/* --- from one connection to the next --- */

static void free_if_done(struct command_link_channel *c)
{
    if (!c->is_gone || c->query || stream_is_open(&c->stream))
        return;
    list_remove(&c->link);
    mem_free(MEM_COMMAND, c);
}

/* Half of the time at least, so that many do not come together. */
static void pause_for(struct command_link_channel *c, uint64_t ms)
{
    c->phase = PHASE_PAUSES;
    wheel_start(&c->home->worker->loop.wheel, &c->timer, ms / 2 + command_link_random() % (ms / 2 + 1));
}

/* Only the first of several failures in a row is told. */
static void note_failure(struct command_link_channel *c, const char *what, err why)
{
    const struct command_link_settings *s = &link_of(c)->settings;
    uint64_t ms = (uint64_t)s->retry_ms << (c->n_failures < 8 ? c->n_failures : 8),
             most_ms = (uint64_t)RETRIES_MAX * s->retry_ms;

    command_link_count(COMMAND_LINK_COUNT_FAILED, 1);
    if (c->n_failures++ == 0)
        LOG_WARN(LOG_COMMAND, "link.unreachable", F_STR("instance", c->instance), F_TEXT("host", c->host),
                 F_INT("port", c->port), F_TEXT("what", what), F_TEXT("why", err_name(why)));
    pause_for(c, ms < most_ms ? ms : most_ms);
}

static void note_break(struct command_link_channel *c, err why)
{
    command_link_count(why == E_PROTO     ? COMMAND_LINK_COUNT_PROTOCOL
                       : why == E_TIMEOUT ? COMMAND_LINK_COUNT_DEAD
                                          : COMMAND_LINK_COUNT_BROKEN,
                       1);
    LOG_WARN(LOG_COMMAND, "link.broken", F_STR("instance", c->instance), F_TEXT("host", c->host), F_INT("port", c->port),
             F_TEXT("why", err_name(why)), F_INT("kept", c->next - c->first));
    pause_for(c, link_of(c)->settings.retry_ms);
}

static void on_close(struct stream *s, err why)
{
    struct command_link_channel *c = from_stream(s);
    bool stood = c->phase == PHASE_STANDS;

    wheel_stop(&c->timer);
    c->phase = PHASE_RESTS;
    if (stood)
        command_link_count(COMMAND_LINK_COUNT_OUT, -1);
    if (c->is_gone)
        free_if_done(c);
    else if (stood)
        note_break(c, why);
    else
        note_failure(c, "connect", why);
}

static const struct stream_ops stream_ops = {
    .on_data = on_data, .on_drain = on_drain, .on_connect = on_connect, .on_close = on_close, .is_edge_triggered = true};

static void open_connection(struct command_link_channel *c)
{
    const struct command_link_settings *settings = &link_of(c)->settings;
    const struct sockaddr_storage *address = &c->addresses[c->n_attempts++ % c->n_addresses];
    unsigned bytes = address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    struct tls *tls = command_link_ref_tls(link_of(c), false);
    err e = stream_connect_tls(&c->stream, &c->home->worker->loop, (const struct sockaddr *)address, bytes, &stream_ops, tls,
                               &(struct tls_server){.name = c->text, .alpn = COMMAND_LINK_ALPN});

    tls_unref(tls);
    if (e != E_OK) {
        note_failure(c, "connect", e);
        return;
    }
    c->phase = PHASE_CONNECTS;
    wheel_start(&c->home->worker->loop.wheel, &c->timer, (uint64_t)COMMAND_LINK_PATIENCE * settings->heartbeat_ms);
}

/* --- names --- */

static void on_addresses(struct mail *m)
{
    struct query *q = CONTAINER_OF(m, struct query, query.mail);
    struct command_link_channel *c = q->channel;
    err result = q->query.result;

    if (result == E_OK) {
        c->n_addresses = q->query.n_addresses;
        memcpy(c->addresses, q->query.addresses, sizeof c->addresses);
    }
    c->query = NULL;
    mem_free(MEM_COMMAND, q);
    if (c->is_gone)
        free_if_done(c);
    else if (result == E_NOTFOUND || c->n_addresses == 0)
        note_failure(c, "name", result);
    else
        open_connection(c);
}

static void ask(struct command_link_channel *c)
{
    struct query *q = mem_alloc_zero(MEM_COMMAND, sizeof *q);
    err e;

    q->channel = c;
    q->query.mail.on_mail = on_addresses;
    q->query.home = &c->home->worker->loop.mailbox;
    q->query.port = c->port;
    memcpy(q->query.name, c->host, sizeof c->host);
    e = resolver_ask(&link_of(c)->resolver, &q->query);
    if (e == E_OK) {
        c->query = q;
        c->phase = PHASE_ASKS;
        return;
    }
    mem_free(MEM_COMMAND, q);
    note_failure(c, "name", e);
}

/* A name is asked for each time: it may lead elsewhere by now. */
static void connect_now(struct command_link_channel *c)
{
    if (c->is_numeric)
        open_connection(c);
    else
        ask(c);
}

static void on_timer(struct timer *t)
{
    struct command_link_channel *c = CONTAINER_OF(t, struct command_link_channel, timer);

    if (c->phase == PHASE_PAUSES)
        connect_now(c);
    else
        stream_close(&c->stream, E_TIMEOUT);
}

/* --- life --- */

/* HOST:PORT, the host in brackets when it is an IPv6 address. */
static err set_address(struct command_link_channel *c, struct str address)
{
    const char *colon = address.n ? memrchr(address.p, ':', address.n) : NULL;
    struct str host = {address.p, colon ? (size_t)(colon - address.p) : 0};
    uint64_t port;
    socklen_t size;

    if (!colon || !str_to_u64(str_from_offset(address, host.n + 1), UINT16_MAX, &port) || host.n == 0 ||
        host.n > RESOLVER_NAME_MAX || memchr(host.p, '\0', host.n))
        return E_INVAL;
    memcpy(c->host, host.p, host.n);
    c->port = (uint16_t)port;
    c->is_numeric = listener_parse(address, &c->addresses[0], &size, NULL) == E_OK;
    c->n_addresses = c->is_numeric;
    return E_OK;
}

static struct command_link_channel *find(const struct command_link_worker *lw, const struct command_peer *to)
{
    for (struct list *l = lw->channels.next; l != &lw->channels; l = l->next) {
        struct command_link_channel *c = CONTAINER_OF(l, struct command_link_channel, link);

        if (c->incarnation == to->incarnation && !c->is_gone && str_equal(c->instance, to->instance))
            return c;
    }
    return NULL;
}

/* NULL: the address is none. There are as many channels as instances live. */
static struct command_link_channel *add(struct command_link_worker *lw, const struct command_peer *to, struct str address)
{
    struct command_link_channel *c = mem_alloc_zero(MEM_COMMAND, sizeof *c + to->instance.n + 1);

    if (set_address(c, address) != E_OK) {
        LOG_WARN(LOG_COMMAND, "link.address", F_STR("instance", to->instance), F_STR("address", address));
        mem_free(MEM_COMMAND, c);
        return NULL;
    }
    c->home = lw;
    c->stream.io.fd = -1;
    c->timer.on_timer = on_timer;
    c->number = command_link_random();
    c->first = c->next = 1;
    c->incarnation = to->incarnation;
    memcpy(c->text, to->instance.p, to->instance.n);
    c->instance = (struct str){c->text, to->instance.n};
    list_push(&lw->channels, &c->link);
    return c;
}

static void drop(struct command_link_channel *c)
{
    c->is_gone = true;
    forget_all(c);
    wheel_stop(&c->timer);
    command_link_note_room(c->home);
    if (stream_is_open(&c->stream))
        stream_close(&c->stream, E_CLOSED);
    else
        free_if_done(c);
}

static bool is_alive(const struct command_link_channel *c)
{
    const struct command_link_settings *s = &link_of(c)->settings;
    const struct command_peer peer = {.instance = c->instance, .incarnation = c->incarnation};

    return s->address_of(s->context, c->home->worker->id, &peer).p != NULL;
}

void command_link_channel_look_all(struct command_link_worker *lw)
{
    for (struct list *l = lw->channels.next, *next; l != &lw->channels; l = next) {
        struct command_link_channel *c = CONTAINER_OF(l, struct command_link_channel, link);

        next = l->next;
        if (!c->is_gone && !is_alive(c))
            drop(c);
    }
}

static void tick(struct command_link_channel *c)
{
    if (c->phase != PHASE_STANDS || stream_is_closing(&c->stream))
        return;
    c->n_misses = c->has_heard ? 0 : c->n_misses + 1;
    if (c->n_misses == COMMAND_LINK_MISSES) {
        stream_close(&c->stream, E_TIMEOUT);
        return;
    }
    if (!c->has_spoken && command_link_frame_write_ping(&c->stream.out) == E_OK)
        stream_flush(&c->stream);
    c->has_heard = c->has_spoken = false;
}

void command_link_channel_tick_all(struct command_link_worker *lw)
{
    command_link_channel_look_all(lw);
    for (struct list *l = lw->channels.next; l != &lw->channels; l = l->next)
        tick(CONTAINER_OF(l, struct command_link_channel, link));
}

void command_link_channel_free_all(struct command_link_worker *lw)
{
    struct list *l;

    while ((l = list_pop(&lw->channels))) {
        struct command_link_channel *c = CONTAINER_OF(l, struct command_link_channel, link);

        wheel_stop(&c->timer);
        stream_fini(&c->stream);
        forget_all(c);
        mem_free(MEM_COMMAND, c->query);
        mem_free(MEM_COMMAND, c);
    }
}

/* --- sending --- */

static bool has_room(const struct command_link_channel *c)
{
    return buf_size(&c->kept) < COMMAND_LINK_WINDOW_BYTES;
}

/* The channel to take a frame; it is connected when there is the first one. A full one is no reason to keep others waiting, as E_AGAIN
 * would: it is as if its peer could not be reached, but that on_room() tells when it has room. */
static err channel_for(struct command_link_worker *lw, const struct command_peer *to, struct command_link_channel **out_channel)
{
    const struct command_link_settings *s = &lw->link->settings;
    struct command_link_channel *c = find(lw, to);
    struct str address;

    if (!c) {
        address = s->address_of(s->context, lw->worker->id, to);
        if (!address.p)
            return E_CLOSED;
        c = add(lw, to, address);
        if (!c)
            return E_IO;
    }
    *out_channel = c;
    if (has_room(c))
        return E_OK;
    command_link_count(COMMAND_LINK_COUNT_NO_ROOM, 1);
    lw->is_room_wanted = true;
    return E_IO;
}

/* A frame was put, or not, behind the others, which had `before` bytes. Without memory it is as without a peer: it is asked for again. */
static err finish(struct command_link_channel *c, size_t before, err written)
{
    if (written == E_OK) {
        c->next++;
        command_link_count(COMMAND_LINK_COUNT_SENT, 1);
        command_link_count(COMMAND_LINK_COUNT_KEPT_BYTES, (int64_t)(buf_size(&c->kept) - before));
        pump(c);
        if (c->phase == PHASE_RESTS)
            connect_now(c);
    }
    return written == E_NOMEM ? E_IO : written;
}

err command_link_channel_send_request(struct command_link_worker *lw, const struct command_request *request)
{
    struct command_link_channel *c;
    err e = channel_for(lw, &request->to, &c);
    size_t before;

    if (e != E_OK)
        return e == E_CLOSED ? E_IO : e;
    before = buf_size(&c->kept);
    return finish(c, before, command_link_frame_write_request(&c->kept, c->next, request));
}

/* Whoever is gone misses nothing. */
err command_link_channel_send_result(struct command_link_worker *lw, const struct command_result_message *result)
{
    struct command_link_channel *c;
    err e = channel_for(lw, &result->to, &c);
    size_t before;

    if (e == E_CLOSED)
        command_link_count(COMMAND_LINK_COUNT_DROPPED, 1);
    if (e != E_OK)
        return e == E_CLOSED ? E_OK : e;
    before = buf_size(&c->kept);
    return finish(c, before, command_link_frame_write_result(&c->kept, c->next, result));
}
