/* Reports: what an instance tells all others, by key; the last one under a key counts. They stay when the instance is gone. */
#include <string.h>

#include "base/siphash.h"
#include "routes/routes_private.h"

enum { REPORT_MS = 500, REPORTS_MAX = 100 * 1000 /* that wait */, AGAIN_MS = 1000 };

static void wait_for_more(struct routes_reports *reports, uint64_t ms)
{
    if (!reports->is_out && !wheel_is_set(&reports->timer))
        wheel_start(&reports->worker->loop.wheel, &reports->timer, ms);
}

/* --- any thread --- */

void routes_tell(struct routes *r, struct str key, struct str value)
{
    struct routes_reports *reports = &r->reports;
    struct routes_names *old, *report;
    bool is_first;

    if (key.n > ROUTES_TEXT_MAX || value.n > ROUTES_REPORT_MAX)
        return;
    pthread_mutex_lock(&reports->lock);
    is_first = reports->waiting.n_entries == 0;
    old = routes_names_find(&reports->waiting, key, (struct str){0});
    if (old) {
        routes_names_remove(&reports->waiting, old);
        mem_free(MEM_ROUTES, old);
    }
    if (reports->waiting.n_entries < REPORTS_MAX) {
        report = routes_names_new(sizeof *report, key, (struct str){0}, value);
        routes_names_add(&reports->waiting, report);
    } else {
        routes_count(ROUTES_COUNT_REPORTS_DROPPED, 1);
    }
    pthread_mutex_unlock(&reports->lock);
    if (is_first && !atomic_exchange(&reports->is_posted, true))
        mailbox_post(&reports->worker->loop.mailbox, &reports->mail);
}

/* --- worker 0 --- */

static void on_mail(struct mail *m)
{
    struct routes_reports *reports = CONTAINER_OF(m, struct routes_reports, mail);

    atomic_store(&reports->is_posted, false);
    wait_for_more(reports, REPORT_MS);
}

static void on_timer(struct timer *timer)
{
    routes_reports_send(CONTAINER_OF(CONTAINER_OF(timer, struct routes_reports, timer), struct routes, reports));
}

/* Takes some of what waits into the items of a request. */
static void take(struct routes_reports *reports, struct buf *items)
{
    struct routes_names *report;
    uint32_t cursor = 0;

    pthread_mutex_lock(&reports->lock);
    while (reports->n_out < ROUTES_ITEMS_MAX && (report = map_next(&reports->waiting, &cursor)))
        reports->out[reports->n_out++] = report;
    for (size_t i = 0; i < reports->n_out; i++) {
        const struct routes_record item = {.id = routes_names_tenant(reports->out[i]),
                                           .gateway = routes_names_gateway(reports->out[i])};

        routes_names_remove(&reports->waiting, reports->out[i]);
        routes_record_add_item(items, ROUTES_TELL, &item);
    }
    pthread_mutex_unlock(&reports->lock);
}

void routes_reports_send(struct routes *r)
{
    struct routes_reports *reports = &r->reports;
    struct routes_record request = {.kind = ROUTES_TELL, .instance = r->settings.instance};
    struct buf items = {0};

    if (reports->is_out)
        return;
    request.incarnation = atomic_load(&r->incarnation);
    if (request.incarnation == 0) {
        wait_for_more(reports, AGAIN_MS);
        return;
    }
    take(reports, &items);
    if (reports->n_out > 0) {
        request.rest = buf_str(&items);
        buf_free(&reports->body, MEM_ROUTES);
        buf_free(&reports->write.reply, MEM_TABLE);
        routes_record_write(&reports->body, &request);
        reports->write.request = buf_str(&reports->body);
        reports->is_out = true;
        table_write(r->table, &reports->write);
    }
    buf_free(&items, MEM_ROUTES);
}

/* What was not taken is told again, unless there is something newer under its key. */
static void on_answer(struct mail *m)
{
    struct table_write *write = CONTAINER_OF(m, struct table_write, mail);
    struct routes_reports *reports = CONTAINER_OF(write, struct routes_reports, write);
    bool is_taken = write->result == E_OK, has_more;

    reports->is_out = false;
    pthread_mutex_lock(&reports->lock);
    for (size_t i = 0; i < reports->n_out; i++) {
        struct routes_names *report = reports->out[i];

        if (is_taken || routes_names_find(&reports->waiting, routes_names_tenant(report), (struct str){0}))
            mem_free(MEM_ROUTES, report);
        else
            routes_names_add(&reports->waiting, report);
    }
    has_more = reports->waiting.n_entries > 0;
    pthread_mutex_unlock(&reports->lock);
    reports->n_out = 0;
    if (has_more)
        wait_for_more(reports, is_taken ? REPORT_MS : AGAIN_MS);
}

void routes_listen_reports(struct routes *r, routes_on_report *on_report, void *context)
{
    r->reports.on_report = on_report;
    r->reports.context = context;
}

void routes_report_apply(struct routes_replica *replica, const struct routes_record *key, const struct routes_record *value,
                         uint64_t offset)
{
    const struct routes_reports *reports = &replica->routes->reports;

    (void)offset;
    if (value && reports->on_report && replica->worker == reports->worker)
        reports->on_report(reports->context, key->instance, value->incarnation, key->id, value->rest);
}

/* --- life --- */

void routes_reports_init(struct routes *r)
{
    struct routes_reports *reports = &r->reports;

    reports->worker = &r->settings.workers->list[0];
    reports->mail.on_mail = on_mail;
    reports->timer.on_timer = on_timer;
    reports->write = (struct table_write){
        .mail = {.on_mail = on_answer}, .home = &reports->worker->loop.mailbox, .partition_key = ROUTES_PARTITION_KEY};
    pthread_mutex_init(&reports->lock, NULL);
}

void routes_reports_fini(struct routes *r)
{
    struct routes_reports *reports = &r->reports;

    wheel_stop(&reports->timer);
    for (size_t i = 0; i < reports->n_out; i++)
        mem_free(MEM_ROUTES, reports->out[i]);
    routes_names_clear(&reports->waiting);
    buf_free(&reports->body, MEM_ROUTES);
    buf_free(&reports->write.reply, MEM_TABLE);
    pthread_mutex_destroy(&reports->lock);
}
