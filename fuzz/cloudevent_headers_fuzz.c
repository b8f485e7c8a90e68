/* cloudevent_headers_fuzz: whatever the headers of a message say (a line each, `name: value`; what follows an empty line is the body), an
 * event that is read of them is the same when it is written, encoded, and read again; and is never more than its headers. */
#include <stdint.h>

#include "base/check.h"
#include "base/utf8.h"
#include "proto/cloudevents/cloudevent_http.h"

enum { HEADERS_MAX = 80 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_round_trip(struct arena *a, const struct cloudevent *event)
{
    const struct http_header *written;
    struct http_header headers[CLOUDEVENT_ATTRIBUTES_MAX + 1];
    size_t n = cloudevent_http_headers(a, MEM_TEST, event, NULL, CLOUDEVENT_ENCODING_PERCENT, &written);
    struct str content_type = cloudevent_content_type(event);
    struct cloudevent again;
    struct buf lines = {0};

    ASSERT(n <= event->n_attributes && n <= CLOUDEVENT_ATTRIBUTES_MAX);
    for (size_t i = 0; i < n; i++) {
        headers[i] = written[i];
        for (size_t j = 0; j < written[i].value.n; j++)
            ASSERT(written[i].value.p[j] > ' ' && written[i].value.p[j] <= '~' && written[i].value.p[j] != '"');
    }
    ASSERT(cloudevent_http_write(&lines, MEM_TEST, event, NULL, CLOUDEVENT_ENCODING_NONE) == E_OK);
    buf_free(&lines, MEM_TEST);
    if (content_type.n)
        headers[n++] = (struct http_header){STR("content-type"), content_type};
    ASSERT(cloudevent_http_read(a, MEM_TEST, headers, n, event->data, &again, NULL) == E_OK);
    for (size_t i = 0; i < event->n_attributes; i++) {
        struct str value;

        ASSERT(cloudevent_find(&again, event->attributes[i].name, &value) && str_equal(value, event->attributes[i].value));
    }
    ASSERT(again.n_attributes == event->n_attributes && str_equal(again.data, event->data));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = {(const char *)data, size};
    struct http_header headers[HEADERS_MAX];
    struct cloudevent event;
    struct arena a = {0};
    struct errinfo ei = {0};
    bool more = true, has_colon;
    size_t n = 0;

    while (more && n < HEADERS_MAX) {
        struct str value = str_take(&rest, '\n', &more);

        if (!value.n)
            break;
        headers[n].name = str_take(&value, ':', &has_colon);
        headers[n++].value = value.n && value.p[0] == ' ' ? str_from_offset(value, 1) : value;
    }
    if (cloudevent_http_read(&a, MEM_TEST, headers, n, rest, &event, &ei) != E_OK)
        ASSERT(ei.code == E_INVAL && ei.text[0]);
    else if (event.data_kind == CLOUDEVENT_BYTES || event.data_kind == CLOUDEVENT_NO_DATA)
        check_round_trip(&a, &event);
    arena_free(&a, MEM_TEST);
    return 0;
}
