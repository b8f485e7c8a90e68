/* http2_fixture: the other end of an HTTP/2 connection for tests: frames written by hand, and what comes as text, a line a frame. */
#pragma once

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <nghttp2/nghttp2.h>

#include "base/check.h"
#include "base/err.h"
#include "base/str.h"

enum { FIXTURE_TEXT_BYTES = 1 << 20, FIXTURE_FRAME_BYTES = 9 + 16384 };

struct http2_peer {
    int fd;
    nghttp2_hd_inflater *inflater;
    bool is_talkative; /* SETTINGS and WINDOW_UPDATE are written down too */
    bool is_eof;
    char in[FIXTURE_FRAME_BYTES];
    size_t n_in;
    char *text;
    size_t n_text;
};

static inline void fixture_open(struct http2_peer *p, int fd)
{
    char *text = p->text ? p->text : malloc(FIXTURE_TEXT_BYTES);

    *p = (struct http2_peer){.fd = fd, .text = text};
    assert_int_equal(nghttp2_hd_inflate_new(&p->inflater), 0);
}

static inline void fixture_close(struct http2_peer *p)
{
    if (p->inflater)
        nghttp2_hd_inflate_del(p->inflater);
    p->inflater = NULL;
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
}

/* ---- writing ---- */

static inline void fixture_put(struct http2_peer *p, const void *bytes, size_t n)
{
    ssize_t sent = send(p->fd, bytes, n, MSG_NOSIGNAL);

    assert_true(sent == (ssize_t)n || (sent < 0 && (errno == EPIPE || errno == ECONNRESET))); /* it may have closed */
}

static inline size_t fixture_write_frame(char *to, unsigned type, unsigned flags, uint32_t id, struct str payload)
{
    const unsigned char head[9] = {(unsigned char)(payload.n >> 16),
                                   (unsigned char)(payload.n >> 8),
                                   (unsigned char)payload.n,
                                   (unsigned char)type,
                                   (unsigned char)flags,
                                   (unsigned char)(id >> 24),
                                   (unsigned char)(id >> 16),
                                   (unsigned char)(id >> 8),
                                   (unsigned char)id};

    memcpy(to, head, sizeof head);
    if (payload.n)
        memcpy(to + sizeof head, payload.p, payload.n);
    return sizeof head + payload.n;
}

static inline void fixture_put_frame(struct http2_peer *p, unsigned type, unsigned flags, uint32_t id, struct str payload)
{
    char frame[FIXTURE_FRAME_BYTES + 9];

    assert_true(payload.n <= sizeof frame - 9);
    fixture_put(p, frame, fixture_write_frame(frame, type, flags, id, payload));
}

/* RFC 7541 section 5.1, with a prefix of seven bits and no flag. */
static inline size_t fixture_write_length(char *to, size_t n)
{
    size_t at = 0;

    if (n < 127) {
        to[at++] = (char)n;
        return at;
    }
    to[at++] = 127;
    for (n -= 127; n >= 128; n /= 128)
        to[at++] = (char)(n % 128 | 128);
    to[at++] = (char)n;
    return at;
}

/* Fields, "name: value" a line, as literals without indexing (RFC 7541 section 6.2.2). */
static inline size_t fixture_write_fields(char *to, struct str fields)
{
    size_t at = 0;

    while (fields.n) {
        bool found;
        struct str value = str_take(&fields, '\n', &found), name = {value.p, 0};
        const char *colon = memmem(value.p + 1, value.n - 1, ": ", 2);

        assert_non_null(colon);
        name.n = (size_t)(colon - name.p);
        value = str_from_offset(value, name.n + 2);
        to[at++] = 0;
        at += fixture_write_length(to + at, name.n);
        memcpy(to + at, name.p, name.n);
        at += name.n;
        at += fixture_write_length(to + at, value.n);
        memcpy(to + at, value.p ? value.p : "", value.n);
        at += value.n;
    }
    return at;
}

static inline void fixture_put_headers(struct http2_peer *p, uint32_t id, bool is_end, const char *fields)
{
    static char block[FIXTURE_FRAME_BYTES];
    size_t n = fixture_write_fields(block, str_from(fields));

    fixture_put_frame(p, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | (is_end ? NGHTTP2_FLAG_END_STREAM : 0), id,
                      (struct str){block, n});
}

static inline void fixture_put_data(struct http2_peer *p, uint32_t id, bool is_end, struct str data)
{
    fixture_put_frame(p, NGHTTP2_DATA, is_end ? NGHTTP2_FLAG_END_STREAM : 0, id, data);
}

/* RST_STREAM or WINDOW_UPDATE. */
static inline void fixture_put_word(struct http2_peer *p, unsigned type, uint32_t id, uint32_t word)
{
    const char payload[4] = {(char)(word >> 24), (char)(word >> 16), (char)(word >> 8), (char)word};

    fixture_put_frame(p, type, 0, id, (struct str){payload, sizeof payload});
}

static inline void fixture_put_setting(struct http2_peer *p, unsigned setting, uint32_t value)
{
    const char payload[6] = {0, (char)setting, (char)(value >> 24), (char)(value >> 16), (char)(value >> 8), (char)value};

    fixture_put_frame(p, NGHTTP2_SETTINGS, 0, 0, (struct str){payload, sizeof payload});
}

/* ---- reading ---- */

static inline void PRINTF_LIKE(2, 3) fixture_note(struct http2_peer *p, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    p->n_text += (size_t)vsnprintf(p->text + p->n_text, FIXTURE_TEXT_BYTES - p->n_text, format, args);
    va_end(args);
    assert_true(p->n_text < FIXTURE_TEXT_BYTES);
}

static inline uint32_t fixture_word(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;

    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static inline void fixture_note_fields(struct http2_peer *p, const char *block, size_t n)
{
    int flags = 0;

    for (;;) {
        nghttp2_nv nv;
        ssize_t used = nghttp2_hd_inflate_hd2(p->inflater, &nv, &flags, (const uint8_t *)block, n, 1);

        assert_true(used >= 0);
        block += used;
        n -= (size_t)used;
        if (flags & NGHTTP2_HD_INFLATE_FINAL)
            break;
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) && (nv.namelen != 4 || memcmp(nv.name, "date", 4) != 0))
            fixture_note(p, " %.*s=%.*s", (int)nv.namelen, nv.name, (int)nv.valuelen, nv.value);
    }
    nghttp2_hd_inflate_end_headers(p->inflater);
}

static inline void fixture_note_settings(struct http2_peer *p, struct str payload, unsigned flags)
{
    fixture_note(p, "SETTINGS%s", flags & NGHTTP2_FLAG_ACK ? " ack" : "");
    for (; payload.n >= 6; payload = str_from_offset(payload, 6))
        fixture_note(p, " %u=%u", (unsigned)payload.p[1], (unsigned)fixture_word(payload.p + 2));
    fixture_note(p, "\n");
}

static inline void fixture_note_frame(struct http2_peer *p, unsigned type, unsigned flags, uint32_t id, struct str payload)
{
    const char *end = flags & NGHTTP2_FLAG_END_STREAM ? " end" : "";

    switch (type) {
    case NGHTTP2_DATA:
        if (payload.n <= 64)
            fixture_note(p, "DATA %u%s %.*s\n", id, end, STR_ARG(payload));
        else
            fixture_note(p, "DATA %u%s (%zu)\n", id, end, payload.n);
        break;
    case NGHTTP2_HEADERS:
        assert_true(flags & NGHTTP2_FLAG_END_HEADERS);
        fixture_note(p, "HEADERS %u%s", id, end);
        fixture_note_fields(p, payload.p, payload.n);
        fixture_note(p, "\n");
        break;
    case NGHTTP2_RST_STREAM:
        fixture_note(p, "RST_STREAM %u %s\n", id, nghttp2_http2_strerror(fixture_word(payload.p)));
        break;
    case NGHTTP2_GOAWAY:
        fixture_note(p, "GOAWAY %u %s\n", fixture_word(payload.p), nghttp2_http2_strerror(fixture_word(payload.p + 4)));
        break;
    case NGHTTP2_PING:
        fixture_note(p, "PING%s\n", flags & NGHTTP2_FLAG_ACK ? " ack" : "");
        break;
    case NGHTTP2_SETTINGS:
        if (p->is_talkative)
            fixture_note_settings(p, payload, flags);
        break;
    case NGHTTP2_WINDOW_UPDATE:
        if (p->is_talkative)
            fixture_note(p, "WINDOW_UPDATE %u %u\n", id, fixture_word(payload.p));
        break;
    default:
        fixture_note(p, "frame %u\n", type);
        break;
    }
}

static inline void fixture_note_frames(struct http2_peer *p)
{
    size_t at = 0;

    while (p->n_in - at >= 9) {
        const unsigned char *b = (const unsigned char *)p->in + at;
        size_t length = (size_t)b[0] << 16 | (size_t)b[1] << 8 | b[2];

        assert_true(length <= 16384);
        if (p->n_in - at < 9 + length)
            break;
        fixture_note_frame(p, b[3], b[4], fixture_word(p->in + at + 5) & 0x7fffffff, (struct str){p->in + at + 9, length});
        at += 9 + length;
    }
    p->n_in -= at;
    memmove(p->in, p->in + at, p->n_in);
}

/* Adds what has come, after `turn` had let the other side work, to what had come before. */
static inline const char *fixture_hear_more(struct http2_peer *p, void (*turn)(void))
{
    ssize_t n;

    do {
        turn();
        n = recv(p->fd, p->in + p->n_in, sizeof p->in - p->n_in, MSG_DONTWAIT);
        p->n_in += n > 0 ? (size_t)n : 0;
        p->is_eof = n == 0;
        fixture_note_frames(p);
    } while (n > 0);
    return p->text;
}

/* What has come since the last call. */
static inline const char *fixture_hear(struct http2_peer *p, void (*turn)(void))
{
    p->n_text = 0;
    p->text[0] = '\0';
    return fixture_hear_more(p, turn);
}
