#include "fake/mqtt_peer.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loop/loop.h"
#include "proto/mqtt/mqtt_test.h"

enum {
    HANG_MS = 20000,  /* only for a server that hangs */
    QUIET_TURNS = 10, /* after which what has not come does not come */
    CHUNK = 4096,
    MQTT_5 = 5,
};

void mqtt_peer_init(struct mqtt_peer *p, int fd, void (*turn)(void *context), void *context)
{
    *p = (struct mqtt_peer){.fd = fd, .turn = turn, .context = context};
}

void mqtt_peer_close(struct mqtt_peer *p)
{
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
    buf_free(&p->in, MEM_TEST);
}

/* Room for `n` more bytes; not by buf_reserve(), which fails where a test makes allocations fail. */
static char *room(struct buf *b, size_t n)
{
    size_t used = buf_size(b);
    char *p;

    if (b->cap - b->tail >= n)
        return b->p + b->tail;
    p = mem_alloc(MEM_TEST, 2 * used + n);
    if (used)
        memcpy(p, b->p + b->head, used);
    mem_free(MEM_TEST, b->p);
    *b = (struct buf){p, 0, (uint32_t)used, (uint32_t)(2 * used + n)};
    return b->p + b->tail;
}

static void receive(struct mqtt_peer *p)
{
    while (!p->is_eof) {
        char *at = room(&p->in, CHUNK);
        ssize_t n = recv(p->fd, at, CHUNK, MSG_DONTWAIT);
        if (n > 0)
            buf_commit(&p->in, (size_t)n);
        else if (n == 0 || errno == ECONNRESET)
            p->is_eof = true;
        else if (errno != EINTR)
            return;
    }
}

static void turn(struct mqtt_peer *p, uint64_t since_ms, const char *what)
{
    if (loop_clock_ms() - since_ms > HANG_MS)
        fail_msg("waited in vain for %s", what);
    p->turn(p->context);
}

size_t mqtt_peer_try_send(struct mqtt_peer *p, struct str bytes)
{
    ssize_t n = send(p->fd, bytes.p, bytes.n, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n < 0 && errno != EAGAIN && errno != EINTR)
        return bytes.n; /* the server has closed, which reading will tell */
    return n > 0 ? (size_t)n : 0;
}

void mqtt_peer_send_bytes(struct mqtt_peer *p, struct str bytes)
{
    uint64_t since_ms = loop_clock_ms();

    for (;;) {
        bytes = str_from_offset(bytes, mqtt_peer_try_send(p, bytes));
        if (bytes.n == 0)
            break;
        turn(p, since_ms, "the server to read");
        receive(p);
    }
    p->turn(p->context);
}

void mqtt_peer_send(struct mqtt_peer *p, const char *text)
{
    struct mqtt_test_bytes b = mqtt_test_parse(text);

    mqtt_peer_send_bytes(p, mqtt_test_view(&b));
}

/* Waits until at least `n` bytes have come, or the end. */
static void wait_for(struct mqtt_peer *p, size_t n, const char *what)
{
    uint64_t since_ms = loop_clock_ms();

    for (receive(p); buf_size(&p->in) < n && !p->is_eof; receive(p))
        turn(p, since_ms, what);
}

static void show(struct str got, const char *what)
{
    print_error("%s, but got:", what);
    for (size_t i = 0; i < got.n && i < 64; i++)
        print_error(" %02x", (uint8_t)got.p[i]);
    print_error("%s\n", got.n ? "" : " nothing");
}

static void expect_bytes(struct mqtt_peer *p, struct str want, const char *what)
{
    struct str got;

    wait_for(p, want.n, what);
    got = buf_str(&p->in);
    if (got.n < want.n || memcmp(got.p, want.p, want.n) != 0) {
        show(got, what);
        fail_msg("%s was expected%s", what, p->is_eof ? " (closed)" : "");
    }
    buf_consume(&p->in, want.n);
}

void mqtt_peer_expect(struct mqtt_peer *p, const char *text)
{
    struct mqtt_test_bytes b = mqtt_test_parse(text);

    expect_bytes(p, mqtt_test_view(&b), text);
}

void mqtt_peer_expect_nothing(struct mqtt_peer *p)
{
    for (int i = 0; i < QUIET_TURNS; i++)
        p->turn(p->context);
    receive(p);
    if (buf_size(&p->in) || p->is_eof) {
        show(buf_str(&p->in), p->is_eof ? "closed" : "open");
        fail_msg("nothing was expected");
    }
}

void mqtt_peer_expect_end(struct mqtt_peer *p)
{
    uint64_t since_ms = loop_clock_ms();

    for (receive(p); !p->is_eof; receive(p))
        turn(p, since_ms, "the end");
    if (buf_size(&p->in)) {
        show(buf_str(&p->in), "the end");
        fail_msg("only the end was expected");
    }
    mqtt_peer_close(p); /* as a client does; the server may be waiting for it */
}

static struct str wait_for_packet(struct mqtt_peer *p)
{
    uint64_t since_ms = loop_clock_ms();
    struct mqtt_frame frame;

    for (receive(p);; receive(p)) {
        struct str got = buf_str(&p->in);

        if (mqtt_frame_decode(got, (enum mqtt_version)p->version, MQTT_PACKET_SIZE_MAX, &frame) == DECODE_DONE)
            return (struct str){got.p, frame.size};
        if (p->is_eof)
            fail_msg("a packet was expected, not the end");
        turn(p, since_ms, "a packet");
    }
}

uint8_t mqtt_peer_skip(struct mqtt_peer *p)
{
    struct str packet = wait_for_packet(p);
    uint8_t first = (uint8_t)packet.p[0];

    buf_consume(&p->in, packet.n);
    return first;
}

size_t mqtt_peer_take(struct mqtt_peer *p, void *out, size_t size)
{
    struct str packet = wait_for_packet(p);

    assert_true(packet.n <= size);
    memcpy(out, packet.p, packet.n);
    buf_consume(&p->in, packet.n);
    return packet.n;
}

size_t mqtt_peer_drop(struct mqtt_peer *p)
{
    size_t n;

    receive(p);
    n = buf_size(&p->in);
    buf_consume(&p->in, n);
    return n;
}

static void put(struct buf *out, const void *p, size_t n)
{
    memcpy(room(out, n), p, n);
    buf_commit(out, n);
}

static void put_u8(struct buf *out, unsigned n)
{
    put(out, &(uint8_t){(uint8_t)n}, 1);
}

static void put_u16(struct buf *out, unsigned n)
{
    put_u8(out, n >> 8);
    put_u8(out, n & 0xff);
}

static void put_text(struct buf *out, const char *text)
{
    size_t n = text ? strlen(text) : 0;

    put_u16(out, (unsigned)n);
    put(out, text ? text : "", n);
}

/* The fixed header before a body, which is freed. */
static void put_packet(struct buf *out, unsigned first, struct buf *body)
{
    size_t n = buf_size(body);

    put_u8(out, first);
    for (size_t left = n;; left >>= 7) {
        put_u8(out, (unsigned)(left & 0x7f) | (left > 0x7f ? 0x80 : 0));
        if (left <= 0x7f)
            break;
    }
    put(out, buf_str(body).p, n);
    buf_free(body, MEM_TEST);
}

void mqtt_peer_put_connect(struct buf *out, const struct mqtt_peer_connect *c)
{
    struct buf b = {0};

    put_text(&b, "MQTT");
    put_u8(&b, c->version);
    put_u8(&b, (c->user ? 0x80u : 0) | (c->password ? 0x40u : 0) | (c->will ? 0x0cu : 0) | (c->is_persistent ? 0 : 0x02u));
    put_u16(&b, c->keep_alive);
    if (c->version == MQTT_5)
        put(&b, c->is_persistent ? "\5\x11\0\0\3\xe8" : "", c->is_persistent ? 6 : 1);
    put_text(&b, c->id);
    if (c->will) {
        if (c->version == MQTT_5)
            put_u8(&b, 0);
        put_text(&b, c->will);
        put_text(&b, "gone");
    }
    if (c->user)
        put_text(&b, c->user);
    if (c->password)
        put_text(&b, c->password);
    put_packet(out, 0x10, &b);
}

void mqtt_peer_connect(struct mqtt_peer *p, const struct mqtt_peer_connect *c, bool is_present)
{
    struct buf b = {0};
    struct str got;

    p->version = c->version;
    mqtt_peer_put_connect(&b, c);
    mqtt_peer_send_bytes(p, buf_str(&b));
    buf_free(&b, MEM_TEST);
    wait_for(p, 4, "CONNACK");
    got = buf_str(&p->in);
    if (got.n < 4 || (uint8_t)got.p[0] != 0x20 || got.p[2] != is_present || got.p[3] != 0) {
        show(got, "CONNACK");
        fail_msg("a CONNACK with %d was expected", is_present);
    }
    assert_int_equal(mqtt_peer_skip(p), 0x20);
}

void mqtt_peer_put_publish(struct buf *out, uint8_t version, const struct mqtt_peer_publish *m)
{
    struct buf b = {0};

    put_text(&b, m->topic);
    if (m->qos)
        put_u16(&b, m->packet_id);
    if (version == MQTT_5) {
        put_u8(&b, m->alias ? 3 : 0);
        if (m->alias) {
            put_u8(&b, 0x23);
            put_u16(&b, m->alias);
        }
    }
    if (m->payload)
        put(&b, m->payload, strlen(m->payload));
    put_packet(out, 0x30u | (m->dup ? 8u : 0) | (unsigned)m->qos << 1 | m->retain, &b);
}

void mqtt_peer_publish(struct mqtt_peer *p, const struct mqtt_peer_publish *m)
{
    struct buf b = {0};

    mqtt_peer_put_publish(&b, p->version, m);
    mqtt_peer_send_bytes(p, buf_str(&b));
    buf_free(&b, MEM_TEST);
}

void mqtt_peer_expect_publish(struct mqtt_peer *p, const struct mqtt_peer_publish *m)
{
    struct buf b = {0};

    mqtt_peer_put_publish(&b, p->version, m);
    expect_bytes(p, buf_str(&b), m->payload ? m->payload : "PUBLISH");
    buf_free(&b, MEM_TEST);
}

void mqtt_peer_subscribe(struct mqtt_peer *p, const char *filter, uint8_t qos)
{
    struct buf b = {0}, out = {0};

    put_u16(&b, 0x5b5b);
    if (p->version == MQTT_5)
        put_u8(&b, 0);
    put_text(&b, filter);
    put_u8(&b, qos);
    put_packet(&out, 0x82, &b);
    mqtt_peer_send_bytes(p, buf_str(&out));
    buf_free(&out, MEM_TEST);
    put_u16(&b, 0x5b5b);
    if (p->version == MQTT_5)
        put_u8(&b, 0);
    put_u8(&b, qos);
    put_packet(&out, 0x90, &b);
    expect_bytes(p, buf_str(&out), "SUBACK");
    buf_free(&out, MEM_TEST);
}
