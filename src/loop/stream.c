#include "loop/stream.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/check.h"

enum state {
    STATE_CLOSED,
    STATE_OPEN,
    STATE_FINISHING, /* closes after output */
    STATE_CLOSING,   /* on_close is due */
    STATE_RELEASED,  /* on_close is due, the descriptor belongs to somebody else */
};

/* Not for a closed stream: its owner may free it any moment, with the task in it. */
static void defer(struct stream *s)
{
    if (s->state != STATE_CLOSED)
        loop_defer(s->loop, &s->task);
}

/* Edges: epoll tells what is new, once, and looks at no descriptor a second time to see that it was read, which halves what an idle
 * moment between two messages costs. So whatever is left unread must be remembered (`is_unread`), and the end of the input is asked for
 * (EPOLLRDHUP), which may come together with the last bytes. A handshake that is under way may be made to wait (may_read()): until it
 * is done the descriptor is to be told of as long as it is readable. */
static uint32_t edges(const struct stream *s)
{
    return s->ops->is_edge_triggered && (!s->tls || s->tls->is_ready) ? EPOLLET : 0;
}

static void update_interest(struct stream *s)
{
    uint32_t want = edges(s);

    if (s->state == STATE_OPEN && !s->is_paused)
        want |= want ? EPOLLIN | EPOLLRDHUP : EPOLLIN;
    if (s->is_blocked)
        want |= EPOLLOUT;
    loop_rewatch(s->loop, &s->io, want);
}

/* False when it was closing already: the first reason holds. */
static bool begin_close(struct stream *s, err why)
{
    if (s->state != STATE_OPEN && s->state != STATE_FINISHING)
        return false;
    s->why = (uint8_t)why;
    s->state = STATE_CLOSING;
    return true;
}

/* A peer that has gone is E_CLOSED, however the kernel says so. */
static err why_of(struct stream *s, int error)
{
    s->is_reset = true;
    return error == EPIPE || error == ECONNRESET ? E_CLOSED : E_IO;
}

/* Offers bytes until the owner uses none of them, pauses or closes. Returns how many were used. */
static size_t offer(struct stream *s, struct str bytes)
{
    size_t used = 0;

    while (used < bytes.n && s->state == STATE_OPEN && !s->is_paused) {
        size_t n = s->ops->on_data(s, str_from_offset(bytes, used));

        if (n == 0)
            break;
        ASSERT(n <= bytes.n - used);
        used += n;
    }
    return used;
}

static void offer_kept(struct stream *s)
{
    size_t used = offer(s, buf_str(&s->in));

    buf_consume(&s->in, used);
    if (buf_size(&s->in) == 0)
        buf_free(&s->in, MEM_LOOP);
}

static void take(struct stream *s, struct str bytes)
{
    if (buf_size(&s->in) == 0) {
        size_t used = offer(s, bytes);

        if (s->state != STATE_OPEN || used == bytes.n)
            return;
        bytes = str_from_offset(bytes, used);
        if (buf_append(&s->in, MEM_LOOP, bytes) != E_OK)
            stream_close(s, E_NOMEM);
        return;
    }
    if (buf_append(&s->in, MEM_LOOP, bytes) != E_OK)
        stream_close(s, E_NOMEM);
    else
        offer_kept(s);
}

/* Opens sealed bytes and offers what was in them. */
static void take_sealed(struct stream *s, struct str sealed)
{
    struct tls_conn *tc = s->tls;
    bool was_ready = tc->is_ready;
    struct str plain = {s->loop->plain, 0};
    enum tls_step step = tls_conn_receive(tc, sealed, s->loop->plain, LOOP_PLAIN_BYTES, &plain.n);

    if (buf_size(&tc->out) > 0)
        stream_flush(s);
    if (tc->is_ready && !was_ready) {
        wheel_stop(&tc->deadline);
        if (s->ops->on_connect)
            s->ops->on_connect(s);
        defer(s); /* what was written before can leave */
    }
    if (plain.n > 0 && s->state == STATE_OPEN)
        take(s, plain);                          /* after it the connection may be somebody else's */
    if (step == TLS_STEP_END && !s->is_paused) { /* else what came before it is offered first: it is found again then */
        stream_close(s, E_CLOSED);
    } else if (step == TLS_STEP_FAILED) {
        s->is_reset = true;
        stream_close(s, E_PROTO);
    }
}

/* Handshakes cost far more than anything else in a turn, so that some wait for the next one when many come together: the descriptor
 * stays readable. */
static bool may_read(struct stream *s)
{
    return !s->tls || s->tls->is_ready || s->loop->n_handshakes++ < LOOP_HANDSHAKES_PER_TURN;
}

static void read_later(struct stream *s)
{
    if (!edges(s))
        return;
    s->is_unread = true;
    defer(s);
}

/* Reads once. A full buffer may not have been all, and behind the last bytes comes the end (`is_ending`). */
static void on_readable(struct stream *s, bool is_ending)
{
    ssize_t n = read(s->io.fd, s->loop->scratch, LOOP_SCRATCH_BYTES);

    if (n == LOOP_SCRATCH_BYTES || (n > 0 && is_ending) || (n < 0 && errno == EINTR))
        read_later(s);
    if (n > 0 && s->tls) {
        take_sealed(s, (struct str){s->loop->scratch, (size_t)n});
    } else if (n > 0) {
        take(s, (struct str){s->loop->scratch, (size_t)n});
    } else if (n == 0) {
        s->is_reset = s->tls != NULL; /* without close_notify anybody may have cut it off (RFC 8446 section 6.1) */
        stream_close(s, E_CLOSED);
    } else if (errno != EAGAIN && errno != EINTR) {
        stream_close(s, why_of(s, errno));
    }
}

/* Whether all of `b` has left; else the kernel takes no more now, or the connection has failed. */
static bool send_all(struct stream *s, struct buf *b)
{
    while (buf_size(b) > 0) {
        struct str rest = buf_str(b);
        ssize_t n = send(s->io.fd, rest.p, rest.n, MSG_NOSIGNAL);

        if (n >= 0) {
            buf_consume(b, (size_t)n);
        } else if (errno == EAGAIN) {
            s->is_blocked = true;
            return false;
        } else if (errno != EINTR) {
            (void)begin_close(s, why_of(s, errno)); /* it may be closing already */
            return false;
        }
    }
    return true;
}

/* The same of s->out, sealed in portions; before the handshake is done it waits. */
static bool send_sealed(struct stream *s)
{
    struct tls_conn *tc = s->tls;

    for (;;) {
        err e = tls_conn_send(tc, &s->out);

        if (e != E_OK) {
            buf_free(&s->out, MEM_LOOP);
            (void)begin_close(s, e); /* it may be closing already */
            return false;
        }
        if (!send_all(s, &tc->out))
            return false;
        tls_conn_note_sent(tc);
        if (buf_size(&s->out) == 0 || !tc->is_ready)
            return buf_size(&s->out) == 0;
    }
}

/* Part of the task, which goes on to end a stream that is closing. */
static void write_out(struct stream *s)
{
    bool had_output = stream_pending(s) > 0 || s->is_drain_due;

    if (!(s->tls ? send_sealed(s) : send_all(s, &s->out)))
        return;
    buf_free(&s->out, MEM_LOOP);
    s->is_blocked = s->is_drain_due = false;
    if (s->state == STATE_FINISHING)
        (void)begin_close(s, E_OK); /* cannot be closing */
    else if (had_output && s->state == STATE_OPEN && s->ops->on_drain)
        s->ops->on_drain(s);
}

/* The peer has gone while we do not read, or the connection failed. */
static void on_hang_up(struct stream *s)
{
    int error = 0;
    socklen_t size = sizeof error;

    if (getsockopt(s->io.fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        error = errno;
    stream_close(s, error ? why_of(s, error) : E_CLOSED);
}

static void on_io(struct io *io, uint32_t events)
{
    struct stream *s = CONTAINER_OF(io, struct stream, io);

    if (s->state == STATE_CLOSING || s->state == STATE_RELEASED)
        return;
    if ((events & EPOLLOUT) && s->is_connecting && !(events & (EPOLLHUP | EPOLLERR))) {
        s->is_connecting = false;
        if (s->tls)
            take_sealed(s, (struct str){0}); /* begins the handshake */
        else if (s->ops->on_connect)
            s->ops->on_connect(s);
    }
    if (events & EPOLLOUT) {
        s->is_blocked = false;
        defer(s);
    }
    if ((events & EPOLLIN) && s->state == STATE_OPEN && !s->is_paused && may_read(s))
        on_readable(s, events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR));
    else if (events & (EPOLLHUP | EPOLLERR))
        on_hang_up(s);
    else if ((events & EPOLLIN) && edges(s))
        s->is_unread = true; /* for stream_resume() */
}

/* Tells the peer, if all before it has left, that nothing more comes. */
static void end_output(struct stream *s)
{
    struct str rest;

    if (!s->tls || s->is_blocked || stream_pending(s) > 0)
        return;
    tls_conn_end(s->tls);
    rest = buf_str(&s->tls->out);
    if (rest.n)
        (void)send(s->io.fd, rest.p, rest.n, MSG_NOSIGNAL); /* a peer that does not take it has gone */
    tls_conn_note_sent(s->tls);
}

static void release_all(struct stream *s)
{
    if (s->io.fd >= 0) {
        end_output(s);
        tls_conn_free(s->tls);
        s->tls = NULL;
        loop_unwatch(s->loop, &s->io);
        close(s->io.fd);
        s->io.fd = -1;
    }
    buf_free(&s->in, MEM_LOOP);
    buf_free(&s->out, MEM_LOOP);
    s->state = STATE_CLOSED;
}

static void finish_close(struct stream *s)
{
    release_all(s);
    s->ops->on_close(s, (err)s->why); /* may free s */
}

/* The end of the turn: kept input of a resumed stream, then all output at once, then the end of a closed stream. When the
 * owner closes the stream in one of the first two, the task is queued anew and must stay until it has run: the next turn ends
 * the stream. */
static void run(struct task *t)
{
    struct stream *s = CONTAINER_OF(t, struct stream, task);

    if (s->state == STATE_OPEN && !s->is_paused && s->is_offer_due) {
        s->is_offer_due = false;
        offer_kept(s);
        if (s->tls && s->state == STATE_OPEN && !s->is_paused)
            take_sealed(s, (struct str){0}); /* the end, if it came with what was kept */
    }
    if (s->is_unread && s->state == STATE_OPEN && !s->is_paused) {
        s->is_unread = false;
        on_readable(s, true);
    }
    if (!s->is_blocked && !s->is_connecting && s->state != STATE_RELEASED)
        write_out(s);
    if (s->state == STATE_OPEN || s->state == STATE_FINISHING)
        update_interest(s);
    else if (!loop_is_deferred(&s->task))
        finish_close(s);
}

static void set_up(struct stream *s, struct loop *l, int fd, const struct stream_ops *ops)
{
    *s = (struct stream){.io = {.fd = fd, .on_io = on_io}, .task = {.run = run}, .loop = l, .ops = ops, .state = STATE_OPEN};
}

/* Once `s` is set up; on failure all is given back. */
static err watch(struct stream *s, uint32_t events)
{
    if (loop_watch(s->loop, &s->io, edges(s) ? events | EPOLLRDHUP | EPOLLET : events) == E_OK)
        return E_OK;
    close(s->io.fd);
    s->io.fd = -1;
    s->state = STATE_CLOSED;
    tls_conn_free(s->tls);
    s->tls = NULL;
    return E_IO;
}

static void on_handshake_timeout(struct timer *t)
{
    struct tls_conn *tc = CONTAINER_OF(t, struct tls_conn, deadline);

    tls_conn_give_up(tc, TLS_FAILED_TIMEOUT);
    stream_close(tc->stream, E_TIMEOUT);
}

static void use_tls(struct stream *s, struct tls_conn *tc)
{
    s->tls = tc;
    tc->stream = s;
    if (tc->is_ready)
        return;
    tc->deadline.on_timer = on_handshake_timeout;
    wheel_start(&s->loop->wheel, &tc->deadline, tls_conn_timeout_ms(tc));
}

err stream_open(struct stream *s, struct loop *l, int fd, const struct stream_ops *ops)
{
    set_up(s, l, fd, ops);
    return watch(s, EPOLLIN);
}

err stream_open_tls(struct stream *s, struct loop *l, int fd, const struct stream_ops *ops, struct tls *tls)
{
    struct tls_conn *tc;
    err e = tls_conn_new(tls, NULL, &tc);

    set_up(s, l, fd, ops);
    if (e == E_OK) {
        use_tls(s, tc);
        return watch(s, EPOLLIN);
    }
    close(fd);
    s->io.fd = -1;
    s->state = STATE_CLOSED;
    return e;
}

static int start_connect(const struct sockaddr *address, unsigned address_bytes)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), why;

    if (fd < 0)
        return -1;
    if (address->sa_family != AF_UNIX)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)); /* slower, not wrong, without it */
    if (connect(fd, address, address_bytes) == 0 || errno == EINPROGRESS)
        return fd;
    why = errno;
    close(fd);
    errno = why;
    return -1;
}

err stream_connect(struct stream *s, struct loop *l, const struct sockaddr *address, unsigned address_bytes,
                   const struct stream_ops *ops)
{
    int fd = start_connect(address, address_bytes);

    set_up(s, l, fd, ops);
    if (fd < 0) {
        s->state = STATE_CLOSED;
        return E_IO;
    }
    s->is_connecting = s->is_blocked = true; /* writable is connected */
    return watch(s, EPOLLIN | EPOLLOUT);
}

err stream_connect_tls(struct stream *s, struct loop *l, const struct sockaddr *address, unsigned address_bytes,
                       const struct stream_ops *ops, struct tls *tls, const struct tls_server *server)
{
    struct tls_conn *tc;
    err e = tls_conn_new(tls, server, &tc);

    if (e == E_OK)
        e = stream_connect(s, l, address, address_bytes, ops);
    else
        *s = (struct stream){.io = {.fd = -1}};
    if (e == E_OK)
        use_tls(s, tc);
    else
        tls_conn_free(tc);
    return e;
}

err stream_adopt(struct stream *s, struct loop *l, const struct stream_ops *ops, struct stream_parts *parts)
{
    struct stream_parts taken = *parts;

    *parts = (struct stream_parts){.fd = -1};
    set_up(s, l, taken.fd, ops);
    if (taken.tls)
        use_tls(s, taken.tls);
    if (watch(s, EPOLLIN) != E_OK) {
        buf_free(&taken.in, MEM_LOOP);
        buf_free(&taken.out, MEM_LOOP);
        return E_IO;
    }
    s->in = taken.in;
    s->out = taken.out;
    s->is_offer_due = true;
    defer(s);
    return E_OK;
}

err stream_release(struct stream *s, struct str unused, struct stream_parts *out_parts)
{
    struct buf kept = {0};

    *out_parts = (struct stream_parts){.fd = -1};
    if (s->state != STATE_OPEN)
        return E_CLOSED;
    /* A copy, because `unused` may lie in s->in as well as in the scratch buffer. */
    if (buf_append(&kept, MEM_LOOP, unused) != E_OK)
        return E_NOMEM;
    loop_unwatch(s->loop, &s->io);
    *out_parts = (struct stream_parts){.fd = s->io.fd, .in = kept, .out = s->out, .tls = s->tls};
    s->out = (struct buf){0};
    s->tls = NULL;
    s->io.fd = -1;
    s->state = STATE_RELEASED;
    defer(s);
    return E_OK;
}

void stream_drop(struct stream_parts *parts)
{
    if (parts->fd >= 0)
        close(parts->fd);
    buf_free(&parts->in, MEM_LOOP);
    buf_free(&parts->out, MEM_LOOP);
    tls_conn_free(parts->tls);
    *parts = (struct stream_parts){.fd = -1};
}

char *stream_reserve(struct stream *s, size_t n)
{
    return s->state == STATE_CLOSED ? NULL : buf_reserve(&s->out, MEM_LOOP, n);
}

void stream_commit(struct stream *s, size_t n)
{
    buf_commit(&s->out, n);
    stream_flush(s);
}

err stream_write(struct stream *s, struct str bytes)
{
    if (s->state != STATE_OPEN)
        return E_CLOSED;
    err e = buf_append(&s->out, MEM_LOOP, bytes);

    if (e == E_OK)
        stream_flush(s);
    return e;
}

/* What did not leave is asked for again once the descriptor is writable. */
static size_t wait_to_send(struct stream *s, size_t sent)
{
    s->is_drain_due = true;
    if (stream_pending(s) == 0)
        s->is_blocked = true;
    defer(s);
    return sent;
}

/* Sealing copies in any case. */
static size_t send_by_copy(struct stream *s, const struct str *pieces, size_t n_pieces, size_t total)
{
    for (size_t i = 0; i < n_pieces; i++)
        if (stream_write(s, pieces[i]) != E_OK) {
            stream_close(s, E_NOMEM);
            return 0;
        }
    return total;
}

size_t stream_send(struct stream *s, const struct str *pieces, size_t n_pieces)
{
    struct iovec parts[STREAM_PIECES];
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = n_pieces};
    size_t total = 0;
    ssize_t n;

    ASSERT(n_pieces <= STREAM_PIECES);
    if (s->state != STATE_OPEN)
        return 0;
    for (size_t i = 0; i < n_pieces; i++) {
        memcpy(&parts[i].iov_base, &pieces[i].p,
               sizeof pieces[i].p); /* sendmsg() does not write there, whatever its type says */
        parts[i].iov_len = pieces[i].n;
        total += pieces[i].n;
    }
    if (s->is_blocked || stream_pending(s) > 0)
        return wait_to_send(s, 0);
    if (s->tls)
        return send_by_copy(s, pieces, n_pieces, total);
    do
        n = sendmsg(s->io.fd, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n >= 0)
        return (size_t)n == total ? total : wait_to_send(s, (size_t)n);
    if (errno == EAGAIN)
        return wait_to_send(s, 0);
    stream_close(s, why_of(s, errno));
    return 0;
}

void stream_flush(struct stream *s)
{
    if (!s->is_blocked)
        defer(s);
}

void stream_pause(struct stream *s)
{
    s->is_paused = true;
    defer(s);
}

void stream_resume(struct stream *s)
{
    s->is_paused = false;
    s->is_offer_due = true;
    defer(s);
}

void stream_close(struct stream *s, err why)
{
    if (begin_close(s, why))
        defer(s);
}

void stream_fini(struct stream *s)
{
    if (s->state != STATE_CLOSED)
        release_all(s);
}

void stream_shut_output(struct stream *s)
{
    if (s->state != STATE_OPEN)
        return;
    end_output(s);
    (void)shutdown(s->io.fd, SHUT_WR); /* it fails when the peer has gone, which reading tells */
}

void stream_close_after_output(struct stream *s)
{
    if (s->state != STATE_OPEN)
        return;
    s->state = STATE_FINISHING;
    defer(s);
}

bool stream_is_closing(const struct stream *s)
{
    return s->state != STATE_OPEN;
}
