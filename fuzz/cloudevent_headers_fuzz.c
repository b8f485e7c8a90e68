/* cloudevent_headers_fuzz: whatever the headers of a message say (a line each, `name: value`; what follows an empty line is the body), an
 * event that is read of them is the same when it is written, encoded, and read again; and is never more than its headers. */
#include <stdint.h>

#include "base/check.h"
#include "base/utf8.h"
#include "proto/cloudevents/cloudevent_http.h"

enum { HEADERS_MAX = 80 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A line each, up to an empty one. Returns how many; what follows is left in `*rest`. */
static size_t split(struct str *rest, struct http_header headers[HEADERS_MAX])
{
    bool more = true, has_colon;
    size_t n = 0;

    while (more && n < HEADERS_MAX) {
        struct str value = str_take(rest, '\n', &more);

        if (!value.n)
            break;
        headers[n].name = str_take(&value, ':', &has_colon);
        headers[n++].value = value.n && value.p[0] == ' ' ? str_from_offset(value, 1) : value;
    }
    return n;
}

static void check_round_trip(struct arena *a, const struct cloudevent *event)
{
    struct http_header headers[HEADERS_MAX];
    struct str content_type = cloudevent_content_type(event), rest;
    struct buf lines = {0};
    struct cloudevent again;
    size_t n;

    ASSERT(cloudevent_http_write(&lines, MEM_TEST, event, NULL, CLOUDEVENT_ENCODING_NONE) == E_OK);
    buf_free(&lines, MEM_TEST);
    ASSERT(cloudevent_http_write(&lines, MEM_TEST, event, NULL, CLOUDEVENT_ENCODING_PERCENT) == E_OK);
    rest = buf_str(&lines);
    n = split(&rest, headers);
    ASSERT(rest.n == 0 && n <= event->n_attributes);
    for (size_t i = 0; i < n; i++) {
        struct str *value = &headers[i].value;

        ASSERT(value->n && value->p[value->n - 1] == '\r');
        value->n--;
        for (size_t j = 0; j < value->n; j++)
            ASSERT(value->p[j] > ' ' && value->p[j] <= '~' && value->p[j] != '"');
    }
    if (content_type.n)
        headers[n++] = (struct http_header){STR("content-type"), content_type};
    ASSERT(cloudevent_http_read(a, MEM_TEST, headers, n, event->data, &again, NULL) == E_OK);
    for (size_t i = 0; i < event->n_attributes; i++) {
        struct str value;

        ASSERT(cloudevent_find(&again, event->attributes[i].name, &value) && str_equal(value, event->attributes[i].value));
    }
    ASSERT(again.n_attributes == event->n_attributes && str_equal(again.data, event->data));
    buf_free(&lines, MEM_TEST);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = {(const char *)data, size};
    struct http_header headers[HEADERS_MAX];
    struct cloudevent event;
    struct arena a = {0};
    struct errinfo ei = {0};
    size_t n = split(&rest, headers);

    if (cloudevent_http_read(&a, MEM_TEST, headers, n, rest, &event, &ei) != E_OK)
        ASSERT(ei.code == E_INVAL && ei.text[0]);
    else if (event.data_kind == CLOUDEVENT_BYTES || event.data_kind == CLOUDEVENT_NO_DATA)
        check_round_trip(&a, &event);
    arena_free(&a, MEM_TEST);
    return 0;
}
