#include "command/command_envelope.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "command/command_port.h"

enum { TENANT_BYTES = 255, STATUS_MAX = 999 };

/* The headers that are ours. Those with a prefix of Millrace's are in nobody else's records. */
enum header {
    HEADER_TENANT,
    HEADER_VIA,
    HEADER_PARTITION,
    HEADER_OFFSET,
    HEADER_FROM,
    HEADER_FROM_INCARNATION,
    HEADER_TO_INCARNATION,
    HEADER_EPOCH,
    HEADER_AFTER,
    HEADER_TIMESTAMP,
    HEADER_RESULT,
    HEADER_STATUS,
    HEADERS,
};

static const struct str names[HEADERS] = {
    [HEADER_TENANT] = STR_INIT("tenant_id"),
    [HEADER_VIA] = STR_INIT("via"),
    [HEADER_PARTITION] = STR_INIT("orig-partition"),
    [HEADER_OFFSET] = STR_INIT("orig-offset"),
    [HEADER_FROM] = STR_INIT("millrace-from"),
    [HEADER_FROM_INCARNATION] = STR_INIT("millrace-from-incarnation"),
    [HEADER_TO_INCARNATION] = STR_INIT("millrace-to-incarnation"),
    [HEADER_EPOCH] = STR_INIT("millrace-epoch"),
    [HEADER_AFTER] = STR_INIT("millrace-after"),
    [HEADER_TIMESTAMP] = STR_INIT("millrace-timestamp"),
    [HEADER_RESULT] = STR_INIT("millrace-result"),
    [HEADER_STATUS] = STR_INIT("millrace-status"),
};

/* Which of ours a name is; HEADERS: none. */
static enum header header_of(struct str name)
{
    unsigned i = 0;

    while (i < HEADERS && !str_equal(name, names[i]))
        i++;
    return (enum header)i;
}

/* --- writing --- */

struct writer {
    struct record_header *headers;
    size_t n;
    struct command_envelope_text *text;
};

static void put(struct writer *w, enum header which, struct str value)
{
    w->headers[w->n++] = (struct record_header){names[which], value};
}

static struct str text_of(struct writer *w, int n)
{
    struct str text = {w->text->bytes + w->text->n, (size_t)n};

    ASSERT(n > 0 && w->text->n + (size_t)n < COMMAND_ENVELOPE_TEXT_BYTES);
    w->text->n += (size_t)n;
    return text;
}

static void put_u64(struct writer *w, enum header which, uint64_t value)
{
    put(w, which,
        text_of(w, snprintf(w->text->bytes + w->text->n, COMMAND_ENVELOPE_TEXT_BYTES - w->text->n, "%" PRIu64, value)));
}

static void put_i64(struct writer *w, enum header which, int64_t value)
{
    put(w, which,
        text_of(w, snprintf(w->text->bytes + w->text->n, COMMAND_ENVELOPE_TEXT_BYTES - w->text->n, "%" PRId64, value)));
}

static void put_route(struct writer *w, const struct command_ticket *ticket, const struct command_peer *from,
                      const struct command_peer *to)
{
    put(w, HEADER_TENANT, ticket->tenant);
    put_i64(w, HEADER_PARTITION, ticket->partition);
    put_i64(w, HEADER_OFFSET, ticket->offset);
    put(w, HEADER_FROM, from->instance);
    put_u64(w, HEADER_FROM_INCARNATION, from->incarnation);
    put_u64(w, HEADER_TO_INCARNATION, to->incarnation);
}

/* One partition, and so one order. */
static struct record record_of(const struct writer *w, struct str key, struct str value)
{
    return (struct record){
        .key = key, .value = value, .headers = w->headers, .n_headers = w->n, .has_partition = true, .partition = 0};
}

void command_envelope_write_request(const struct command_request *request, struct record_header *room,
                                    struct command_envelope_text *text, struct record *out_record)
{
    struct writer w = {room, 0, text};

    text->n = 0;
    for (size_t i = 0; i < request->n_headers; i++)
        if (header_of(request->headers[i].name) == HEADERS)
            w.headers[w.n++] = request->headers[i];
    put_route(&w, &request->ticket, &request->from, &request->to);
    if (request->gateway.n)
        put(&w, HEADER_VIA, request->gateway);
    put_u64(&w, HEADER_EPOCH, request->epoch);
    put_u64(&w, HEADER_AFTER, request->after);
    put_i64(&w, HEADER_TIMESTAMP, request->timestamp_ms);
    *out_record = record_of(&w, request->key, request->value);
}

void command_envelope_write_result(const struct command_result_message *result, struct record_header *room,
                                   struct command_envelope_text *text, struct record *out_record)
{
    struct writer w = {room, 0, text};

    text->n = 0;
    put_route(&w, &result->ticket, &result->from, &result->to);
    put_i64(&w, HEADER_RESULT, result->result);
    put_i64(&w, HEADER_STATUS, result->status);
    *out_record = record_of(&w, (struct str){0}, result->text.n ? result->text : (struct str){0});
}

/* --- reading --- */

/* What ours say; `p` NULL: there is none. */
struct reader {
    struct str values[HEADERS];
    bool is_bad;
};

static uint64_t take_u64(struct reader *r, enum header which, uint64_t max)
{
    uint64_t value = 0;

    if (!str_to_u64(r->values[which], max, &value))
        r->is_bad = true;
    return value;
}

/* A negative one means that it is not known. */
static int64_t take_timestamp(struct reader *r)
{
    if (str_starts_with(r->values[HEADER_TIMESTAMP], STR("-")))
        return -1;
    return (int64_t)take_u64(r, HEADER_TIMESTAMP, INT64_MAX);
}

static struct str take_text(struct reader *r, enum header which, size_t max)
{
    struct str text = r->values[which];

    if (text.n == 0 || text.n > max)
        r->is_bad = true;
    return text;
}

static struct command_ticket take_ticket(struct reader *r)
{
    return (struct command_ticket){
        .tenant = take_text(r, HEADER_TENANT, TENANT_BYTES),
        .partition = (int32_t)take_u64(r, HEADER_PARTITION, INT32_MAX),
        .offset = (int64_t)take_u64(r, HEADER_OFFSET, INT64_MAX),
    };
}

static struct command_peer take_from(struct reader *r)
{
    return (struct command_peer){take_text(r, HEADER_FROM, COMMAND_ENVELOPE_INSTANCE_BYTES),
                                 take_u64(r, HEADER_FROM_INCARNATION, UINT64_MAX)};
}

static void read_result(struct reader *r, const struct record *record, struct command_result_message *out)
{
    *out = (struct command_result_message){
        .ticket = take_ticket(r),
        .from = take_from(r),
        .to.incarnation = take_u64(r, HEADER_TO_INCARNATION, UINT64_MAX),
        .result = (int)take_u64(r, HEADER_RESULT, COMMAND_FAILED),
        .status = (int)take_u64(r, HEADER_STATUS, STATUS_MAX),
        .text = record->value,
    };
}

static void read_request(struct reader *r, const struct record *record, struct command_request *out)
{
    *out = (struct command_request){
        .ticket = take_ticket(r),
        .gateway = r->values[HEADER_VIA],
        .timestamp_ms = -1,
        .key = record->key,
        .value = record->value,
    };
    if (!r->values[HEADER_FROM].p)
        return;
    out->from = take_from(r);
    out->to.incarnation = take_u64(r, HEADER_TO_INCARNATION, UINT64_MAX);
    out->epoch = take_u64(r, HEADER_EPOCH, UINT64_MAX);
    out->after = take_u64(r, HEADER_AFTER, UINT64_MAX);
    out->timestamp_ms = take_timestamp(r);
}

err command_envelope_read(const struct record *record, struct record_header *room, struct command_envelope *out_envelope)
{
    struct command_envelope *envelope = out_envelope;
    struct reader r = {0};
    size_t n = 0;

    for (size_t i = 0; i < record->n_headers; i++) {
        enum header which = header_of(record->headers[i].name);

        if (which == HEADERS)
            room[n++] = record->headers[i];
        else
            r.values[which] = record->headers[i].value.p ? record->headers[i].value : STR("");
    }
    envelope->is_result = r.values[HEADER_RESULT].p != NULL;
    if (envelope->is_result) {
        read_result(&r, record, &envelope->result);
    } else {
        read_request(&r, record, &envelope->request);
        envelope->request.headers = room;
        envelope->request.n_headers = n;
    }
    return r.is_bad ? E_PROTO : E_OK;
}

struct str command_envelope_tenant(const struct record_header *headers, size_t n_headers)
{
    while (n_headers-- > 0)
        if (str_equal(headers[n_headers].name, names[HEADER_TENANT]))
            return headers[n_headers].value;
    return (struct str){0};
}
