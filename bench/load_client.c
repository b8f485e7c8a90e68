#include "load_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "latency.h"

/* The first byte of each packet, without the flags of PUBLISH (section 2.2). */
enum {
    CONNECT = 0x10,
    CONNACK = 0x20,
    PUBLISH = 0x30,
    PUBACK = 0x40,
    PUBREC = 0x50,
    PUBREL = 0x62,
    PUBCOMP = 0x70,
    SUBSCRIBE = 0x82,
    SUBACK = 0x90,
};

enum { CLEAN_SESSION = 0x02, HAS_PASSWORD = 0x40, HAS_USER = 0x80, LEVEL_3_1_1 = 4, MAX_HEADER_BYTES = 5, SUBSCRIBE_ID = 1 };

static char *put_u8(char *p, unsigned value)
{
    *p = (char)value;
    return p + 1;
}

static char *put_u16(char *p, unsigned value)
{
    return put_u8(put_u8(p, value >> 8), value & 0xff);
}

static char *put_text(char *p, const char *text)
{
    size_t n = strlen(text);

    memcpy(put_u16(p, (unsigned)n), text, n);
    return p + 2 + n;
}

static char *put_header(char *p, unsigned first, size_t remaining)
{
    p = put_u8(p, first);
    for (; remaining >= 128; remaining /= 128)
        p = put_u8(p, (unsigned)remaining % 128 | 128);
    return put_u8(p, (unsigned)remaining);
}

static unsigned get_u16(const char *p)
{
    return (unsigned)(uint8_t)p[0] << 8 | (uint8_t)p[1];
}

static struct load_client *from_stream(struct stream *s)
{
    return CONTAINER_OF(s, struct load_client, stream);
}

static char *reserve(struct load_client *lc, size_t n)
{
    char *p = stream_reserve(&lc->stream, n);

    ASSERT(p);
    return p;
}

static void send_connect(struct load_client *lc, const struct load_client_login *login)
{
    unsigned flags = CLEAN_SESSION | (login->user ? HAS_USER : 0) | (login->password ? HAS_PASSWORD : 0);
    size_t n = 10 + 2 + strlen(login->client_id) + (login->user ? 2 + strlen(login->user) : 0) +
               (login->password ? 2 + strlen(login->password) : 0);
    char *begin = reserve(lc, MAX_HEADER_BYTES + n), *p = put_header(begin, CONNECT, n);

    p = put_u16(put_u8(put_u8(put_text(p, "MQTT"), LEVEL_3_1_1), flags), login->keep_alive_s);
    p = put_text(p, login->client_id);
    if (login->user)
        p = put_text(p, login->user);
    if (login->password)
        p = put_text(p, login->password);
    stream_commit(&lc->stream, (size_t)(p - begin));
}

static void send_subscribe(struct load_client *lc)
{
    size_t n = 2 + 2 + strlen(lc->filter) + 1;
    char *begin = reserve(lc, MAX_HEADER_BYTES + n), *p = put_header(begin, SUBSCRIBE, n);

    p = put_u8(put_text(put_u16(p, SUBSCRIBE_ID), lc->filter), lc->qos);
    stream_commit(&lc->stream, (size_t)(p - begin));
}

static void send_ack(struct load_client *lc, unsigned type, const char *packet_id)
{
    char *p = put_header(reserve(lc, 4), type, 2);

    memcpy(p, packet_id, 2);
    stream_commit(&lc->stream, 4);
}

static void become_ready(struct load_client *lc)
{
    lc->is_ready = true;
    lc->ops->on_ready(lc);
}

static void on_connack(struct load_client *lc, struct str body)
{
    if (body.n != 2 || body.p[1] != 0) {
        lc->ops->on_lost(lc, "refused by CONNACK");
        stream_close(&lc->stream, E_DENIED);
    } else if (lc->filter) {
        send_subscribe(lc);
    } else {
        become_ready(lc);
    }
}

static void on_publish(struct load_client *lc, unsigned qos, struct str body)
{
    size_t topic_bytes = 2 + get_u16(body.p), head = topic_bytes + (qos ? 2 : 0);
    uint64_t sent_ns = 0;

    if (body.n >= head + sizeof sent_ns)
        memcpy(&sent_ns, body.p + head, sizeof sent_ns);
    if (qos)
        send_ack(lc, qos == 1 ? PUBACK : PUBREC, body.p + topic_bytes);
    lc->received++;
    if (lc->ops->on_topic)
        lc->ops->on_topic(lc, (struct str){body.p + 2, topic_bytes - 2}, str_from_offset(body, head));
    else
        lc->ops->on_message(lc, sent_ns);
}

static void on_packet(struct load_client *lc, uint8_t first, struct str body)
{
    switch (first & 0xf0) {
    case CONNACK:
        on_connack(lc, body);
        break;
    case SUBACK:
        become_ready(lc);
        break;
    case PUBACK:
    case PUBCOMP:
        lc->acknowledged++;
        if (lc->sent_ns)
            lc->ops->on_acknowledged(lc, latency_clock_ns() - lc->sent_ns[get_u16(body.p) % LOAD_CLIENT_MAX_WINDOW]);
        break;
    case PUBREC:
        send_ack(lc, PUBREL, body.p);
        break;
    case PUBREL & 0xf0:
        send_ack(lc, PUBCOMP, body.p);
        break;
    case PUBLISH:
        on_publish(lc, first >> 1 & 3, body);
        break;
    default:
        break; /* asked for nothing else */
    }
}

/* The size of the packet at the start of `in`, 0 when it is not all there; `*out_head` is where its body begins. */
static size_t packet_size(struct str in, size_t *out_head)
{
    size_t remaining = 0, at = 1;

    for (unsigned shift = 0; at < in.n && at < MAX_HEADER_BYTES; shift += 7) {
        uint8_t byte = (uint8_t)in.p[at++];

        remaining |= (size_t)(byte & 127) << shift;
        if (byte < 128) {
            *out_head = at;
            return in.n - at >= remaining ? at + remaining : 0;
        }
    }
    return 0;
}

static size_t on_data(struct stream *s, struct str bytes)
{
    struct load_client *lc = from_stream(s);
    size_t used = 0, n, head;

    while ((n = packet_size(str_from_offset(bytes, used), &head)) > 0) {
        on_packet(lc, (uint8_t)bytes.p[used], (struct str){bytes.p + used + head, n - head});
        used += n;
    }
    if (used && lc->ops->on_batch)
        lc->ops->on_batch(lc);
    return used;
}

static void on_drain(struct stream *s)
{
    struct load_client *lc = from_stream(s);

    if (lc->ops->on_batch)
        lc->ops->on_batch(lc);
}

static void on_close(struct stream *s, err why)
{
    struct load_client *lc = from_stream(s);

    lc->is_ready = false;
    if (why != E_OK && why != E_DENIED)
        lc->ops->on_lost(lc, err_name(why));
}

static const struct stream_ops stream_ops = {.on_data = on_data, .on_drain = on_drain, .on_close = on_close};

static int dial(uint16_t port, uint8_t source)
{
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl((INADDR_LOOPBACK & ~0xffu) | source)};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    /* The port is chosen when connecting, which finds room for more connections than choosing it now. */
    if (setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &(int){1}, sizeof(int)) == 0 &&
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)) == 0 &&
        bind(fd, (const struct sockaddr *)&from, sizeof from) == 0 &&
        (connect(fd, (const struct sockaddr *)&to, sizeof to) == 0 || errno == EINPROGRESS))
        return fd;
    close(fd);
    return -1;
}

err load_client_open(struct load_client *lc, struct loop *l, const struct load_client_ops *ops, uint16_t port, uint8_t source,
                     const struct load_client_login *login, const char *filter, uint8_t qos)
{
    int fd = dial(port, source);

    lc->ops = ops;
    lc->filter = filter;
    lc->qos = qos;
    if (fd < 0 || stream_open(&lc->stream, l, fd, &stream_ops) != E_OK)
        return E_IO;
    send_connect(lc, login);
    return E_OK;
}

void load_client_prepare(struct load_client *lc, const char *topic, uint8_t qos, uint32_t payload_bytes)
{
    size_t remaining = 2 + strlen(topic) + (qos ? 2 : 0) + payload_bytes;
    char *p;

    lc->qos = qos;
    lc->packet = mem_alloc(MEM_TEST, MAX_HEADER_BYTES + remaining);
    p = put_text(put_header(lc->packet, PUBLISH | (unsigned)qos << 1, remaining), topic);
    lc->id_offset = (uint32_t)(p - lc->packet);
    p += qos ? 2 : 0;
    memset(p, 'x', payload_bytes);
    lc->packet_bytes = (uint32_t)(p - lc->packet) + payload_bytes;
    if (qos)
        lc->sent_ns = mem_alloc_zero(MEM_TEST, LOAD_CLIENT_MAX_WINDOW * sizeof *lc->sent_ns);
}

void load_client_publish(struct load_client *lc, uint64_t sent_ns)
{
    char *p = reserve(lc, lc->packet_bytes), *payload = p + lc->id_offset;

    memcpy(p, lc->packet, lc->packet_bytes);
    if (lc->qos) {
        lc->packet_id = lc->packet_id == UINT16_MAX ? 1 : lc->packet_id + 1;
        payload = put_u16(payload, lc->packet_id);
        lc->sent_ns[lc->packet_id % LOAD_CLIENT_MAX_WINDOW] = sent_ns;
    }
    memcpy(payload, &sent_ns, sizeof sent_ns);
    stream_commit(&lc->stream, lc->packet_bytes);
    lc->sent++;
}

void load_client_send(struct load_client *lc, struct str topic, struct str payload)
{
    size_t n = 2 + topic.n + 2 + payload.n;
    char *begin = reserve(lc, MAX_HEADER_BYTES + n), *p = put_u16(put_header(begin, PUBLISH | 1u << 1, n), (unsigned)topic.n);

    memcpy(p, topic.p, topic.n);
    lc->packet_id = lc->packet_id == UINT16_MAX ? 1 : lc->packet_id + 1;
    p = put_u16(p + topic.n, lc->packet_id);
    memcpy(p, payload.p, payload.n);
    stream_commit(&lc->stream, (size_t)(p - begin) + payload.n);
    lc->sent++;
}

void load_client_free(struct load_client *lc)
{
    if (stream_is_open(&lc->stream))
        close(lc->stream.io.fd);
    buf_free(&lc->stream.in, MEM_LOOP);
    buf_free(&lc->stream.out, MEM_LOOP);
    mem_free(MEM_TEST, lc->packet);
    mem_free(MEM_TEST, lc->sent_ns);
}
