/* What this process has done, and how far it has seen the table, told with a renewal of its lease. What was seen is looked at first and what
 * was done is collected behind it: so nobody learns that a change was seen before what was done until then. */
#include "routes/routes_keeper.h"

enum {
    SEEN_MS = 20,                /* from a change that others wait for us to see */
    DONE_MS = 100,               /* if it is only about what was done */
    AGAIN_MS = 1000,             /* after one that was refused, or too much to be kept */
    ITEMS_BYTES_MAX = 256 << 10, /* of one publication */
};

uint64_t routes_keeper_seen(const struct routes_keeper *k)
{
    uint64_t least = UINT64_MAX;

    for (unsigned i = 0; i < k->routes->settings.workers->n; i++) {
        uint64_t seen = atomic_load(&k->routes->replicas[i].seen);

        least = seen < least ? seen : least;
    }
    return least;
}

static bool is_seen_wanted(const struct routes_keeper *k)
{
    return !k->routes->settings.is_alone && k->published_seen < atomic_load(&k->routes->matter_offset);
}

void routes_keeper_want_publication(struct routes_keeper *k)
{
    bool is_urgent = is_seen_wanted(k);

    if (k->state != ROUTES_KEEPER_HOLDING || routes_keeper_is_out(k, ROUTES_SLOT_PUBLISH) || (!is_urgent && !k->has_marks))
        return;
    if (wheel_is_set(&k->publish_timer) && k->is_urgent >= is_urgent)
        return;
    k->is_urgent = is_urgent;
    wheel_start(&k->worker->loop.wheel, &k->publish_timer, k->is_refused ? AGAIN_MS : is_urgent ? SEEN_MS : DONE_MS);
}

/* --- what was done --- */

void routes_mark_done(struct routes_replica *r, struct str topic, int32_t partition, int64_t from, int64_t to)
{
    struct routes_topic *t;
    bool is_added = false;

    ASSERT_ON(r->worker);
    if (topic.n > ROUTES_TEXT_MAX || from < 0 || to <= from)
        return;
    pthread_mutex_lock(&r->lock);
    t = routes_topic_find(&r->marks, topic, partition);
    if (!t)
        t = routes_topic_add(&r->marks, topic, partition);
    is_added = routes_done_add(&t->done, (uint64_t)from, (uint64_t)to);
    pthread_mutex_unlock(&r->lock);
    routes_count(ROUTES_COUNT_DONE_DROPPED, !is_added);
    routes_keeper_poke(&r->routes->keeper);
}

static void merge(struct routes_keeper *k, const struct routes_topic *from)
{
    struct str topic = routes_names_tenant(&from->names);
    struct routes_topic *to = routes_topic_find(&k->marks, topic, from->partition);

    if (!to)
        to = routes_topic_add(&k->marks, topic, from->partition);
    routes_done_pass(&to->done, from->done.watermark);
    for (size_t i = 0; i < from->done.n; i++)
        routes_count(ROUTES_COUNT_DONE_DROPPED,
                     !routes_done_add(&to->done, from->done.ranges[i].from, from->done.ranges[i].to));
}

static void collect(struct routes_keeper *k)
{
    k->has_marks = false;
    for (unsigned i = 0; i < k->routes->settings.workers->n; i++) {
        struct routes_replica *r = &k->routes->replicas[i];
        const struct routes_topic *t;
        struct map marks;
        uint32_t cursor = 0;

        pthread_mutex_lock(&r->lock);
        marks = r->marks;
        r->marks = (struct map){0};
        pthread_mutex_unlock(&r->lock);
        while ((t = map_next(&marks, &cursor)))
            merge(k, t);
        routes_topic_clear(&marks);
    }
}

bool routes_keeper_has_marks(struct routes_keeper *k)
{
    collect(k);
    return k->marks.n_entries > 0;
}

static void encode(struct buf *items, const struct routes_topic *t, uint64_t from, uint64_t to)
{
    const struct routes_record item = {
        .topic = routes_names_tenant(&t->names), .partition = (uint64_t)t->partition, .from = from, .to = to};

    routes_record_add_item(items, ROUTES_PUBLISH, &item);
}

/* The first ranges of the marks, in the order of their map, which stays as it is until the answer. True: that is all of them. */
static bool encode_marks(struct routes_keeper *k, struct buf *items)
{
    const struct routes_topic *t;
    uint32_t cursor = 0;

    k->n_encoded = 0;
    while ((t = map_next(&k->marks, &cursor))) {
        if (buf_size(items) >= ITEMS_BYTES_MAX)
            return false;
        if (t->done.watermark) {
            encode(items, t, 0, t->done.watermark);
            k->n_encoded++;
        }
        for (size_t i = 0; i < t->done.n; i++) {
            if (buf_size(items) >= ITEMS_BYTES_MAX)
                return false;
            encode(items, t, t->done.ranges[i].from, t->done.ranges[i].to);
            k->n_encoded++;
        }
    }
    return true;
}

/* What was encoded is in the table now. */
static void drop_marks(struct routes_keeper *k)
{
    struct routes_topic *t;
    uint32_t cursor = 0;
    struct map rest = {0};

    while ((t = map_next(&k->marks, &cursor))) {
        size_t begin = t->done.watermark > 0 && k->n_encoded > 0, n = k->n_encoded - begin;

        n = n < t->done.n ? n : t->done.n;
        k->n_encoded -= begin + n;
        if (begin)
            t->done.watermark = 0;
        if (n > 0)
            memmove(t->done.ranges, t->done.ranges + n, (t->done.n - n) * sizeof *t->done.ranges);
        t->done.n -= n;
        if (t->done.n > 0 || t->done.watermark > 0) {
            routes_names_add(&rest, &t->names);
        } else {
            routes_done_free(&t->done);
            mem_free(MEM_ROUTES, t);
        }
    }
    map_free(&k->marks, MEM_ROUTES);
    k->marks = rest;
}

/* --- telling --- */

void routes_keeper_publish(struct routes_keeper *k)
{
    uint64_t seen = routes_keeper_seen(k);
    struct routes_record record;
    struct buf items = {0};
    bool is_complete;

    if (k->state != ROUTES_KEEPER_HOLDING || routes_keeper_is_out(k, ROUTES_SLOT_PUBLISH))
        return;
    atomic_thread_fence(memory_order_seq_cst); /* what workers had done when they had seen so much is in their marks */
    collect(k);
    if (k->marks.n_entries == 0 && (seen <= k->published_seen || k->routes->settings.is_alone)) {
        routes_keeper_want_publication(k); /* a worker is late, or holds something */
        return;
    }
    is_complete = encode_marks(k, &items);
    record = routes_keeper_record(k, ROUTES_PUBLISH);
    record.seen = is_complete ? seen : 0;
    record.rest = buf_str(&items);
    routes_keeper_send(k, ROUTES_SLOT_PUBLISH, &record);
    buf_free(&items, MEM_ROUTES);
}

/* How many ranges the owner had no room for. */
static uint64_t count_dropped(const struct routes_keeper_request *req)
{
    struct routes_in in = {.has_failed = false};

    (void)routes_write_reason(&req->write, &in.rest);
    return routes_record_take_number(&in, 8);
}

void routes_keeper_on_published(struct routes_keeper *k, struct routes_keeper_request *req, enum routes_reason reason)
{
    uint64_t n_dropped = req->write.result == E_OK ? count_dropped(req) : 0;

    k->is_refused = req->write.result != E_OK || n_dropped > 0;
    routes_count(ROUTES_COUNT_DONE_DROPPED, (int64_t)n_dropped);
    if (!k->is_refused)
        drop_marks(k);
    if (req->write.result == E_OK) {
        routes_count(ROUTES_COUNT_PUBLICATIONS, 1);
        if (req->incarnation == atomic_load(&k->routes->incarnation) && req->seen > k->published_seen)
            k->published_seen = req->seen;
    }
    k->has_marks |= k->marks.n_entries > 0;
    routes_keeper_extend(k, req, reason);
    routes_keeper_want_publication(k);
}

void routes_keeper_on_renewed(struct routes_keeper *k, struct routes_keeper_request *req, enum routes_reason reason)
{
    routes_keeper_extend(k, req, reason);
}

static void on_timer(struct timer *timer)
{
    routes_keeper_publish(CONTAINER_OF(timer, struct routes_keeper, publish_timer));
}

void routes_keeper_init_publication(struct routes_keeper *k)
{
    k->publish_timer.on_timer = on_timer;
}
