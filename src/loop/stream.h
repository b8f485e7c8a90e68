/* stream: one connection's bytes in and out, over TCP, with TLS or without: its owner sees no difference. Lies inside its owner's object. Reading goes into
 * the loop's scratch buffer; only an incomplete rest is kept. Writing collects in `out` and leaves in one system call at
 * the end of the turn. An idle stream owns no buffer. One thread: that of its loop. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "loop/loop.h"
#include "loop/tls_conn.h"

struct stream;

struct stream_ops {
    /* Bytes have come. Returns how many of them were used; the rest is offered again, with more behind it. Called again at
     * once while some are used; a resumed or adopted stream is offered what it has without more. Not called while the stream
     * is paused or closing. */
    size_t (*on_data)(struct stream *s, struct str bytes);
    /* All output has left and at least one byte had been waiting for the peer, in `out` or at stream_send()'s caller. May be NULL. */
    void (*on_drain)(struct stream *s);
    /* A stream of stream_connect() is connected; one with TLS has done its handshake, whoever began it. May be NULL. */
    void (*on_connect)(struct stream *s);
    /* The stream is closed, its descriptor gone; the last call, at the end of a turn. The owner may free the object.
     * `why`: what stream_close() was given; E_OK after stream_close_after_output() and stream_release(); E_CLOSED the peer
     * closed, E_IO a network error, E_NOMEM no memory for bytes that were not used; E_PROTO and E_TIMEOUT a TLS handshake that
     * failed or took too long (also E_PROTO: a record after it that is no good). */
    void (*on_close)(struct stream *s, err why);
    /* Epoll tells of new bytes once and does not look whether they were read, which makes short exchanges cheaper. */
    bool is_edge_triggered;
};

struct stream {
    struct io io;
    struct task task;
    struct loop *loop;
    const struct stream_ops *ops;
    struct tls_conn *tls; /* NULL: plain */
    struct buf in;        /* bytes offered but not yet used */
    struct buf out;       /* bytes the peer has not taken yet; with TLS those that are not sealed yet */
    uint8_t why;          /* err of on_close */
    uint8_t state;        /* stream.c */
    bool is_paused : 1;
    bool is_blocked : 1;   /* the kernel's buffer was full: waiting for EPOLLOUT */
    bool is_offer_due : 1; /* resumed or adopted: what is in `in` is offered at the end of the turn */
    bool is_connecting : 1;
    bool is_drain_due : 1; /* stream_send() did not send all */
    bool is_unread : 1;    /* there may be more to read than epoll will tell of */
    bool is_reset : 1;     /* in on_close with E_CLOSED: the peer did not end its output in order, some may be lost */
};

/* A stream between two threads: all that must travel. Gone with stream_adopt() or stream_drop(). `fd` -1: nothing. */
struct stream_parts {
    int fd;
    struct buf in, out;
    struct tls_conn *tls;
};

/* Takes over a connected, non-blocking descriptor. `ops` live as long as the stream. E_IO: epoll refused; the descriptor
 * is closed and on_close is not called. */
MUST_USE err stream_open(struct stream *s, struct loop *l, int fd, const struct stream_ops *ops);

/* As stream_open(), as the server of a TLS connection. The handshake has a time limit of its own; on_data sees nothing before it is
 * done. Output may be written at once and leaves behind it. E_LIMIT: too many handshakes are under way; E_NOMEM. */
struct tls;
MUST_USE err stream_open_tls(struct stream *s, struct loop *l, int fd, const struct stream_ops *ops, struct tls *tls);

/* Connects to an address without waiting: on_connect follows, or on_close, with s->is_connecting still set, when nobody answers
 * there. Output may be written at once and leaves when the connection is there. The owner bounds the wait with a timer of its
 * own. E_IO: the system refuses right away, with errno; on_close is not called. */
struct sockaddr;
MUST_USE err stream_connect(struct stream *s, struct loop *l, const struct sockaddr *address, unsigned address_bytes,
                            const struct stream_ops *ops);

/* The same with TLS. s->is_connecting is set until TCP is connected. E_NOMEM as well. */
MUST_USE err stream_connect_tls(struct stream *s, struct loop *l, const struct sockaddr *address, unsigned address_bytes,
                                const struct stream_ops *ops, struct tls *tls, const struct tls_server *server);

/* As stream_open(), for a stream that comes from another thread: with what was read there and not yet used, what was not yet
 * written, and its TLS. All is taken over. on_data runs for what was read at the end of the turn, without waiting for the
 * descriptor. E_IO: all was dropped. */
MUST_USE err stream_adopt(struct stream *s, struct loop *l, const struct stream_ops *ops, struct stream_parts *parts);

/* The reverse, called inside on_data: stops watching and gives up all that the next owner needs. `unused` is the part of on_data's
 * bytes that it is to see; a copy of it goes into `out_parts->in`. on_close runs at the end of the turn as for any stream,
 * without touching the descriptor. Nothing is released with E_NOMEM, nor with E_CLOSED when the stream is closing;
 * `out_parts->fd` is -1 then. */
MUST_USE err stream_release(struct stream *s, struct str unused, struct stream_parts *out_parts);

/* Closes what nobody adopts. */
void stream_drop(struct stream_parts *parts);

/* Room for `n` bytes of output, to be followed by stream_commit(); NULL when there is no memory. */
MUST_USE char *stream_reserve(struct stream *s, size_t n);
void stream_commit(struct stream *s, size_t n);

/* Appends a copy. E_NOMEM: nothing was appended. A no-op with E_CLOSED on a closing stream. */
MUST_USE err stream_write(struct stream *s, struct str bytes);

/* Sends bytes that stay the caller's, at once and without a copy, as far as the peer takes them; behind what waits in `out`, so none
 * while something does or the stream is not connected yet. At most STREAM_PIECES pieces. Returns how many bytes have left; when these
 * are not all, on_drain says when to go on with the rest. 0 on a closing stream; a network error closes it. */
enum { STREAM_PIECES = 4 };
size_t stream_send(struct stream *s, const struct str *pieces, size_t n_pieces);

/* Says that bytes were appended to s->out directly; they leave at the end of the turn. */
void stream_flush(struct stream *s);

/* Bytes of the owner's that wait for the peer. */
static inline size_t stream_pending(const struct stream *s)
{
    return buf_size(&s->out) + (s->tls ? tls_conn_pending(s->tls) : 0);
}

/* Stops and resumes reading. Bytes already read wait; they are offered again at the end of the turn that resumes. */
void stream_pause(struct stream *s);
void stream_resume(struct stream *s);

/* Closes: nothing more is read, what is in `out` is written as far as the peer takes it at once, then on_close runs at
 * the end of the turn (of the next one when a task asks, as on_drain and on_data of a resumed stream are). Safe inside any
 * handler, and more than once: the first reason holds. */
void stream_close(struct stream *s, err why);

/* Ends a stream whose loop runs no more: its descriptor is closed, its memory given back, and on_close is not called. A no-op on one that
 * is closed or was never open. */
void stream_fini(struct stream *s);

/* Tells the peer that nothing more comes, when all output has left: inside on_drain. Reading goes on until the peer closes too,
 * so that no reset, which bytes that nobody reads would cause, takes the last output away from it. */
void stream_shut_output(struct stream *s);

/* Closes once the peer has taken all output (the owner bounds the wait with a timer of its own and stream_close()). */
void stream_close_after_output(struct stream *s);

/* Whether it takes no more output. */
bool stream_is_closing(const struct stream *s);

static inline bool stream_is_open(const struct stream *s)
{
    return s->io.fd >= 0;
}
