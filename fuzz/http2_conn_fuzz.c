/* http2_conn_fuzz: frames of a peer on an HTTP/2 connection of a server: well-formed ones, wrong ones, cut ones, header blocks of known
 * fields and of any bytes, while time passes, handlers answer late, the peer stops reading and the server begins to drain. */
#include "http2_frames.h"
#include "http_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PASS_MS = 700, STEPS_MAX = 100 };

static void put_frame(unsigned type, unsigned flags, uint32_t id, size_t length, const uint8_t *payload, size_t n)
{
    uint8_t frame[FRAME_HEAD_BYTES + PAYLOAD_MAX];

    http_target_put(frame, write_frame(frame, type, flags, id, length, payload, n));
}

static void put_any_frame(struct input *in)
{
    uint8_t frame[FRAME_HEAD_BYTES + PAYLOAD_MAX];

    http_target_put(frame, write_any_frame(frame, in));
}

/* Fields in the static table of HPACK and some literals: what requests are made of, also where it has no place. */
static size_t write_field(uint8_t *to, unsigned which)
{
    static const struct str literals[] = {
        STR_INIT("\x04\x05/echo"), /* :path, from here on */
        STR_INIT("\x04\x05/hold"),
        STR_INIT("\x04\x04/big"),
        STR_INIT("\x01\x01h"), /* :authority */
        STR_INIT("\x00\x04host\x01i"),
        STR_INIT("\x0f\x0d\x01"
                 "3"), /* content-length */
        STR_INIT("\x0f\x0d\x03"
                 "300"),
        STR_INIT("\x0f\x14\x0c"
                 "100-continue"), /* expect */
        STR_INIT("\x00\x0a"
                 "connection\x05"
                 "close"),
        STR_INIT("\x00\x02te\x08trailers"),
        STR_INIT("\x40\x01"
                 "a\x01"
                 "b"),    /* into the dynamic table */
        STR_INIT("\xbe"), /* and out of it */
        STR_INIT("\x00\x01"
                 "A\x01"
                 "b"),
        STR_INIT("\x02\x07"
                 "CONNECT"), /* :method */
        STR_INIT("\x20"),    /* a table of no size */
    };
    struct str field = literals[which % ARRAY_LEN(literals)];

    if (which >= 0x80) { /* one of the static table */
        to[0] = (uint8_t)(0x80 | (which % 61 + 1));
        return 1;
    }
    memcpy(to, field.p, field.n);
    return field.n;
}

static void put_request(struct input *in)
{
    static const uint8_t begin[2][2] = {{0x83, 0x86}, {0x82, 0x86}}; /* POST or GET; http */
    uint8_t block[PAYLOAD_MAX];
    unsigned id = next(in), flags = next(in), n_fields = next(in) % 16;
    size_t n = sizeof begin[0];

    memcpy(block, begin[flags >> 7], n);
    for (unsigned i = 0; i < n_fields; i++)
        n += write_field(block + n, next(in));
    put_frame(NGHTTP2_HEADERS, flags & (NGHTTP2_FLAG_END_STREAM | NGHTTP2_FLAG_END_HEADERS), id, n, block, n);
}

/* A request that will do, over and over: the way to what has a bound. */
static void put_good_request(struct input *in)
{
    static const uint8_t hold[] = {0x82, 0x86, 0x01, 0x01, 'h', 0x04, 0x05, '/', 'h', 'o', 'l', 'd'},
                         big[] = {0x82, 0x86, 0x01, 0x01, 'h', 0x04, 0x04, '/', 'b', 'i', 'g'};
    unsigned id = next(in), which = next(in);

    if (which & 1)
        put_frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, id, sizeof hold, hold, sizeof hold);
    else
        put_frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, id, sizeof big, big, sizeof big);
}

static void put_data(struct input *in)
{
    static const uint8_t body[PAYLOAD_MAX];
    unsigned id = next(in), flags = next(in), n = next(in);

    put_frame(NGHTTP2_DATA, flags & NGHTTP2_FLAG_END_STREAM, id, n, body, n);
}

static void let_pass(struct input *in)
{
    http_target_pass(PASS_MS * (next(in) % 4 + 1));
}

static void answer(struct input *in)
{
    (void)in;
    http_target_answer();
}

static void drain(struct input *in)
{
    http_server_drain(&f.server, PASS_MS * (next(in) % 8 + 1), http_target_on_closed);
}

static void read_or_not(struct input *in)
{
    f.is_reading = next(in) & 1;
}

/* Many at once, without padding. */
static void repeat_frame(struct input *in)
{
    static const uint8_t payload[8];
    static uint8_t frames[4 * 256 * (FRAME_HEAD_BYTES + sizeof payload)];
    unsigned type = next(in) % TYPES, flags = next(in) & ~(unsigned)NGHTTP2_FLAG_PADDED, id = next(in), many = next(in) * 4;
    size_t length = type == NGHTTP2_PING ? 8 : 4, n = 0;

    for (unsigned i = 0; i < many; i++)
        n += write_frame(frames + n, type, flags, id, length, payload, length);
    http_target_put(frames, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const steps[])(struct input * in) = {
        put_any_frame, put_request, put_request, put_good_request, put_data,     put_data,
        let_pass,      answer,      drain,       read_or_not,      repeat_frame,
    };
    struct input in = {data, size};

    http_target_open();
    http_target_put(NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
    put_frame(NGHTTP2_SETTINGS, 0, 0, 0, NULL, 0);
    for (unsigned i = 0; i < STEPS_MAX && in.n > 0; i++)
        steps[next(&in) % ARRAY_LEN(steps)](&in);
    http_target_close();
    return 0;
}
