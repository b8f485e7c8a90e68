/* From the table's thread to the workers: what was applied, in its order; and how a replica is filled to begin with. */
#include <string.h>

#include "base/log.h"
#include "routes/routes_private.h"

enum {
    NEWS_BYTES_MAX = 64 << 20, /* that a worker has not taken; then it is filled anew */
    SLICE_ITEMS = 1000,        /* of a turn, while it is filled */
    AGAIN_MS = 1000,
};

static const char fill_kinds[] = {ROUTES_INSTANCE,     ROUTES_DONE,  ROUTES_GATEWAY,
                                  ROUTES_DEVICE_COUNT, ROUTES_ROUTE, ROUTES_REPORT};

/* Before key and value of one change. */
struct head {
    uint64_t offset;
    uint32_t key_n, value_n;
    bool is_removed;
};

void routes_feed_note_matter(struct routes *routes, uint64_t offset)
{
    uint64_t before = atomic_load(&routes->matter_offset);

    while (before < offset && !atomic_compare_exchange_weak(&routes->matter_offset, &before, offset))
        ;
}

/* --- on the table's thread --- */

static bool append(struct routes_replica *r, const struct table_change *change)
{
    struct head head = {.offset = change->offset,
                        .key_n = (uint32_t)change->key.n,
                        .value_n = (uint32_t)change->value.n,
                        .is_removed = !change->value.p};
    size_t n = sizeof head + change->key.n + change->value.n;
    char *to = buf_size(&r->news) + n <= NEWS_BYTES_MAX ? buf_reserve(&r->news, MEM_ROUTES, n) : NULL;

    if (!to)
        return false;
    ASSERT(change->key.p);
    memcpy(to, &head, sizeof head);
    memcpy(to + sizeof head, change->key.p, change->key.n);
    if (change->value.n)
        memcpy(to + sizeof head + change->key.n, change->value.p, change->value.n);
    buf_commit(&r->news, n);
    return true;
}

/* Under the lock. True: it is to be told. */
static bool note_told(struct routes_replica *r)
{
    bool was_told = r->is_told;

    r->is_told = true;
    return !was_told;
}

static void tell(struct routes_replica *r, const struct table_change *change, bool is_concerned)
{
    bool is_to_be_told;

    pthread_mutex_lock(&r->lock);
    if (is_concerned && !append(r, change)) {
        buf_free(&r->news, MEM_ROUTES);
        r->is_reset = true;
    }
    r->news_offset = change->offset + 1;
    is_to_be_told = note_told(r);
    pthread_mutex_unlock(&r->lock);
    if (is_to_be_told)
        mailbox_post(&r->worker->loop.mailbox, &r->news_mail);
}

void routes_feed_on_applied(void *context, const struct table_change *change)
{
    struct routes *routes = context;
    struct routes_record key;
    unsigned of = UINT32_MAX; /* the worker that it concerns; past all: none */
    bool is_for_all;

    if (!atomic_load(&routes->is_feeding))
        return;
    if (!routes_record_read_key(change->key, &key)) {
        routes_count(ROUTES_COUNT_SKIPPED, 1);
        key = (struct routes_record){.kind = ROUTES_WAITING};
    }
    is_for_all = key.kind == ROUTES_INSTANCE || key.kind == ROUTES_DONE;
    if (key.kind == ROUTES_ROUTE || key.kind == ROUTES_GATEWAY || key.kind == ROUTES_DEVICE_COUNT)
        of = routes_worker_of(routes, key.tenant);
    if (key.kind == ROUTES_REPORT)
        of = 0;
    if (key.kind == ROUTES_ROUTE || key.kind == ROUTES_GATEWAY)
        routes_feed_note_matter(routes, change->offset + 1);
    for (unsigned i = 0; i < routes->settings.workers->n; i++)
        tell(&routes->replicas[i], change, is_for_all || i == of);
}

/* What came before is void; the view begins anew. */
void routes_feed_on_rebuild(void *context, unsigned partition)
{
    struct routes *routes = context;

    (void)partition;
    if (!atomic_load(&routes->is_feeding))
        return;
    for (unsigned i = 0; i < routes->settings.workers->n; i++) {
        struct routes_replica *r = &routes->replicas[i];
        bool is_to_be_told;

        pthread_mutex_lock(&r->lock);
        buf_free(&r->news, MEM_ROUTES);
        r->is_reset = true;
        r->news_offset = 0;
        is_to_be_told = note_told(r);
        pthread_mutex_unlock(&r->lock);
        if (is_to_be_told)
            mailbox_post(&r->worker->loop.mailbox, &r->news_mail);
    }
}

/* --- on the worker --- */

static void update_seen(struct routes_replica *r)
{
    uint64_t seen = atomic_load(&r->applied);

    for (struct list *l = r->holds.next; l != &r->holds; l = l->next) {
        const struct routes_hold *hold = CONTAINER_OF(l, struct routes_hold, link);

        if (hold->offset < seen)
            seen = hold->offset;
    }
    atomic_store(&r->seen, seen);
}

void routes_hold(struct routes_replica *r, struct routes_hold *hold)
{
    if (list_is_linked(&hold->link))
        return;
    hold->offset = r->at_offset;
    list_push(&r->holds, &hold->link);
    update_seen(r);
}

void routes_release(struct routes_replica *r, struct routes_hold *hold)
{
    if (!list_is_linked(&hold->link))
        return;
    list_remove(&hold->link);
    update_seen(r);
    routes_keeper_poke(&r->routes->keeper);
}

static void begin_fill(struct routes_replica *r)
{
    r->is_filling = true;
    r->fill_kind = 0;
    r->fill_after.n = 0;
    r->fill_offset = 0;
    loop_defer(&r->worker->loop, &r->fill_task);
}

/* Nothing of what it has can be trusted. */
static void reset(struct routes_replica *r)
{
    LOG_WARN(LOG_COMMAND, "routes.refill", F_INT("worker", r->worker->id));
    routes_count(ROUTES_COUNT_REFILLS, 1);
    atomic_fetch_add(&r->routes->n_unfilled, !r->is_filling);
    table_reader_close(&r->reader);
    routes_replica_clear(r);
    routes_keeper_forfeit(&r->routes->keeper);
    begin_fill(r);
}

static void apply_all(struct routes_replica *r, struct str news)
{
    struct head head;

    while (news.n > 0) {
        struct str key, value;

        memcpy(&head, news.p, sizeof head);
        key = (struct str){news.p + sizeof head, head.key_n};
        value = (struct str){head.is_removed ? NULL : key.p + key.n, head.value_n};
        news = str_from_offset(news, sizeof head + head.key_n + head.value_n);
        if (head.offset < r->fill_offset)
            continue; /* a later state of it was in the view already, or its removal makes no difference */
        routes_replica_apply(r, key, value, head.offset);
        routes_count(ROUTES_COUNT_EVENTS, 1);
    }
}

static void take_news(struct routes_replica *r)
{
    struct buf news;
    uint64_t offset;
    bool is_reset;

    pthread_mutex_lock(&r->lock);
    is_reset = r->is_reset;
    r->is_reset = false;
    news = is_reset ? (struct buf){0} : r->news;
    if (!is_reset)
        r->news = (struct buf){0};
    offset = r->news_offset;
    r->is_told = is_reset; /* the filling takes what comes meanwhile */
    pthread_mutex_unlock(&r->lock);
    if (is_reset) {
        reset(r);
        return;
    }
    apply_all(r, buf_str(&news));
    buf_free(&news, MEM_ROUTES);
    routes_replica_settle(r);
    if (offset > atomic_load(&r->applied))
        atomic_store(&r->applied, offset);
    update_seen(r);
    if (r->events.on_applied)
        r->events.on_applied(r->events.context);
    if (r->worker->id == 0)
        routes_keeper_on_news(&r->routes->keeper);
}

static void on_resumed(struct mail *m)
{
    struct routes_replica *r = CONTAINER_OF(m, struct routes_replica, resumed_mail);

    atomic_store(&r->is_resumed_posted, false);
    if (!r->is_filling && r->events.on_instances)
        r->events.on_instances(r->events.context);
}

void routes_feed_tell_resumed(struct routes_replica *r)
{
    if (!atomic_exchange(&r->is_resumed_posted, true))
        mailbox_post(&r->worker->loop.mailbox, &r->resumed_mail);
}

/* While it is filled, news wait. */
static void on_news(struct mail *m)
{
    struct routes_replica *r = CONTAINER_OF(m, struct routes_replica, news_mail);

    if (!r->is_filling)
        take_news(r);
}

/* --- filling: a moment of the view, which has everything before the news that count --- */

static void end_fill(struct routes_replica *r)
{
    bool is_last = atomic_fetch_sub(&r->routes->n_unfilled, 1) == 1;

    table_reader_close(&r->reader);
    r->is_filling = false;
    r->all_recent_to = r->fill_offset;
    atomic_store(&r->applied, r->fill_offset);
    routes_feed_note_matter(r->routes, r->fill_offset);
    take_news(r);                  /* is_told may stand though the mail has come */
    if (is_last && !r->is_filling) /* which began again if all is void meanwhile */
        routes_keeper_tell_filled(&r->routes->keeper);
}

/* False: there is no more. */
static bool fill_one(struct routes_replica *r)
{
    const struct str prefix = {&fill_kinds[r->fill_kind], 1};
    struct table_item item;

    if (!table_reader_next_in(&r->reader, 0, prefix, routes_key_str(&r->fill_after), &item)) {
        r->fill_after.n = 0;
        return ++r->fill_kind < sizeof fill_kinds;
    }
    r->fill_after.n = item.key.n;
    memcpy(r->fill_after.p, item.key.p, item.key.n);
    routes_replica_apply(r, item.key, item.value, item.offset);
    if (item.offset >= r->fill_offset)
        r->fill_offset = item.offset + 1;
    return true;
}

static void on_fill_task(struct task *task)
{
    struct routes_replica *r = CONTAINER_OF(task, struct routes_replica, fill_task);

    if (!r->is_filling)
        return;
    if (!r->reader.txn && table_reader_open(r->routes->table, &r->reader) != E_OK) {
        LOG_ERROR(LOG_COMMAND, "routes.view_failed", F_INT("worker", r->worker->id));
        wheel_start(&r->worker->loop.wheel, &r->fill_timer, AGAIN_MS);
        return;
    }
    for (unsigned i = 0; i < SLICE_ITEMS; i++)
        if (!fill_one(r)) {
            end_fill(r);
            return;
        }
    loop_defer(&r->worker->loop, &r->fill_task);
}

static void on_fill_timer(struct timer *timer)
{
    on_fill_task(&CONTAINER_OF(timer, struct routes_replica, fill_timer)->fill_task);
}

static void on_fill(struct mail *m)
{
    struct routes_replica *r = CONTAINER_OF(m, struct routes_replica, fill_mail);

    routes_gateways_start(r);
    begin_fill(r);
}

void routes_feed_init(struct routes_replica *r)
{
    r->news_mail.on_mail = on_news;
    r->resumed_mail.on_mail = on_resumed;
    r->fill_mail.on_mail = on_fill;
    r->fill_task.run = on_fill_task;
    r->fill_timer.on_timer = on_fill_timer;
}

void routes_feed_fini(struct routes_replica *r)
{
    table_reader_close(&r->reader); /* only of one that was being filled */
    table_reader_close(&r->waiting_reader);
}
