/* http1_fuzz: whatever the bytes are and however they are split, the HTTP/1 parser tells the same requests, keeps to its
 * limits and never touches a byte that is not its own. The first byte chooses the size of the pieces. */
#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/siphash.h"
#include "proto/http1/http1_parser.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct http1_limits limits = {
    .max_line_bytes = 128, .max_head_bytes = 512, .max_headers = 8, .max_body_bytes = 256};

struct result {
    uint64_t hash;
    uint64_t body_hash;
    uint64_t body_bytes;
    unsigned requests;
    enum http1_refusal refusal;
    bool is_inside;
};

static const struct siphash_key key = {1, 2};

static void mix(struct result *to, struct str s)
{
    ASSERT(s.n == 0 || s.p);
    to->hash = to->hash * 31 + siphash_with(key, s);
}

static void mix_head(struct result *to, const struct http_request *r)
{
    ASSERT(r->n_headers <= limits.max_headers);
    ASSERT(r->path.n > 0 && !(r->is_chunked && r->content_length));
    mix(to, r->method_name);
    mix(to, r->target);
    mix(to, r->path);
    mix(to, r->query);
    mix(to, r->authority);
    for (size_t i = 0; i < r->n_headers; i++) {
        ASSERT(r->headers[i].name.n > 0);
        ASSERT(!r->headers[i].value.n || !memchr(r->headers[i].value.p, '\n', r->headers[i].value.n));
        mix(to, r->headers[i].name);
        mix(to, r->headers[i].value);
    }
    to->hash = to->hash * 31 + r->content_length * 8 + r->is_chunked * 4u + r->is_kept_alive * 2u + r->expects_continue;
}

static struct result run(struct str text, size_t piece)
{
    struct http1_parser p;
    struct http1_head head = {0};
    struct http_request r = {0};
    struct result result = {0};
    enum http1_step step = HTTP1_MORE;

    http1_parser_init(&p, &limits);
    while (text.n > 0 && step != HTTP1_BAD) {
        struct str in = {text.p, text.n < piece ? text.n : piece}, body = {0};

        text = str_from_offset(text, in.n);
        do {
            step = http1_parser_next(&p, &head, &r, &in, &body);
            if (step == HTTP1_HEAD) {
                mix_head(&result, &r);
                result.body_bytes = 0;
            } else if (step == HTTP1_BODY) {
                result.body_bytes += body.n;
                ASSERT(body.n > 0 && result.body_bytes <= limits.max_body_bytes);
                for (size_t i = 0; i < body.n; i++)
                    result.body_hash = result.body_hash * 131 + (uint8_t)body.p[i];
            } else if (step == HTTP1_END) {
                result.requests++;
                mix(&result, (struct str){(const char *)&result.body_hash, sizeof result.body_hash});
                http1_head_clear(&head);
            }
        } while (step != HTTP1_MORE && step != HTTP1_BAD);
        ASSERT(step == HTTP1_BAD || in.n == 0);
    }
    result.refusal = p.refusal;
    result.is_inside = http1_parser_is_inside(&p);
    ASSERT((step == HTTP1_BAD) == (result.refusal != HTTP1_REFUSED_NOT));
    http1_head_free(&head);
    return result;
}

static bool is_of_chunk(enum http1_refusal refusal)
{
    return refusal == HTTP1_REFUSED_CHUNK || refusal == HTTP1_REFUSED_BODY_TOO_LARGE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct result whole, split;
    struct str text;

    if (size < 2)
        return 0;
    text = (struct str){(const char *)data + 1, size - 1};
    whole = run(text, text.n);
    split = run(text, data[0] % 16 + 1);
    ASSERT(whole.requests == split.requests);
    /* A chunk can be both too large and too long in its framing; which is seen first depends on the pieces. */
    ASSERT(whole.refusal == split.refusal || (is_of_chunk(whole.refusal) && is_of_chunk(split.refusal)));
    ASSERT(whole.is_inside == split.is_inside);
    ASSERT(whole.hash == split.hash);
    return 0;
}
