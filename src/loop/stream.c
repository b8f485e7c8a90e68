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

static void update_interest(struct stream *s)
{
    uint32_t want = 0;

    if (s->state == STATE_OPEN && !s->is_paused)
        want |= EPOLLIN;
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

static void on_readable(struct stream *s)
{
    ssize_t n = read(s->io.fd, s->loop->scratch, LOOP_SCRATCH_BYTES);

    if (n > 0)
        take(s, (struct str){s->loop->scratch, (size_t)n});
    else if (n == 0)
        stream_close(s, E_CLOSED);
    else if (errno != EAGAIN && errno != EINTR)
        stream_close(s, why_of(s, errno));
}

/* Part of the task, which goes on to end a stream that is closing. */
static void write_out(struct stream *s)
{
    bool had_output = buf_size(&s->out) > 0 || s->is_drain_due;

    while (buf_size(&s->out) > 0) {
        struct str rest = buf_str(&s->out);
        ssize_t n = send(s->io.fd, rest.p, rest.n, MSG_NOSIGNAL);

        if (n >= 0) {
            buf_consume(&s->out, (size_t)n);
        } else if (errno == EAGAIN) {
            s->is_blocked = true;
            break;
        } else if (errno != EINTR) {
            (void)begin_close(s, why_of(s, errno)); /* it may be closing already */
            return;
        }
    }
    if (buf_size(&s->out) > 0)
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
        if (s->ops->on_connect)
            s->ops->on_connect(s);
    }
    if (events & EPOLLOUT) {
        s->is_blocked = false;
        defer(s);
    }
    if ((events & EPOLLIN) && s->state == STATE_OPEN && !s->is_paused)
        on_readable(s);
    else if (events & (EPOLLHUP | EPOLLERR))
        on_hang_up(s);
}

static void finish_close(struct stream *s)
{
    if (s->state == STATE_CLOSING) {
        loop_unwatch(s->loop, &s->io);
        close(s->io.fd);
        s->io.fd = -1;
    }
    buf_free(&s->in, MEM_LOOP);
    buf_free(&s->out, MEM_LOOP);
    s->state = STATE_CLOSED;
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

err stream_open(struct stream *s, struct loop *l, int fd, const struct stream_ops *ops)
{
    set_up(s, l, fd, ops);
    if (loop_watch(l, &s->io, EPOLLIN) == E_OK)
        return E_OK;
    close(fd);
    s->io.fd = -1;
    s->state = STATE_CLOSED;
    return E_IO;
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
    if (loop_watch(l, &s->io, EPOLLIN | EPOLLOUT) == E_OK)
        return E_OK;
    close(fd);
    s->io.fd = -1;
    s->state = STATE_CLOSED;
    return E_IO;
}

err stream_adopt(struct stream *s, struct loop *l, int fd, const struct stream_ops *ops, struct buf *in, struct buf *out)
{
    err e = stream_open(s, l, fd, ops);

    if (e != E_OK) {
        buf_free(in, MEM_LOOP);
        buf_free(out, MEM_LOOP);
        return e;
    }
    s->in = *in;
    s->out = *out;
    *in = *out = (struct buf){0};
    s->is_offer_due = true;
    defer(s);
    return E_OK;
}

err stream_release(struct stream *s, struct str unused, int *out_fd, struct buf *out_in, struct buf *out_out)
{
    struct buf kept = {0};

    if (s->state != STATE_OPEN)
        return E_CLOSED;
    /* A copy, because `unused` may lie in s->in as well as in the scratch buffer. */
    if (buf_append(&kept, MEM_LOOP, unused) != E_OK)
        return E_NOMEM;
    loop_unwatch(s->loop, &s->io);
    *out_fd = s->io.fd;
    *out_in = kept;
    *out_out = s->out;
    s->out = (struct buf){0};
    s->io.fd = -1;
    s->state = STATE_RELEASED;
    defer(s);
    return E_OK;
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
    if (buf_size(&s->out) == 0)
        s->is_blocked = true;
    defer(s);
    return sent;
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
    if (s->is_blocked || buf_size(&s->out) > 0)
        return wait_to_send(s, 0);
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

void stream_shut_output(struct stream *s)
{
    if (s->state == STATE_OPEN)
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
