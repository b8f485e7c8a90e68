/* http_intake_fuzz: whatever a request to the HTTP adapter says, what is read of it lies inside the request or the scratch area, and a
 * batch falls into items that lie in the body, in order, each either sound or told to be faulty. */
#include <stdint.h>

#include "adapter/http/http_batch.h"
#include "base/check.h"
#include "base/utf8.h"
#include "proto/http1/http1_parser.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct http1_limits limits = {
    .max_line_bytes = 512, .max_head_bytes = 1024, .max_headers = 16, .max_body_bytes = 4096};

static void check_batch(const struct http_intake *in, struct str body)
{
    const char *at = body.p, *end = body.p + body.n;
    char device[HTTP_BATCH_DEVICE_BYTES];
    struct http_batch batch;
    struct str item, named;
    struct errinfo ei;
    err e = http_batch_begin(&batch, in->form, body);

    while (e == E_OK && (e = http_batch_next(&batch, &item)) == E_OK) {
        ASSERT(in->form == HTTP_INTAKE_SINGLE || (item.n && item.p >= at && item.p + item.n <= end));
        at = item.p + item.n;
        if (http_batch_check(in->form, item, &ei) != E_OK) {
            ASSERT(ei.text[0]);
            continue;
        }
        if (in->form != HTTP_INTAKE_SINGLE && http_batch_device(item, in->pointer, device, &named))
            ASSERT(named.n <= HTTP_BATCH_DEVICE_BYTES && utf8_is_plain(named));
    }
    ASSERT(e == E_CLOSED || e == E_LIMIT || (e == E_INVAL && in->form == HTTP_INTAKE_CLOUDEVENTS));
}

/* Those that a route of the adapter leads to. */
static bool is_routed(const struct http_request *r)
{
    if (r->method == HTTP_METHOD_POST)
        return str_equal(r->path, STR("/telemetry")) || str_equal(r->path, STR("/event"));
    return r->method == HTTP_METHOD_PUT &&
           (str_starts_with(r->path, STR("/telemetry/")) || str_starts_with(r->path, STR("/event/")));
}

static void check_request(const struct http_request *r)
{
    struct http_intake in;
    const char *text = NULL;
    uint16_t status;

    if (!is_routed(r))
        return;
    status = http_intake_read(r, &in, &text);
    ASSERT(status == 0 || ((status == 400 || status == 404) && text));
    if (status)
        return;
    ASSERT(in.used <= sizeof in.scratch && in.qos <= 1);
    ASSERT(in.endpoint == DEVICE_ENDPOINT_TELEMETRY || in.qos == 1);
    ASSERT((r->method == HTTP_METHOD_PUT) == (in.device.n > 0));
    ASSERT(utf8_is_plain(in.tenant) && utf8_is_plain(in.device) && utf8_is_plain(in.content_type));
    ASSERT(in.address.n > 0 && in.address.p[0] == '/');
    check_batch(&in, r->body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct http1_parser p;
    struct http1_head head = {0};
    struct http_request r = {0};
    struct buf whole = {0};
    struct str text = {(const char *)data, size}, body;
    enum http1_step step;

    http1_parser_init(&p, &limits);
    do {
        step = http1_parser_next(&p, &head, &r, &text, &body);
        if (step == HTTP1_BODY && buf_append(&whole, MEM_TEST, body) != E_OK)
            break;
        if (step == HTTP1_END) {
            r.body = buf_size(&whole) ? buf_str(&whole) : STR("");
            check_request(&r);
            buf_free(&whole, MEM_TEST);
            http1_head_clear(&head);
        }
    } while (step != HTTP1_MORE && step != HTTP1_BAD);
    buf_free(&whole, MEM_TEST);
    http1_head_free(&head);
    return 0;
}
