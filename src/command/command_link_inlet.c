/* An inlet: the end of a channel of another instance, over however many connections. All inlets of a worker's number there are on one
 * worker here, so that a new connection finds what the one before it has received and ends it. */
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "command/command_link_private.h"
#include "loop/stream.h"
#include "loop/tls.h"
#include "loop/tls_peer.h"

enum {
    CONNS_MAX = 4096,
    INLETS_MAX = 4096,      /* of a worker */
    ACK_MS = 20,            /* what comes meanwhile is acknowledged together, */
    ACK_BYTES = 1 << 20,    /* unless it is this much */
    FORGET_HEARTBEATS = 60, /* after which a channel that does not come again is forgotten: at worst it repeats something */
};

struct command_link_inlet {
    struct list link; /* of the worker's */
    struct command_link_worker *home;
    struct command_link_conn *conn; /* NULL: it is broken */
    uint64_t channel;
    uint64_t received; /* the number of the last frame */
    size_t n_handed;   /* bytes of it on the way to other workers */
    unsigned n_idle;   /* heartbeats without connection */
    struct str instance;
    char text[];
};

struct command_link_conn {
    struct list link; /* of the link's, under its lock */
    struct command_link *owner;
    struct command_link_worker *home;
    struct stream stream;
    struct timer timer;        /* the greeting's limit, then the next acknowledgement */
    struct mail move;          /* to the worker of the inlet */
    struct stream_parts parts; /* while it moves */
    struct command_link_hello hello;
    char from[COMMAND_LINK_INSTANCE_BYTES];
    struct command_link_inlet *inlet; /* NULL: not greeted yet, or another connection has its place */
    size_t n_unacknowledged;          /* bytes */
    unsigned n_misses;
    bool is_moving, was_greeted, has_heard;
};

/* A frame on its way to the worker of its tenant, and back. */
struct handed {
    struct mail mail;
    struct list link;
    struct command_link_inlet *inlet;
    size_t n;
    char bytes[];
};

static struct command_link_conn *from_stream(struct stream *s)
{
    return CONTAINER_OF(s, struct command_link_conn, stream);
}

/* --- connections --- */

static struct command_link_conn *new_conn(struct command_link *link)
{
    struct command_link_conn *c = NULL;

    pthread_mutex_lock(&link->lock);
    if (link->n_conns < CONNS_MAX) {
        c = mem_alloc_zero(MEM_COMMAND, sizeof *c);
        list_push(&link->conns, &c->link);
        link->n_conns++;
    }
    pthread_mutex_unlock(&link->lock);
    return c;
}

static void free_conn(struct command_link_conn *c)
{
    struct command_link *link = c->owner;

    pthread_mutex_lock(&link->lock);
    list_remove(&c->link);
    link->n_conns--;
    pthread_mutex_unlock(&link->lock);
    stream_drop(&c->parts);
    mem_free(MEM_COMMAND, c);
}

/* Nothing more comes of it for its inlet. */
static void leave_inlet(struct command_link_conn *c)
{
    if (!c->inlet)
        return;
    c->inlet->conn = NULL;
    c->inlet->n_idle = 0;
    c->inlet = NULL;
    command_link_count(COMMAND_LINK_COUNT_IN, -1);
}

static void write_ack(struct command_link_conn *c)
{
    wheel_stop(&c->timer);
    c->n_unacknowledged = 0;
    if (stream_is_closing(&c->stream))
        return;
    if (command_link_frame_write_ack(&c->stream.out, c->inlet->received) == E_OK)
        stream_flush(&c->stream);
    else
        stream_close(&c->stream, E_NOMEM);
}

static void on_timer(struct timer *t)
{
    struct command_link_conn *c = CONTAINER_OF(t, struct command_link_conn, timer);

    if (c->inlet)
        write_ack(c);
    else
        stream_close(&c->stream, E_TIMEOUT);
}

/* --- what has come --- */

static void tell(struct command_link_inlet *inlet, struct command_link_frame *f)
{
    const struct command_link_settings *s = &inlet->home->link->settings;

    if (f->kind == COMMAND_LINK_REQUEST) {
        f->request.from.instance = inlet->instance;
        f->request.to.instance = s->instance;
        s->user.on_request(s->user.plane, &f->request);
    } else {
        f->result.from.instance = inlet->instance;
        f->result.to.instance = s->instance;
        s->user.on_result(s->user.plane, &f->result);
    }
}

static void on_returned(struct mail *m)
{
    struct handed *h = CONTAINER_OF(m, struct handed, mail);
    struct command_link_inlet *inlet = h->inlet;

    inlet->n_handed -= h->n;
    command_link_count(COMMAND_LINK_COUNT_HANDED_BYTES, -(int64_t)h->n);
    if (inlet->conn && inlet->conn->stream.is_paused && inlet->n_handed <= COMMAND_LINK_HANDED_BYTES / 2)
        stream_resume(&inlet->conn->stream);
    list_remove(&h->link);
    mem_free(MEM_COMMAND, h);
}

/* On the worker of the tenant. The inlet stays for as long as something of it is here. */
static void on_handed(struct mail *m)
{
    struct handed *h = CONTAINER_OF(m, struct handed, mail);
    struct record_header headers[COMMAND_LINK_HEADERS_MAX];
    struct command_link_frame f;
    size_t n;

    ASSERT(command_link_frame_read((struct str){h->bytes, h->n}, COMMAND_LINK_FRAME_MAX_BYTES, headers, &f, &n) == E_OK);
    tell(h->inlet, &f);
    h->mail.on_mail = on_returned;
    mailbox_post(&h->inlet->home->worker->loop.mailbox, &h->mail);
}

static err hand_over(struct command_link_inlet *inlet, struct command_link_worker *to, struct str frame)
{
    struct handed *h = mem_try_alloc(MEM_COMMAND, sizeof *h + frame.n);

    if (!h)
        return E_NOMEM;
    *h = (struct handed){.mail = {.on_mail = on_handed}, .inlet = inlet, .n = frame.n};
    memcpy(h->bytes, frame.p, frame.n);
    list_push(&inlet->home->handed, &h->link);
    inlet->n_handed += frame.n;
    command_link_count(COMMAND_LINK_COUNT_HANDED_BYTES, (int64_t)frame.n);
    if (inlet->n_handed >= COMMAND_LINK_HANDED_BYTES)
        stream_pause(&inlet->conn->stream);
    mailbox_post(&to->worker->loop.mailbox, &h->mail);
    return E_OK;
}

/* Always the same worker for a tenant, so that its frames stay in order. */
static err give(struct command_link_inlet *inlet, struct command_link_frame *f, struct str frame)
{
    struct command_link *link = inlet->home->link;
    struct str tenant = f->kind == COMMAND_LINK_REQUEST ? f->request.ticket.tenant : f->result.ticket.tenant;
    unsigned worker = link->settings.worker_of(link->settings.context, tenant);

    if (worker != inlet->home->worker->id)
        return hand_over(inlet, &link->workers[worker], frame);
    tell(inlet, f);
    return E_OK;
}

/* E_PROTO: a number is missing. */
static err take_numbered(struct command_link_conn *c, struct command_link_frame *f, struct str frame)
{
    struct command_link_inlet *inlet = c->inlet;
    err e;

    if (f->number > inlet->received + 1)
        return E_PROTO;
    if (f->number <= inlet->received) {
        command_link_count(COMMAND_LINK_COUNT_DUPLICATE, 1);
    } else {
        e = give(inlet, f, frame);
        if (e != E_OK)
            return e;
        inlet->received++;
        command_link_count(COMMAND_LINK_COUNT_RECEIVED, 1);
    }
    c->n_unacknowledged += frame.n;
    if (c->n_unacknowledged >= ACK_BYTES)
        write_ack(c);
    else if (!wheel_is_set(&c->timer))
        wheel_start(&c->home->worker->loop.wheel, &c->timer, ACK_MS);
    return E_OK;
}

static err take(struct command_link_conn *c, struct command_link_frame *f, struct str frame)
{
    if (f->kind == COMMAND_LINK_PING)
        return E_OK;
    return f->kind == COMMAND_LINK_REQUEST || f->kind == COMMAND_LINK_RESULT ? take_numbered(c, f, frame) : E_PROTO;
}

/* --- the greeting --- */

static void refuse(struct command_link_conn *c, struct str from, enum command_link_refusal why)
{
    static const enum command_link_metric metrics[COMMAND_LINK_REFUSALS] = {
        [COMMAND_LINK_REFUSED_VERSION] = COMMAND_LINK_COUNT_REFUSED_VERSION,
        [COMMAND_LINK_REFUSED_NAME] = COMMAND_LINK_COUNT_REFUSED_NAME,
        [COMMAND_LINK_REFUSED_STRANGER] = COMMAND_LINK_COUNT_REFUSED_STRANGER,
        [COMMAND_LINK_REFUSED_BUSY] = COMMAND_LINK_COUNT_REFUSED_BUSY,
    };
    const struct tls_peer *peer = tls_peer_of(c->stream.tls);

    command_link_count(metrics[why], 1);
    LOG_WARN(LOG_COMMAND, "link.peer_refused", F_STR("instance", from),
             F_STR("certificate", peer ? peer->subject : (struct str){0}), F_TEXT("why", command_link_frame_refusal_name(why)));
    if (command_link_frame_write_refusal(&c->stream.out, why) != E_OK) {
        stream_close(&c->stream, E_NOMEM);
        return;
    }
    c->was_greeted = true; /* it is counted */
    stream_close_after_output(&c->stream);
}

static struct command_link_inlet *find(const struct command_link_worker *lw, uint64_t channel, struct str from)
{
    for (struct list *l = lw->inlets.next; l != &lw->inlets; l = l->next) {
        struct command_link_inlet *inlet = CONTAINER_OF(l, struct command_link_inlet, link);

        if (inlet->channel == channel && str_equal(inlet->instance, from))
            return inlet;
    }
    return NULL;
}

static struct command_link_inlet *add(struct command_link_worker *lw, const struct command_link_hello *hello)
{
    struct command_link_inlet *inlet = mem_alloc_zero(MEM_COMMAND, sizeof *inlet + hello->from.n);

    inlet->home = lw;
    inlet->channel = hello->channel;
    inlet->received = hello->first - 1;
    memcpy(inlet->text, hello->from.p, hello->from.n);
    inlet->instance = (struct str){inlet->text, hello->from.n};
    list_push(&lw->inlets, &inlet->link);
    return inlet;
}

static unsigned count(const struct list *l)
{
    unsigned n = 0;

    for (const struct list *at = l->next; at != l; at = at->next)
        n++;
    return n;
}

/* On the worker of the inlet. A connection before this one is not read any more, whatever of it is still to come: it comes again. */
static void settle(struct command_link_conn *c)
{
    struct command_link_inlet *inlet = find(c->home, c->hello.channel, c->hello.from);

    if (!inlet && count(&c->home->inlets) >= INLETS_MAX) {
        refuse(c, c->hello.from, COMMAND_LINK_REFUSED_BUSY);
        return;
    }
    if (!inlet)
        inlet = add(c->home, &c->hello);
    if (inlet->conn) {
        stream_close(&inlet->conn->stream, E_CLOSED);
        leave_inlet(inlet->conn);
    }
    c->was_greeted = true;
    if (c->hello.first > inlet->received + 1 || command_link_frame_write_welcome(&c->stream.out, inlet->received) != E_OK) {
        stream_close(&c->stream, E_PROTO);
        return;
    }
    inlet->conn = c;
    c->inlet = inlet;
    c->n_misses = 0;
    wheel_stop(&c->timer);
    command_link_count(COMMAND_LINK_COUNT_IN, 1);
    command_link_count(COMMAND_LINK_COUNT_ACCEPTED, 1);
    stream_flush(&c->stream);
    if (inlet->n_handed >= COMMAND_LINK_HANDED_BYTES)
        stream_pause(&c->stream);
    LOG_INFO(LOG_COMMAND, "link.accepted", F_STR("instance", inlet->instance), F_INT("worker", c->hello.worker));
}

/* `rest`: what came behind the hello. */
static void greet(struct command_link_conn *c, struct str rest)
{
    struct command_link *link = c->owner;

    if (c->hello.version != COMMAND_LINK_VERSION) {
        refuse(c, (struct str){0}, COMMAND_LINK_REFUSED_VERSION);
        return;
    }
    memcpy(c->from, c->hello.from.p, c->hello.from.n);
    c->hello.from.p = c->from;
    if (!tls_peer_has_name(c->stream.tls, c->hello.from)) {
        refuse(c, c->hello.from, COMMAND_LINK_REFUSED_NAME);
        return;
    }
    if (!str_equal(c->hello.to, link->settings.instance)) {
        refuse(c, c->hello.from, COMMAND_LINK_REFUSED_STRANGER);
        return;
    }
    c->home = &link->workers[c->hello.worker % link->settings.workers->n];
    if (c->home->worker->id == 0) {
        settle(c);
        return;
    }
    c->is_moving = stream_release(&c->stream, rest, &c->parts) == E_OK;
    if (!c->is_moving)
        stream_close(&c->stream, E_NOMEM);
}

static err take_hello(struct command_link_conn *c, struct str bytes, struct str frame, const struct command_link_frame *f)
{
    if (f->kind != COMMAND_LINK_HELLO)
        return E_PROTO;
    c->hello = f->hello;
    greet(c, str_from_offset(bytes, frame.n));
    return E_OK;
}

/* --- the stream --- */

static size_t on_data(struct stream *s, struct str bytes)
{
    struct command_link_conn *c = from_stream(s);
    struct record_header headers[COMMAND_LINK_HEADERS_MAX];
    struct command_link_frame f;
    size_t max = c->inlet ? COMMAND_LINK_FRAME_MAX_BYTES : COMMAND_LINK_GREETING_BYTES, n = 0;
    err e = command_link_frame_read(bytes, max, headers, &f, &n);

    c->has_heard = true;
    if (e == E_AGAIN)
        return 0;
    if (e == E_OK) {
        const struct str frame = {bytes.p, n};

        e = c->inlet ? take(c, &f, frame) : take_hello(c, bytes, frame, &f);
    }
    if (e == E_OK)
        return n;
    stream_close(s, e == E_NOMEM ? E_NOMEM : E_PROTO);
    return 0;
}

static void on_connect(struct stream *s)
{
    struct command_link_conn *c = from_stream(s);

    command_link_set_up_socket(c->owner, s->io.fd);
    wheel_start(&s->loop->wheel, &c->timer, (uint64_t)COMMAND_LINK_PATIENCE * c->owner->settings.heartbeat_ms);
}

/* Whoever has sent breaks too, and tells of it; here it is told only of those whom nothing has been said to. */
static void on_close(struct stream *s, err why)
{
    struct command_link_conn *c = from_stream(s);
    struct str from = c->inlet ? c->inlet->instance : (struct str){0};

    wheel_stop(&c->timer);
    if (c->is_moving) {
        mailbox_post(&c->home->worker->loop.mailbox, &c->move);
        return;
    }
    if (!c->was_greeted) {
        command_link_count(COMMAND_LINK_COUNT_REFUSED_TLS, 1);
        LOG_WARN(LOG_COMMAND, "link.peer_refused", F_TEXT("why", "no handshake or greeting"), F_TEXT("error", err_name(why)));
    } else if (c->inlet && (why == E_PROTO || why == E_NOMEM || why == E_TIMEOUT)) {
        LOG_WARN(LOG_COMMAND, "link.peer_broken", F_STR("instance", from), F_TEXT("why", err_name(why)));
    }
    leave_inlet(c);
    free_conn(c);
}

static const struct stream_ops stream_ops = {
    .on_data = on_data, .on_connect = on_connect, .on_close = on_close, .is_edge_triggered = true};

static void on_move(struct mail *m)
{
    struct command_link_conn *c = CONTAINER_OF(m, struct command_link_conn, move);

    c->is_moving = false;
    if (stream_adopt(&c->stream, &c->home->worker->loop, &stream_ops, &c->parts) == E_OK)
        settle(c);
    else
        free_conn(c);
}

void command_link_inlet_on_accept(struct listener *ln, int fd)
{
    struct command_link *link = CONTAINER_OF(ln, struct command_link, listener);
    struct command_link_conn *c = new_conn(link);
    struct tls *tls;
    err e;

    if (!c) {
        command_link_count(COMMAND_LINK_COUNT_REFUSED_BUSY, 1);
        close(fd);
        return;
    }
    c->owner = link;
    c->home = &link->workers[0];
    c->timer.on_timer = on_timer;
    c->move.on_mail = on_move;
    c->parts.fd = -1;
    tls = command_link_ref_tls(link, true);
    e = stream_open_tls(&c->stream, ln->loop, fd, &stream_ops, tls);
    tls_unref(tls);
    if (e == E_OK)
        return;
    command_link_count(COMMAND_LINK_COUNT_REFUSED_TLS, 1);
    free_conn(c);
}

/* --- life --- */

/* A peer that rests because of us is not dead. */
static void tick(struct command_link_conn *c)
{
    if (stream_is_closing(&c->stream))
        return;
    c->n_misses = c->has_heard || c->stream.is_paused ? 0 : c->n_misses + 1;
    c->has_heard = false;
    if (c->n_misses == COMMAND_LINK_MISSES)
        stream_close(&c->stream, E_TIMEOUT);
    else
        write_ack(c);
}

void command_link_inlet_tick_all(struct command_link_worker *lw)
{
    for (struct list *l = lw->inlets.next, *next; l != &lw->inlets; l = next) {
        struct command_link_inlet *inlet = CONTAINER_OF(l, struct command_link_inlet, link);

        next = l->next;
        if (inlet->conn) {
            tick(inlet->conn);
        } else if (inlet->n_handed == 0 && ++inlet->n_idle > FORGET_HEARTBEATS) {
            list_remove(&inlet->link);
            mem_free(MEM_COMMAND, inlet);
        }
    }
}

void command_link_inlet_close_all(struct command_link *link)
{
    while (!list_is_empty(&link->conns)) {
        struct command_link_conn *c = CONTAINER_OF(link->conns.next, struct command_link_conn, link);

        wheel_stop(&c->timer);
        stream_fini(&c->stream);
        free_conn(c);
    }
}

void command_link_inlet_free_all(struct command_link_worker *lw)
{
    struct list *l;

    while ((l = list_pop(&lw->handed)))
        mem_free(MEM_COMMAND, CONTAINER_OF(l, struct handed, link));
    while ((l = list_pop(&lw->inlets)))
        mem_free(MEM_COMMAND, CONTAINER_OF(l, struct command_link_inlet, link));
}
