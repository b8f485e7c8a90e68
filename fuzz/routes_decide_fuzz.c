/* Requests to the owner of the table of routes, each behind its length in two bytes, as they come out of Kafka. Whatever they are, they end with a reply; every
 * state can be read, written again to the same bytes, and what counts waiting commands counts those that wait. */
#include "routes/routes_decide.h"

#include <stdint.h>

#include "registry/table_fixture_test.h"

#include "routes/routes_done.h"
#include "routes/routes_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_done(struct str bytes)
{
    struct routes_done done;
    struct buf again = {0};

    ASSERT(routes_done_read(bytes, &done) == E_OK);
    routes_done_write(&done, &again);
    ASSERT(str_equal(buf_str(&again), bytes));
    buf_free(&again, MEM_ROUTES);
    routes_done_free(&done);
}

/* How many states of a kind there are with the tenant, and with the device if it is given. */
static uint64_t count(struct table *t, enum routes_kind kind, struct str tenant, const struct str *device)
{
    uint64_t n = 0;

    for (size_t i = 0; i < t->count; i++) {
        struct routes_record key;

        ASSERT(routes_record_read_key(t->entries[i].key, &key));
        n += key.kind == kind && str_equal(key.tenant, tenant) && (!device || str_equal(key.device, *device));
    }
    return n;
}

static void check_state(struct table *t, struct str key_bytes, struct str value_bytes)
{
    struct routes_record key, value;
    struct buf again = {0};

    ASSERT(routes_record_read_key(key_bytes, &key) && routes_record_read(value_bytes, &value) == E_OK &&
           value.kind == key.kind);
    routes_record_write(&again, &value);
    ASSERT(str_equal(buf_str(&again), value_bytes));
    buf_free(&again, MEM_ROUTES);
    if (key.kind == ROUTES_DONE)
        check_done(value.rest);
    if (key.kind == ROUTES_DEVICE_COUNT)
        ASSERT(value.count == count(t, ROUTES_WAITING, key.tenant, &key.device));
    if (key.kind == ROUTES_TENANT_COUNT)
        ASSERT(value.count == count(t, ROUTES_WAITING, key.tenant, NULL) &&
               value.count == count(t, ROUTES_WAITING_ID, key.tenant, NULL) && value.number >= value.count);
}

static struct str take_request(struct str *rest)
{
    struct routes_in in = {.rest = *rest};
    uint64_t n = routes_record_take_number(&in, 2);
    struct str request = {in.rest.p, n < in.rest.n ? n : in.rest.n};

    *rest = str_from_offset(in.rest, request.n);
    return request;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct table_ops ops = {.decide = routes_decide};
    static struct table t = {.ops = &ops};
    struct str rest = {(const char *)data, size};

    while (rest.n > 2) {
        struct str request = take_request(&rest);
        struct routes_record reply;
        struct buf answer = {0};
        enum table_verdict verdict = table_fixture_decide(&t, request, &answer);

        ASSERT(routes_record_read(buf_str(&answer), &reply) == E_OK && reply.kind == ROUTES_ANSWER);
        ASSERT((verdict == TABLE_REFUSED) == (reply.number != ROUTES_FINE));
        buf_free(&answer, MEM_TABLE);
        for (size_t i = 0; i < t.count; i++)
            check_state(&t, t.entries[i].key, t.entries[i].value);
    }
    table_fixture_free(&t);
    return 0;
}
