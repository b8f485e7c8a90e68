#include "routes/routes_decide.h"

#include <string.h>

#include "base/check.h"
#include "routes/routes_done.h"
#include "routes/routes_record.h"

enum { DROPPED_BYTES = 8 };

/* --- states --- */

/* E_NOTFOUND: there is none. E_INVAL, E_AGAIN: none that we know. */
static err get(struct table_txn *txn, enum routes_kind kind, const struct routes_record *key_fields, struct routes_record *out)
{
    struct routes_key key;
    struct str bytes;

    *out = (struct routes_record){.kind = kind};
    if (!routes_record_write_key(&key, kind, key_fields))
        return E_LIMIT;
    return table_txn_get(txn, routes_key_str(&key), &bytes) ? routes_record_read(bytes, out) : E_NOTFOUND;
}

static enum routes_reason put(struct table_txn *txn, const struct routes_record *key_fields, const struct routes_record *value)
{
    struct routes_key key;
    struct buf bytes = {0};
    err e;

    if (!routes_record_write_key(&key, value->kind, key_fields))
        return ROUTES_FAILED;
    routes_record_write(&bytes, value);
    e = table_txn_put(txn, routes_key_str(&key), buf_str(&bytes));
    buf_free(&bytes, MEM_ROUTES);
    return e == E_OK ? ROUTES_FINE : ROUTES_FAILED;
}

static enum routes_reason remove_state(struct table_txn *txn, enum routes_kind kind, const struct routes_record *key_fields)
{
    struct routes_key key;

    if (!routes_record_write_key(&key, kind, key_fields) || table_txn_remove(txn, routes_key_str(&key)) != E_OK)
        return ROUTES_FAILED;
    return ROUTES_FINE;
}

/* --- leases --- */

/* The lease of this instance, if it is that of the incarnation. */
static bool get_lease(struct table_txn *txn, const struct routes_record *request, struct routes_record *out)
{
    return get(txn, ROUTES_INSTANCE, request, out) == E_OK && out->incarnation == request->incarnation;
}

static bool has_room(struct table_txn *txn)
{
    static const char prefix = ROUTES_INSTANCE;
    struct table_item item = {.offset = 0};
    unsigned n = 0;

    while (n < ROUTES_INSTANCES_MAX && table_txn_next(txn, (struct str){&prefix, 1}, item.key, &item))
        n++;
    return n < ROUTES_INSTANCES_MAX;
}

/* The newer process of a name has it: the one before has ended, or finds out. */
static enum routes_reason lease(struct table_txn *txn, const struct routes_record *request, struct buf *out_rest)
{
    struct routes_record value = *request, before;
    err e = get(txn, ROUTES_INSTANCE, request, &before);

    (void)out_rest;
    if (e == E_NOTFOUND && !has_room(txn))
        return ROUTES_TOO_MANY;
    if (e != E_OK && e != E_NOTFOUND)
        return ROUTES_NOT_UNDERSTOOD;
    if (e == E_OK && before.incarnation == request->incarnation && before.number >= request->number)
        return ROUTES_OUTDATED;
    value.kind = ROUTES_INSTANCE;
    return put(txn, request, &value);
}

static enum routes_reason put_done(struct table_txn *txn, const struct routes_record *key_fields,
                                   const struct routes_done *done)
{
    struct routes_record value = {.kind = ROUTES_DONE};
    struct buf bytes = {0};
    enum routes_reason reason;

    routes_done_write(done, &bytes);
    value.rest = buf_str(&bytes);
    reason = put(txn, key_fields, &value);
    buf_free(&bytes, MEM_ROUTES);
    return reason;
}

static err get_done(struct table_txn *txn, const struct routes_record *key_fields, struct routes_done *out)
{
    struct routes_record value;
    err e = get(txn, ROUTES_DONE, key_fields, &value);

    *out = (struct routes_done){.n = 0};
    return e == E_OK ? routes_done_read(value.rest, out) : e;
}

/* Merges the items that are of one partition, which stand together. */
static enum routes_reason merge_partition(struct table_txn *txn, struct str *items, uint64_t *dropped)
{
    struct routes_record first = {0}, item;
    struct routes_done done = {0};
    bool has_failed = false;
    struct str rest = *items;
    enum routes_reason reason = ROUTES_NOT_UNDERSTOOD;
    err e = E_OK;

    while (e == E_OK && routes_record_take_item(&rest, ROUTES_PUBLISH, &item, &has_failed)) {
        bool is_first = items->n > 0 && !first.kind;

        if (!is_first && (item.partition != first.partition || !str_equal(item.topic, first.topic)))
            break;
        if (is_first) {
            first = item;
            e = get_done(txn, &first, &done);
            e = e == E_NOTFOUND ? E_OK : e;
        }
        if (item.to > INT64_MAX)
            has_failed = true;
        else if (!routes_done_add(&done, item.from, item.to))
            ++*dropped;
        *items = rest;
    }
    if (e == E_OK && !has_failed)
        reason = put_done(txn, &first, &done);
    routes_done_free(&done);
    return reason;
}

/* What was done before what was seen: replicas take states one after the other, and whoever knows that a change was seen acts. */
static enum routes_reason publish(struct table_txn *txn, const struct routes_record *request, struct buf *out_rest)
{
    struct routes_record value;
    enum routes_reason reason = ROUTES_FINE;
    struct str items = request->rest;
    uint64_t dropped = 0;

    if (!get_lease(txn, request, &value))
        return ROUTES_NOT_LEASED;
    if (request->number <= value.number)
        return ROUTES_OUTDATED;
    value.number = request->number;
    if (request->seen > value.seen)
        value.seen = request->seen;
    while (reason == ROUTES_FINE && items.n > 0)
        reason = merge_partition(txn, &items, &dropped);
    routes_record_put_number(out_rest, dropped, DROPPED_BYTES);
    return reason == ROUTES_FINE ? put(txn, request, &value) : reason;
}

static enum routes_reason fence(struct table_txn *txn, const struct routes_record *request, struct buf *out_rest)
{
    struct routes_record value;

    (void)out_rest;
    if (!get_lease(txn, request, &value) || value.number != request->number)
        return ROUTES_OUTDATED;
    return remove_state(txn, ROUTES_INSTANCE, request);
}

static enum routes_reason leave(struct table_txn *txn, const struct routes_record *request, struct buf *out_rest)
{
    struct routes_record value;

    (void)out_rest;
    return get_lease(txn, request, &value) ? remove_state(txn, ROUTES_INSTANCE, request) : ROUTES_OUTDATED;
}

static enum routes_reason begin(struct table_txn *txn, const struct routes_record *request, struct buf *out_rest)
{
    struct routes_done done = {.watermark = request->from};
    struct routes_record value;
    err e = get(txn, ROUTES_DONE, request, &value);

    (void)out_rest;
    if (e == E_OK)
        return ROUTES_FINE;
    return e == E_NOTFOUND && request->from <= INT64_MAX ? put_done(txn, request, &done) : ROUTES_NOT_UNDERSTOOD;
}

/* --- routes --- */

static enum routes_reason register_route(struct table_txn *txn, const struct routes_record *request, struct buf *out_rest)
{
    struct routes_record value = *request, before, instance;

    (void)out_rest;
    if (!get_lease(txn, request, &instance))
        return ROUTES_NOT_LEASED;
    if (get(txn, ROUTES_ROUTE, request, &before) == E_OK && before.incarnation == request->incarnation &&
        str_equal(before.instance, request->instance) && before.epoch >= request->epoch)
        return ROUTES_OUTDATED;
    value.kind = ROUTES_ROUTE;
    return put(txn, request, &value);
}

/* Whether a route is the one that is to go. */
static bool is_that(struct table_txn *txn, const struct routes_record *request, const struct routes_record *item)
{
    struct routes_record route;

    return get(txn, ROUTES_ROUTE, item, &route) == E_OK && route.epoch == item->epoch &&
           route.incarnation == request->incarnation && str_equal(route.instance, request->instance);
}

/* The reply says of each item whether it was there. */
static enum routes_reason remove_routes(struct table_txn *txn, const struct routes_record *request, struct buf *out_rest)
{
    struct routes_record item, instance;
    struct str items = request->rest;
    bool has_failed = false, has_removed = false;

    if (!(request->flags & ROUTES_IS_OWN) && get_lease(txn, request, &instance))
        return ROUTES_OUTDATED;
    while (routes_record_take_item(&items, ROUTES_REMOVE, &item, &has_failed)) {
        bool is_there = is_that(txn, request, &item);

        if (is_there && remove_state(txn, ROUTES_ROUTE, &item) != ROUTES_FINE)
            return ROUTES_FAILED;
        routes_record_put_number(out_rest, is_there, 1);
        has_removed |= is_there;
    }
    if (has_failed)
        return ROUTES_NOT_UNDERSTOOD;
    return has_removed ? ROUTES_FINE : ROUTES_OUTDATED;
}

/* --- gateways --- */

static enum routes_reason note(struct table_txn *txn, const struct routes_record *request, struct buf *out_rest)
{
    struct routes_record value = {.kind = ROUTES_GATEWAY, .at_ms = request->at_ms}, item;
    enum routes_reason reason = ROUTES_FINE;
    struct str items = request->rest;
    bool has_failed = false;

    (void)out_rest;
    while (reason == ROUTES_FINE && routes_record_take_item(&items, ROUTES_NOTE, &item, &has_failed)) {
        value.gateway = item.gateway;
        reason = put(txn, &item, &value);
    }
    return has_failed ? ROUTES_NOT_UNDERSTOOD : reason;
}

/* Those that were not heard of since a moment. */
static enum routes_reason clean(struct table_txn *txn, const struct routes_record *request, struct buf *out_rest)
{
    struct routes_record item, value;
    enum routes_reason reason = ROUTES_FINE;
    struct str items = request->rest;
    bool has_failed = false;

    (void)out_rest;
    while (reason == ROUTES_FINE && routes_record_take_item(&items, ROUTES_CLEAN, &item, &has_failed))
        if (get(txn, ROUTES_GATEWAY, &item, &value) == E_OK && value.at_ms <= request->at_ms)
            reason = remove_state(txn, ROUTES_GATEWAY, &item);
    return has_failed ? ROUTES_NOT_UNDERSTOOD : reason;
}

/* --- waiting commands --- */

/* How many there are; of a tenant, with the last number given. */
static bool get_count(struct table_txn *txn, enum routes_kind kind, const struct routes_record *of, struct routes_record *out)
{
    err e = get(txn, kind, of, out);

    return e == E_OK || e == E_NOTFOUND;
}

static enum routes_reason put_counts(struct table_txn *txn, const struct routes_record *of, const struct routes_record *tenant,
                                     const struct routes_record *device)
{
    enum routes_reason reason = put(txn, of, tenant);

    if (reason != ROUTES_FINE)
        return reason;
    return device->count ? put(txn, of, device) : remove_state(txn, ROUTES_DEVICE_COUNT, of);
}

static enum routes_reason keep(struct table_txn *txn, const struct routes_record *request, struct buf *out_rest)
{
    struct routes_record tenant, device, number, value = *request, key = *request;
    enum routes_reason reason;
    err e = get(txn, ROUTES_WAITING_ID, request, &number);

    (void)out_rest;
    if (e != E_NOTFOUND)
        return e == E_OK ? ROUTES_FINE : ROUTES_FAILED; /* it waits already */
    if (!get_count(txn, ROUTES_TENANT_COUNT, request, &tenant) || !get_count(txn, ROUTES_DEVICE_COUNT, request, &device))
        return ROUTES_FAILED;
    if (tenant.count >= request->max_of_tenant || device.count >= request->max_of_device)
        return ROUTES_TOO_MANY;
    tenant.count++;
    device.count++;
    key.number = ++tenant.number;
    value.kind = ROUTES_WAITING;
    number = (struct routes_record){.kind = ROUTES_WAITING_ID, .number = key.number};
    reason = put(txn, &key, &value);
    if (reason == ROUTES_FINE)
        reason = put(txn, &key, &number);
    return reason == ROUTES_FINE ? put_counts(txn, &key, &tenant, &device) : reason;
}

static enum routes_reason forget(struct table_txn *txn, const struct routes_record *request, struct buf *out_rest)
{
    struct routes_record tenant, device, value, key = *request;
    enum routes_reason reason;

    (void)out_rest;
    if (get(txn, ROUTES_WAITING, request, &value) != E_OK)
        return ROUTES_OUTDATED;
    if (!get_count(txn, ROUTES_TENANT_COUNT, request, &tenant) || !get_count(txn, ROUTES_DEVICE_COUNT, request, &device))
        return ROUTES_FAILED;
    tenant.count -= tenant.count > 0;
    device.count -= device.count > 0;
    key.id = value.id;
    reason = remove_state(txn, ROUTES_WAITING_ID, &key);
    if (reason == ROUTES_FINE)
        reason = remove_state(txn, ROUTES_WAITING, &key);
    return reason == ROUTES_FINE ? put_counts(txn, &key, &tenant, &device) : reason;
}

/* --- reports --- */

static enum routes_reason tell(struct table_txn *txn, const struct routes_record *request, struct buf *out_rest)
{
    struct routes_record item, instance, key = {.instance = request->instance};
    enum routes_reason reason = ROUTES_FINE;
    struct str items = request->rest;
    bool has_failed = false;

    (void)out_rest;
    if (!get_lease(txn, request, &instance))
        return ROUTES_NOT_LEASED;
    while (reason == ROUTES_FINE && routes_record_take_item(&items, ROUTES_TELL, &item, &has_failed)) {
        const struct routes_record value = {.kind = ROUTES_REPORT, .incarnation = request->incarnation, .rest = item.gateway};

        key.id = item.id;
        reason = put(txn, &key, &value);
    }
    return has_failed ? ROUTES_NOT_UNDERSTOOD : reason;
}

/* --- all --- */

static const struct {
    enum routes_kind kind;
    enum routes_reason (*decide)(struct table_txn *txn, const struct routes_record *request, struct buf *out_rest);
} decisions[] = {
    {ROUTES_LEASE, lease},
    {ROUTES_PUBLISH, publish},
    {ROUTES_FENCE, fence},
    {ROUTES_LEAVE, leave},
    {ROUTES_REGISTER, register_route},
    {ROUTES_REMOVE, remove_routes},
    {ROUTES_NOTE, note},
    {ROUTES_CLEAN, clean},
    {ROUTES_KEEP, keep},
    {ROUTES_FORGET, forget},
    {ROUTES_BEGIN, begin},
    {ROUTES_TELL, tell},
};

enum table_verdict routes_decide(void *context, struct table_txn *txn, struct str request, struct buf *out_reply)
{
    struct routes_record read, answer = {.kind = ROUTES_ANSWER, .number = ROUTES_NOT_UNDERSTOOD};
    struct buf rest = {0}, reply = {0};

    (void)context;
    if (routes_record_read(request, &read) == E_OK)
        for (size_t i = 0; i < ARRAY_LEN(decisions); i++)
            if (decisions[i].kind == read.kind)
                answer.number = decisions[i].decide(txn, &read, &rest);
    answer.rest = buf_str(&rest);
    routes_record_write(&reply, &answer);
    ASSERT(buf_append(out_reply, MEM_TABLE, buf_str(&reply)) == E_OK);
    buf_free(&reply, MEM_ROUTES);
    buf_free(&rest, MEM_ROUTES);
    return answer.number == ROUTES_FINE ? TABLE_ACCEPTED : TABLE_REFUSED;
}
