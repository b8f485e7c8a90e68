/* The records of internal command topics: whatever headers a record has, it is read or refused, and a request that was read is the same
 * when it is written and read again. The input: key, value, then names and values of headers, each with a byte of length before. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "command/command_envelope.h"

enum { HEADERS_MAX = 64 };

/* A piece of exactly its length: reading past it is seen. */
static struct str take(const uint8_t **data, size_t *size)
{
    size_t n = *size ? **data : 0;
    struct str piece;

    if (*size == 0)
        return (struct str){0};
    n = n < *size - 1 ? n : *size - 1;
    piece = (struct str){malloc(n ? n : 1), n};
    memcpy((char *)(uintptr_t)piece.p, *data + 1, n);
    *data += n + 1;
    *size -= n + 1;
    return piece;
}

static void write_again(const struct command_request *r)
{
    struct record_header room[HEADERS_MAX + COMMAND_ENVELOPE_HEADERS], again_room[HEADERS_MAX + COMMAND_ENVELOPE_HEADERS];
    struct command_envelope_text text;
    struct command_envelope again;
    struct record record;

    command_envelope_write_request(r, room, &text, &record);
    ASSERT(command_envelope_read(&record, again_room, &again) == E_OK);
    ASSERT(!again.is_result && again.request.n_headers == r->n_headers);
    ASSERT(again.request.epoch == r->epoch && again.request.after == r->after);
    ASSERT(again.request.timestamp_ms == r->timestamp_ms && again.request.ticket.offset == r->ticket.offset);
    ASSERT(str_equal(again.request.ticket.tenant, r->ticket.tenant) && str_equal(again.request.gateway, r->gateway));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct record_header headers[HEADERS_MAX], room[HEADERS_MAX];
    struct record record = {.headers = headers};
    struct command_envelope envelope;

    record.key = take(&data, &size);
    record.value = take(&data, &size);
    while (size && record.n_headers < HEADERS_MAX) {
        headers[record.n_headers].name = take(&data, &size);
        headers[record.n_headers++].value = take(&data, &size);
    }
    (void)command_envelope_tenant(headers, record.n_headers);
    if (command_envelope_read(&record, room, &envelope) == E_OK && !envelope.is_result && envelope.request.from.instance.n)
        write_again(&envelope.request);
    for (size_t i = 0; i < record.n_headers; i++) {
        free((char *)(uintptr_t)headers[i].name.p);
        free((char *)(uintptr_t)headers[i].value.p);
    }
    free((char *)(uintptr_t)record.key.p);
    free((char *)(uintptr_t)record.value.p);
    return 0;
}
