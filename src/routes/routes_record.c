#include "routes/routes_record.h"

#include <string.h>

#include "base/check.h"

enum { FIELDS_MAX = 8, NUMBER_BYTES = 8, LENGTH_BYTES = 2, INCARNATION_AT = 2 };

enum field_type { FIELD_NONE, FIELD_NUMBER, FIELD_TEXT, FIELD_REST };

struct field {
    enum field_type type;
    size_t at; /* in struct routes_record */
};

struct format {
    enum routes_kind kind;
    struct field fields[FIELDS_MAX];
};

#define NUMBER(name)                                                                                                           \
    {                                                                                                                          \
        FIELD_NUMBER, offsetof(struct routes_record, name)                                                                     \
    }
#define TEXT(name)                                                                                                             \
    {                                                                                                                          \
        FIELD_TEXT, offsetof(struct routes_record, name)                                                                       \
    }
#define REST(name)                                                                                                             \
    {                                                                                                                          \
        FIELD_REST, offsetof(struct routes_record, name)                                                                       \
    }

static const struct format keys[] = {
    {ROUTES_INSTANCE, {REST(instance)}},
    {ROUTES_ROUTE, {TEXT(tenant), REST(device)}},
    {ROUTES_GATEWAY, {TEXT(tenant), REST(device)}},
    {ROUTES_DONE, {NUMBER(partition), REST(topic)}},
    {ROUTES_WAITING, {TEXT(tenant), TEXT(device), NUMBER(number)}},
    {ROUTES_WAITING_ID, {TEXT(tenant), TEXT(device), REST(id)}},
    {ROUTES_DEVICE_COUNT, {TEXT(tenant), REST(device)}},
    {ROUTES_TENANT_COUNT, {REST(tenant)}},
    {ROUTES_REPORT, {TEXT(instance), REST(id)}},
};

/* The incarnation stands at the same place in all requests that have one. */
static const struct format records[] = {
    {ROUTES_INSTANCE, {NUMBER(incarnation), NUMBER(number), NUMBER(seen), NUMBER(lease_ms), NUMBER(roles), TEXT(address)}},
    {ROUTES_ROUTE, {NUMBER(incarnation), NUMBER(epoch), NUMBER(flags), TEXT(instance), TEXT(gateway)}},
    {ROUTES_GATEWAY, {NUMBER(at_ms), TEXT(gateway)}},
    {ROUTES_DONE, {REST(rest)}},
    {ROUTES_WAITING, {TEXT(id), REST(rest)}},
    {ROUTES_WAITING_ID, {NUMBER(number)}},
    {ROUTES_DEVICE_COUNT, {NUMBER(count)}},
    {ROUTES_TENANT_COUNT, {NUMBER(count), NUMBER(number)}},
    {ROUTES_REPORT, {NUMBER(incarnation), REST(rest)}},
    {ROUTES_LEASE,
     {NUMBER(incarnation), TEXT(instance), NUMBER(number), NUMBER(seen), NUMBER(lease_ms), NUMBER(roles), TEXT(address)}},
    {ROUTES_PUBLISH, {NUMBER(incarnation), TEXT(instance), NUMBER(number), NUMBER(seen), REST(rest)}},
    {ROUTES_FENCE, {NUMBER(incarnation), TEXT(instance), NUMBER(number)}},
    {ROUTES_LEAVE, {NUMBER(incarnation), TEXT(instance)}},
    {ROUTES_REGISTER,
     {NUMBER(incarnation), TEXT(instance), NUMBER(epoch), NUMBER(flags), TEXT(tenant), TEXT(device), TEXT(gateway)}},
    {ROUTES_REMOVE, {NUMBER(incarnation), TEXT(instance), NUMBER(flags), REST(rest)}},
    {ROUTES_NOTE, {NUMBER(at_ms), REST(rest)}},
    {ROUTES_CLEAN, {NUMBER(at_ms), REST(rest)}},
    {ROUTES_KEEP, {NUMBER(max_of_device), NUMBER(max_of_tenant), TEXT(tenant), TEXT(device), TEXT(id), REST(rest)}},
    {ROUTES_FORGET, {NUMBER(number), TEXT(tenant), TEXT(device)}},
    {ROUTES_TELL, {NUMBER(incarnation), TEXT(instance), REST(rest)}},
    {ROUTES_BEGIN, {NUMBER(partition), NUMBER(from), TEXT(topic)}},
    {ROUTES_ANSWER, {NUMBER(number), REST(rest)}},
};

static const struct format items[] = {
    {ROUTES_PUBLISH, {NUMBER(partition), NUMBER(from), NUMBER(to), TEXT(topic)}},
    {ROUTES_REMOVE, {NUMBER(epoch), TEXT(tenant), TEXT(device)}},
    {ROUTES_NOTE, {TEXT(tenant), TEXT(device), TEXT(gateway)}},
    {ROUTES_CLEAN, {TEXT(tenant), TEXT(device)}},
    {ROUTES_TELL, {TEXT(id), TEXT(gateway)}}, /* the second is what it says */
};

static const struct format *find(const struct format *formats, size_t n, enum routes_kind kind)
{
    for (size_t i = 0; i < n; i++)
        if (formats[i].kind == kind)
            return &formats[i];
    return NULL;
}

/* --- single fields --- */

static void put_bytes(struct buf *out, struct str bytes)
{
    ASSERT(buf_append(out, MEM_ROUTES, bytes) == E_OK); /* sizes are bounded by the table's */
}

void routes_record_put_number(struct buf *out, uint64_t value, unsigned n_bytes)
{
    char bytes[NUMBER_BYTES];

    for (unsigned i = 0; i < n_bytes; i++)
        bytes[i] = (char)(value >> 8 * (n_bytes - 1 - i));
    put_bytes(out, (struct str){bytes, n_bytes});
}

static struct str take_bytes(struct routes_in *in, size_t n)
{
    struct str bytes = {in->rest.p, n};

    if (in->has_failed || in->rest.n < n) {
        in->has_failed = true;
        return (struct str){0};
    }
    in->rest = (struct str){in->rest.p + n, in->rest.n - n};
    return bytes;
}

uint64_t routes_record_take_number(struct routes_in *in, unsigned n_bytes)
{
    struct str bytes = take_bytes(in, n_bytes);
    uint64_t value = 0;

    for (size_t i = 0; i < bytes.n; i++)
        value = value << 8 | (uint8_t)bytes.p[i];
    return value;
}

static void put_field(struct buf *out, const struct field *field, const struct routes_record *record)
{
    const char *at = (const char *)record + field->at;
    struct str text;
    uint64_t number;

    if (field->type == FIELD_NUMBER) {
        memcpy(&number, at, sizeof number);
        routes_record_put_number(out, number, NUMBER_BYTES);
        return;
    }
    memcpy(&text, at, sizeof text);
    if (field->type == FIELD_TEXT) {
        ASSERT(text.n <= UINT16_MAX);
        routes_record_put_number(out, text.n, LENGTH_BYTES);
    }
    put_bytes(out, text);
}

static void take_field(struct routes_in *in, const struct field *field, struct routes_record *record)
{
    char *at = (char *)record + field->at;
    struct str text;
    uint64_t number;

    if (field->type == FIELD_NUMBER) {
        number = routes_record_take_number(in, NUMBER_BYTES);
        memcpy(at, &number, sizeof number);
        return;
    }
    text = take_bytes(in, field->type == FIELD_REST ? in->rest.n : routes_record_take_number(in, LENGTH_BYTES));
    memcpy(at, &text, sizeof text);
}

static void put_fields(struct buf *out, const struct format *format, unsigned n, const struct routes_record *record)
{
    for (unsigned i = 0; i < n && format->fields[i].type != FIELD_NONE; i++)
        put_field(out, &format->fields[i], record);
}

static void take_fields(struct routes_in *in, const struct format *format, struct routes_record *record)
{
    for (unsigned i = 0; i < FIELDS_MAX && format->fields[i].type != FIELD_NONE; i++)
        take_field(in, &format->fields[i], record);
}

/* --- whole ones --- */

void routes_record_write(struct buf *out, const struct routes_record *record)
{
    const struct format *format = find(records, ARRAY_LEN(records), record->kind);

    ASSERT(format);
    routes_record_put_number(out, ROUTES_RECORD_VERSION, 1);
    routes_record_put_number(out, (uint64_t)record->kind, 1);
    put_fields(out, format, FIELDS_MAX, record);
}

err routes_record_read(struct str bytes, struct routes_record *out)
{
    struct routes_in in = {.rest = bytes};
    uint64_t version = routes_record_take_number(&in, 1);
    const struct format *format;

    *out = (struct routes_record){.kind = (enum routes_kind)routes_record_take_number(&in, 1)};
    if (in.has_failed || version == 0)
        return E_INVAL;
    format = find(records, ARRAY_LEN(records), out->kind);
    if (version > ROUTES_RECORD_VERSION || !format)
        return E_AGAIN;
    take_fields(&in, format, out);
    return in.has_failed || in.rest.n ? E_INVAL : E_OK;
}

bool routes_record_write_prefix(struct routes_key *out, enum routes_kind kind, unsigned n_fields,
                                const struct routes_record *record)
{
    const struct format *format = find(keys, ARRAY_LEN(keys), kind);
    struct buf key = {0};
    bool fits;

    ASSERT(format);
    routes_record_put_number(&key, (uint64_t)kind, 1);
    put_fields(&key, format, n_fields, record);
    ASSERT(key.p);
    fits = buf_size(&key) <= sizeof out->p;
    out->n = fits ? buf_size(&key) : 0;
    memcpy(out->p, key.p + key.head, out->n);
    buf_free(&key, MEM_ROUTES);
    return fits;
}

bool routes_record_write_key(struct routes_key *out, enum routes_kind kind, const struct routes_record *record)
{
    return routes_record_write_prefix(out, kind, FIELDS_MAX, record);
}

bool routes_record_read_key(struct str key, struct routes_record *out)
{
    struct routes_in in = {.rest = key};
    const struct format *format;

    *out = (struct routes_record){.kind = (enum routes_kind)routes_record_take_number(&in, 1)};
    format = in.has_failed ? NULL : find(keys, ARRAY_LEN(keys), out->kind);
    if (!format)
        return false;
    take_fields(&in, format, out);
    return !in.has_failed && in.rest.n == 0;
}

void routes_record_add_item(struct buf *list, enum routes_kind kind, const struct routes_record *record)
{
    const struct format *format = find(items, ARRAY_LEN(items), kind);

    ASSERT(format);
    put_fields(list, format, FIELDS_MAX, record);
}

bool routes_record_take_item(struct str *list, enum routes_kind kind, struct routes_record *out, bool *has_failed)
{
    const struct format *format = find(items, ARRAY_LEN(items), kind);
    struct routes_in in = {.rest = *list};

    ASSERT(format);
    *out = (struct routes_record){.kind = kind};
    if (list->n == 0)
        return false;
    take_fields(&in, format, out);
    *list = in.rest;
    *has_failed |= in.has_failed;
    return !in.has_failed;
}

void routes_record_set_incarnation(struct buf *request, uint64_t incarnation)
{
    ASSERT(buf_size(request) >= INCARNATION_AT + NUMBER_BYTES);
    for (unsigned i = 0; i < NUMBER_BYTES; i++)
        request->p[request->head + INCARNATION_AT + i] = (char)(incarnation >> 8 * (NUMBER_BYTES - 1 - i));
}
