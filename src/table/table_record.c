#include "table/table_record.h"

#include <string.h>

#include "table/table_bytes.h"

enum { VERSION = 1, KIND_REQUEST = 'q', KIND_STATE = 's', KIND_MARK = 'm', KIND_REPLY = 'r', FLAG_HAS_STATES = 1 };

/* Takes version and kind, and makes sure that `n` bytes follow. */
static err take_head(struct str *rest, char kind, size_t n)
{
    if (rest->n < 2)
        return E_INVAL;
    if ((uint8_t)rest->p[0] > VERSION)
        return E_AGAIN;
    if (rest->p[0] != VERSION || rest->p[1] != kind || rest->n < 2 + n)
        return E_INVAL;
    *rest = str_from_offset(*rest, 2);
    return E_OK;
}

err table_record_read_request(struct str record, struct table_record_request *out)
{
    const size_t n = TABLE_RECORD_INSTANCE_BYTES + 8;
    err e = take_head(&record, KIND_REQUEST, n);

    if (e == E_AGAIN && record.n >= 2 + n && record.p[1] == KIND_REQUEST)
        record = str_from_offset(record, 2);
    else if (e != E_OK)
        return E_INVAL;
    table_bytes_take(&record, out->instance, sizeof out->instance);
    out->id = table_bytes_take_number(&record, 8);
    out->body = record;
    return e;
}

err table_record_read_state(struct str record, struct str *out_value)
{
    err e = take_head(&record, KIND_STATE, 0);

    if (e == E_OK)
        *out_value = (struct str){record.p ? record.p : "", record.n};
    return e;
}

err table_record_read_mark(struct str record, uint64_t *out_cause)
{
    err e = take_head(&record, KIND_MARK, 8);

    if (e == E_OK)
        *out_cause = table_bytes_take_number(&record, 8);
    return e;
}

err table_record_read_reply(struct str record, struct table_record_reply *out)
{
    err e = take_head(&record, KIND_REPLY, TABLE_RECORD_INSTANCE_BYTES + 26);
    unsigned verdict;

    if (e != E_OK)
        return e;
    table_bytes_take(&record, out->instance, sizeof out->instance);
    out->id = table_bytes_take_number(&record, 8);
    verdict = (unsigned)table_bytes_take_number(&record, 1);
    out->has_states = table_bytes_take_number(&record, 1) & FLAG_HAS_STATES;
    out->cause = table_bytes_take_number(&record, 8);
    out->base_offset = table_bytes_take_number(&record, 8);
    out->body = record;
    if (verdict != TABLE_RECORD_ACCEPTED && verdict != TABLE_RECORD_REFUSED)
        return E_INVAL;
    out->verdict = (enum table_record_verdict)verdict;
    return E_OK;
}

static err write_with(struct buf *out, const struct table_bytes *head, struct str body)
{
    char *p = buf_reserve(out, MEM_TABLE, head->n + body.n);

    if (!p)
        return E_NOMEM;
    memcpy(p, head->p, head->n);
    if (body.n)
        memcpy(p + head->n, body.p, body.n);
    buf_commit(out, head->n + body.n);
    return E_OK;
}

static struct table_bytes begin(char kind)
{
    struct table_bytes head = {.n = 0};

    table_bytes_add_number(&head, VERSION, 1);
    table_bytes_add_number(&head, (uint8_t)kind, 1);
    return head;
}

err table_record_write_request(struct buf *out, const struct table_record_request *request)
{
    struct table_bytes head = begin(KIND_REQUEST);

    table_bytes_add(&head, request->instance, sizeof request->instance);
    table_bytes_add_number(&head, request->id, 8);
    return write_with(out, &head, request->body);
}

err table_record_write_state(struct buf *out, struct str value)
{
    struct table_bytes head = begin(KIND_STATE);

    return write_with(out, &head, value);
}

err table_record_write_mark(struct buf *out, uint64_t cause)
{
    struct table_bytes head = begin(KIND_MARK);

    table_bytes_add_number(&head, cause, 8);
    return write_with(out, &head, (struct str){0});
}

err table_record_write_reply(struct buf *out, const struct table_record_reply *reply)
{
    struct table_bytes head = begin(KIND_REPLY);

    table_bytes_add(&head, reply->instance, sizeof reply->instance);
    table_bytes_add_number(&head, reply->id, 8);
    table_bytes_add_number(&head, reply->verdict, 1);
    table_bytes_add_number(&head, reply->has_states ? FLAG_HAS_STATES : 0, 1);
    table_bytes_add_number(&head, reply->cause, 8);
    table_bytes_add_number(&head, reply->base_offset, 8);
    return write_with(out, &head, reply->body);
}
