#include "routes/routes.h"

#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "base/siphash.h"
#include "routes/routes_decide.h"
#include "routes/routes_private.h"

const struct table_ops routes_table_ops = {
    .decide = routes_decide, .on_applied = routes_feed_on_applied, .on_rebuild = routes_feed_on_rebuild};

/* Goes on while the system sleeps, as the time of those does who wait for us. */
static uint64_t clock_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static struct str keep(struct routes *r, unsigned which, struct str text)
{
    r->texts[which] = mem_copy_text(MEM_ROUTES, text.p ? text.p : "", text.n);
    return (struct str){r->texts[which], text.n};
}

static void choose_process(struct routes *r)
{
    while (r->process == 0) {
        ASSERT(getrandom(&r->process, sizeof r->process, 0) == sizeof r->process);
        r->process &= INT64_MAX & ~(uint64_t)0xffffff; /* positive, for those who read logs */
    }
}

struct routes *routes_new(const struct routes_settings *settings)
{
    struct routes *r = mem_alloc_zero(MEM_ROUTES, sizeof *r);
    unsigned n = settings->workers->n;

    metrics_register(routes_metrics, ROUTES_COUNTS);
    r->settings = *settings;
    r->settings.instance = keep(r, 0, settings->instance);
    r->settings.address = keep(r, 1, settings->address);
    r->clock_ms = clock_ms;
    choose_process(r);
    atomic_init(&r->n_unfilled, n);
    atomic_init(&r->n_unready, n);
    r->replicas = mem_alloc_zero(MEM_ROUTES, n * sizeof *r->replicas);
    for (unsigned i = 0; i < n; i++)
        routes_replica_init(&r->replicas[i], r, &settings->workers->list[i]);
    routes_keeper_init(&r->keeper, r);
    routes_reports_init(r);
    return r;
}

void routes_start(struct routes *r, struct table *table, struct mail *ready, struct mailbox *home)
{
    r->table = table;
    r->ready = ready;
    r->ready_home = home;
    atomic_store(&r->is_feeding, true); /* before the view is looked at: what it does not have yet comes as news */
    for (unsigned i = 0; i < r->settings.workers->n; i++)
        mailbox_post(&r->replicas[i].worker->loop.mailbox, &r->replicas[i].fill_mail);
}

void routes_leave(struct routes *r, struct mail *done, struct mailbox *home)
{
    r->left = done;
    r->left_home = home;
    atomic_store(&r->n_leaving, r->settings.workers->n);
    for (unsigned i = 0; i < r->settings.workers->n; i++)
        mailbox_post(&r->replicas[i].worker->loop.mailbox, &r->replicas[i].leave_mail);
    mailbox_post(&r->keeper.worker->loop.mailbox, &r->keeper.leave_mail);
}

void routes_stop(struct routes *r)
{
    if (!r)
        return;
    for (unsigned i = 0; i < r->settings.workers->n; i++)
        routes_feed_fini(&r->replicas[i]);
}

void routes_free(struct routes *r)
{
    if (!r)
        return;
    for (unsigned i = 0; i < r->settings.workers->n; i++)
        routes_replica_fini(&r->replicas[i]);
    routes_keeper_fini(&r->keeper);
    routes_reports_fini(r);
    mem_free(MEM_ROUTES, r->replicas);
    mem_free(MEM_ROUTES, r->texts[0]);
    mem_free(MEM_ROUTES, r->texts[1]);
    mem_free(MEM_ROUTES, r);
}

struct str routes_name(const struct routes *r)
{
    return r->settings.instance;
}

unsigned routes_worker_of(const struct routes *r, struct str tenant)
{
    return (unsigned)(siphash(tenant) % r->settings.workers->n);
}

struct routes_replica *routes_replica_of(struct routes *r, struct str tenant)
{
    return &r->replicas[routes_worker_of(r, tenant)];
}

struct routes_replica *routes_replica_at(struct routes *r, unsigned worker)
{
    ASSERT(worker < r->settings.workers->n);
    return &r->replicas[worker];
}

void routes_listen(struct routes_replica *replica, const struct routes_events *events)
{
    replica->events = *events;
}

int64_t routes_first_undone(struct routes *r, struct str topic, int32_t partition)
{
    struct routes_record fields = {.topic = topic, .partition = (uint64_t)partition}, value;
    struct routes_done done = {0};
    struct table_reader reader = {0};
    struct table_item item;
    struct routes_key key;
    int64_t first = -1;

    if (!routes_record_write_key(&key, ROUTES_DONE, &fields) || table_reader_open(r->table, &reader) != E_OK)
        return -1;
    if (table_reader_get(&reader, ROUTES_PARTITION_KEY, routes_key_str(&key), &item) &&
        routes_record_read(item.value, &value) == E_OK && routes_done_read(value.rest, &done) == E_OK)
        first = (int64_t)done.watermark;
    routes_done_free(&done);
    table_reader_close(&reader);
    return first;
}
