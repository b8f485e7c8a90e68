/* http1_response_fuzz: whatever the bytes of a server are and however they are split, the parser of responses tells the same,
 * keeps to its limits and never touches a byte that is not its own. The first byte chooses the size of the pieces and whether
 * HEAD is answered. */
#include <stdint.h>

#include "base/check.h"
#include "base/siphash.h"
#include "proto/http1/http1_response.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct http1_limits limits = {
    .max_line_bytes = 128, .max_head_bytes = 512, .max_headers = 8, .max_body_bytes = 256};

static const struct siphash_key key = {1, 2};

struct result {
    uint64_t hash, body_hash, body_bytes;
    unsigned responses;
    enum http1_refusal refusal;
    bool ends_with_connection;
};

static void mix(struct result *to, struct str s)
{
    to->hash = to->hash * 31 + siphash_with(key, s);
}

static void mix_head(struct result *to, const struct http1_response_head *r)
{
    ASSERT(r->status >= 200 && r->status <= 999);
    ASSERT(r->n_headers <= limits.max_headers);
    ASSERT(!(r->is_chunked && r->has_content_length) && !(r->is_kept_alive && r->is_until_close));
    for (size_t i = 0; i < r->n_headers; i++) {
        ASSERT(r->headers[i].name.n > 0);
        mix(to, r->headers[i].name);
        mix(to, r->headers[i].value);
    }
    to->hash = to->hash * 31 + r->status * 8u + r->is_chunked * 4u + r->is_kept_alive * 2u + r->is_until_close;
    to->body_bytes = 0;
}

static struct result run(struct str text, size_t piece, enum http_method method)
{
    struct http1_response p;
    struct http1_head head = {0};
    struct http1_response_head r = {0};
    struct result result = {0};
    enum http1_step step = HTTP1_MORE;

    http1_response_init(&p, &limits);
    http1_response_expect(&p, method);
    while (text.n > 0 && step != HTTP1_BAD) {
        struct str in = {text.p, text.n < piece ? text.n : piece}, body = {0};

        text = str_from_offset(text, in.n);
        do {
            step = http1_response_next(&p, &head, &r, &in, &body);
            if (step == HTTP1_HEAD) {
                mix_head(&result, &r);
            } else if (step == HTTP1_BODY) {
                result.body_bytes += body.n;
                ASSERT(body.n > 0 && result.body_bytes <= limits.max_body_bytes);
                for (size_t i = 0; i < body.n; i++)
                    result.body_hash = result.body_hash * 131 + (uint8_t)body.p[i];
            } else if (step == HTTP1_END) {
                result.responses++;
                http1_head_clear(&head);
                http1_response_expect(&p, method);
            }
        } while (step != HTTP1_MORE && step != HTTP1_BAD);
        ASSERT(step == HTTP1_BAD || in.n == 0);
    }
    result.refusal = p.parser.refusal;
    result.ends_with_connection = http1_response_ends_with_connection(&p);
    http1_head_free(&head);
    return result;
}

static bool is_of_chunk(enum http1_refusal refusal)
{
    return refusal == HTTP1_REFUSED_CHUNK || refusal == HTTP1_REFUSED_BODY_TOO_LARGE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data + 1, size ? size - 1 : 0};
    enum http_method method = size && data[0] & 0x80 ? HTTP_METHOD_HEAD : HTTP_METHOD_POST;
    struct result whole, split;

    if (size < 2)
        return 0;
    whole = run(text, text.n, method);
    split = run(text, 1 + (data[0] & 0x7fu), method);
    ASSERT(whole.responses == split.responses);
    /* A chunk can be both too large and too long in its framing; which is seen first depends on the pieces. */
    ASSERT(whole.refusal == split.refusal || (is_of_chunk(whole.refusal) && is_of_chunk(split.refusal)));
    if (!whole.refusal) /* a refused body may have been handed out up to different bytes */
        ASSERT(whole.hash == split.hash && whole.body_hash == split.body_hash &&
               whole.ends_with_connection == split.ends_with_connection);
    return 0;
}
