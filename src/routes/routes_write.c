/* Changes that users of a replica ask for: from the call to the mail. */
#include "base/arena.h"
#include "routes/routes_private.h"

struct routes_private_write {
    struct table_write write;
    struct list link; /* of the replica's writes, or of those held back */
    struct buf request;
    struct routes_write *asked;
    bool needs_lease;
};

static const struct {
    err result;
    enum routes_count count;
} outcomes[] = {
    [ROUTES_FINE] = {E_OK, ROUTES_COUNT_WRITES_ACCEPTED},         [ROUTES_NOT_UNDERSTOOD] = {E_IO, ROUTES_COUNT_WRITES_FAILED},
    [ROUTES_NOT_LEASED] = {E_BUSY, ROUTES_COUNT_WRITES_UNLEASED}, [ROUTES_OUTDATED] = {E_DENIED, ROUTES_COUNT_WRITES_REFUSED},
    [ROUTES_TOO_MANY] = {E_LIMIT, ROUTES_COUNT_WRITES_REFUSED},   [ROUTES_FAILED] = {E_LIMIT, ROUTES_COUNT_WRITES_REFUSED},
};

enum routes_reason routes_write_reason(const struct table_write *write, struct str *out_rest)
{
    struct routes_record answer;

    *out_rest = (struct str){0};
    if (routes_record_read(buf_str(&write->reply), &answer) != E_OK || answer.kind != ROUTES_ANSWER ||
        answer.number >= ARRAY_LEN(outcomes))
        return ROUTES_NOT_UNDERSTOOD;
    *out_rest = answer.rest;
    return (enum routes_reason)answer.number;
}

static void free_write(struct routes_private_write *w)
{
    list_remove(&w->link);
    buf_free(&w->write.reply, MEM_TABLE);
    buf_free(&w->request, MEM_ROUTES);
    mem_free(MEM_ROUTES, w);
}

static void answer(struct routes_private_write *w, err result, enum routes_count count)
{
    struct routes_write *asked = w->asked;

    routes_count(count, 1);
    free_write(w);
    asked->private_write = NULL;
    asked->result = result;
    asked->mail.on_mail(&asked->mail);
}

static void on_written(struct mail *m)
{
    struct routes_private_write *w =
        CONTAINER_OF(CONTAINER_OF(m, struct table_write, mail), struct routes_private_write, write);
    enum routes_reason reason = ROUTES_FINE;
    struct str rest;

    if (w->write.result == E_DENIED)
        reason = routes_write_reason(&w->write, &rest);
    if (w->write.result == E_OK || w->write.result == E_DENIED)
        answer(w, outcomes[reason].result, outcomes[reason].count);
    else
        answer(w, w->write.result, ROUTES_COUNT_WRITES_FAILED);
}

/* What needs nobody to be asked is answered by a mail as well. */
static void on_refused(struct mail *m)
{
    struct routes_private_write *w =
        CONTAINER_OF(CONTAINER_OF(m, struct table_write, mail), struct routes_private_write, write);
    bool is_unleased = w->write.result == E_BUSY;

    answer(w, w->write.result, is_unleased ? ROUTES_COUNT_WRITES_UNLEASED : ROUTES_COUNT_WRITES_REFUSED);
}

static void refuse(struct routes_replica *r, struct routes_private_write *w, err result)
{
    list_push(&r->writes, &w->link);
    w->write.result = result;
    w->write.mail.on_mail = on_refused;
    mailbox_post(&r->worker->loop.mailbox, &w->write.mail);
}

static void send(struct routes_replica *r, struct routes_private_write *w)
{
    list_push(&r->writes, &w->link);
    w->write.mail.on_mail = on_written;
    w->write.home = &r->worker->loop.mailbox;
    w->write.partition_key = ROUTES_PARTITION_KEY;
    w->write.request = buf_str(&w->request);
    table_write(r->routes->table, &w->write);
}

static void send_under_lease(struct routes_replica *r, struct routes_private_write *w)
{
    uint64_t incarnation = atomic_load(&r->routes->incarnation);

    if (r->self && r->self->instance.incarnation == incarnation) {
        routes_record_set_incarnation(&w->request, incarnation);
        send(r, w);
        return;
    }
    refuse(r, w, E_BUSY);
}

static bool fits(const struct routes_record *request)
{
    const size_t lengths[] = {request->tenant.n, request->device.n, request->gateway.n, request->id.n, request->topic.n};

    for (size_t i = 0; i < ARRAY_LEN(lengths); i++)
        if (lengths[i] > ROUTES_TEXT_MAX)
            return false;
    return request->kind != ROUTES_KEEP || request->tenant.n + request->device.n <= ROUTES_WAITING_NAMES_MAX;
}

void routes_write_ask(struct routes_replica *r, struct routes_write *write, const struct routes_record *request,
                      bool needs_lease)
{
    struct routes_private_write *w = mem_alloc_zero(MEM_ROUTES, sizeof *w);

    ASSERT_ON(r->worker);
    w->asked = write;
    w->needs_lease = needs_lease;
    write->replica = r;
    write->private_write = w;
    if (!fits(request)) {
        refuse(r, w, E_LIMIT);
        return;
    }
    routes_record_write(&w->request, request);
    if (r->n_leases == 0)
        list_push(&r->held, &w->link); /* for the start to be over; it is bounded by those who wait for it */
    else if (needs_lease)
        send_under_lease(r, w);
    else
        send(r, w);
}

void routes_write_release(struct routes_replica *r)
{
    struct list *link;

    while ((link = list_pop(&r->held))) {
        struct routes_private_write *w = CONTAINER_OF(link, struct routes_private_write, link);

        if (w->needs_lease)
            send_under_lease(r, w);
        else
            send(r, w);
    }
}

void routes_write_fini(struct routes_replica *r)
{
    while (!list_is_empty(&r->held))
        free_write(CONTAINER_OF(r->held.next, struct routes_private_write, link));
    while (!list_is_empty(&r->writes))
        free_write(CONTAINER_OF(r->writes.next, struct routes_private_write, link));
}

/* --- routes --- */

void routes_register(struct routes_replica *r, struct routes_write *write, const struct routes_subscription *s)
{
    struct routes_record request = {.kind = ROUTES_REGISTER,
                                    .instance = r->routes->settings.instance,
                                    .epoch = atomic_fetch_add(&r->routes->epoch, 1) + 1,
                                    .flags =
                                        (s->is_for_all ? ROUTES_IS_FOR_ALL : 0u) | (s->has_events ? ROUTES_HAS_EVENTS : 0u),
                                    .tenant = s->tenant,
                                    .device = s->device,
                                    .gateway = s->gateway};

    write->epoch = request.epoch;
    routes_write_ask(r, write, &request, true);
}

void routes_unregister(struct routes_replica *r, struct routes_write *write, struct str tenant, struct str device,
                       uint64_t epoch)
{
    struct routes_record request = {.kind = ROUTES_REMOVE,
                                    .instance = r->routes->settings.instance,
                                    .flags = ROUTES_IS_OWN,
                                    .epoch = epoch,
                                    .tenant = tenant,
                                    .device = device};
    struct buf items = {0};

    write->epoch = epoch;
    if (tenant.n <= ROUTES_TEXT_MAX && device.n <= ROUTES_TEXT_MAX)
        routes_record_add_item(&items, ROUTES_REMOVE, &request);
    request.rest = buf_str(&items);
    routes_write_ask(r, write, &request, true);
    buf_free(&items, MEM_ROUTES);
}

/* --- done --- */

void routes_begin_done(struct routes_replica *r, struct routes_write *write, struct str topic, int32_t partition,
                       int64_t offset)
{
    struct routes_record request = {
        .kind = ROUTES_BEGIN, .topic = topic, .partition = (uint64_t)partition, .from = (uint64_t)(offset > 0 ? offset : 0)};

    routes_write_ask(r, write, &request, false);
}

/* --- waiting commands --- */

void routes_keep(struct routes_replica *r, struct routes_write *write, struct str tenant, struct str device, struct str id,
                 struct str value, uint32_t max_of_device, uint32_t max_of_tenant)
{
    struct routes_record request = {.kind = ROUTES_KEEP,
                                    .tenant = tenant,
                                    .device = device,
                                    .id = id,
                                    .rest = value,
                                    .max_of_device = max_of_device,
                                    .max_of_tenant = max_of_tenant};

    routes_write_ask(r, write, &request, false);
}

void routes_forget(struct routes_replica *r, struct routes_write *write, struct str tenant, struct str device, uint64_t number)
{
    struct routes_record request = {.kind = ROUTES_FORGET, .tenant = tenant, .device = device, .number = number};

    routes_write_ask(r, write, &request, false);
}

bool routes_next_waiting(struct routes_replica *r, struct str tenant, struct str device, uint64_t after, struct arena *arena,
                         struct routes_waiting *out_waiting)
{
    struct routes_record fields = {.tenant = tenant, .device = device, .number = after}, key, value;
    struct routes_key prefix, behind;
    struct table_item item;
    bool is_there;

    if (!routes_names_find(&r->queues, tenant, device) || !routes_record_write_prefix(&prefix, ROUTES_WAITING, 2, &fields) ||
        !routes_record_write_key(&behind, ROUTES_WAITING, &fields))
        return false;
    if (r->waiting_reader.txn)
        table_reader_renew(&r->waiting_reader);
    else if (table_reader_open(r->routes->table, &r->waiting_reader) != E_OK)
        return false;
    is_there =
        table_reader_next(&r->waiting_reader, ROUTES_PARTITION_KEY, routes_key_str(&prefix), routes_key_str(&behind), &item) &&
        routes_record_read_key(item.key, &key) && routes_record_read(item.value, &value) == E_OK &&
        value.kind == ROUTES_WAITING;
    if (is_there)
        *out_waiting = (struct routes_waiting){.tenant = arena_copy(arena, MEM_COMMAND, key.tenant),
                                               .device = arena_copy(arena, MEM_COMMAND, key.device),
                                               .number = key.number,
                                               .value = arena_copy(arena, MEM_COMMAND, value.rest)};
    table_reader_rest(&r->waiting_reader);
    return is_there;
}
