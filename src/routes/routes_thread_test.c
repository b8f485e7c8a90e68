/* Routes over a real table with a local log, with workers and the table on threads of their own; and again after a restart. */
#include "routes/routes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/check.h"
#include "loop/worker.h"
#include "routes/routes_private.h"
#include "store/store.h"
#include "table/table_log_local.h"

enum { WORKERS = 3, TENANTS = 7, DEVICES = 120, WAIT_MS = 60 * 1000 };

struct device {
    struct routes_write write;
    char tenant[8], name[16];
};

/* What a worker does, one device after another's answer. */
struct actor {
    struct mail mail;
    struct routes_replica *replica;
    struct device *devices;
    size_t n, at;
    bool is_removing;
};

static struct {
    char path[64], view_path[80], log_path[80];
    struct store *view_store, *log_store;
    struct table_log *log;
    struct table *table;
    struct loop loop;
    struct workers workers;
    struct routes *routes;
    struct mail opened, ready, left;
    atomic_uint n_opened, n_ready, n_left, n_finished, n_orphans, n_told, n_failed;
    struct device devices[TENANTS * DEVICES];
    struct actor actors[WORKERS];
} t;

static void on_opened(struct mail *m)
{
    (void)m;
    t.n_opened++;
    routes_start(t.routes, t.table, &t.ready, &t.loop.mailbox);
}

static void on_ready(struct mail *m)
{
    (void)m;
    t.n_ready++;
}

static void on_left(struct mail *m)
{
    (void)m;
    t.n_left++;
}

static void on_route(void *context, struct str tenant, struct str device)
{
    (void)context;
    (void)tenant;
    (void)device;
    t.n_told++;
}

static void on_orphan(void *context, struct str tenant, struct str device, bool has_events)
{
    (void)context;
    (void)tenant;
    (void)device;
    t.n_orphans += has_events;
}

static void on_thread(struct worker *w)
{
    (void)w;
    metrics_attach_thread();
}

static void wait_for(const atomic_uint *count, unsigned n)
{
    uint64_t since_ms = loop_clock_ms();

    while (*count < n) {
        assert_true(loop_clock_ms() - since_ms < WAIT_MS);
        loop_turn(&t.loop, 10);
    }
}

static struct store *open_store(const char *path)
{
    const struct store_options options = {.path = path, .durability = STORE_REBUILDABLE};
    struct store *store = NULL;
    struct errinfo ei = {0};

    if (store_open(&options, &store, &ei) != E_OK)
        fail_msg("%s", ei.text);
    return store;
}

static void start(void)
{
    const struct routes_settings settings = {
        .workers = &t.workers, .instance = STR("here"), .roles = ROUTES_ADAPTER, .lease_ms = 5000, .is_alone = true};
    const struct routes_events events = {.on_route = on_route, .on_orphan = on_orphan};
    struct table_options options = {.name = "routes", .ops = &routes_table_ops, .n_partitions = 1};
    struct errinfo ei = {0};

    t.opened.on_mail = on_opened;
    t.ready.on_mail = on_ready;
    t.left.on_mail = on_left;
    t.n_opened = t.n_ready = t.n_left = t.n_finished = t.n_orphans = t.n_told = t.n_failed = 0;
    t.view_store = open_store(t.view_path);
    t.log_store = open_store(t.log_path);
    assert_int_equal(table_log_local_open(t.log_store, "routes", 1, &t.log, &ei), E_OK);
    assert_int_equal(workers_init(&t.workers, WORKERS, 1 << 20, on_thread, &ei), E_OK);
    t.routes = routes_new(&settings);
    for (unsigned i = 0; i < WORKERS; i++)
        routes_listen(routes_replica_at(t.routes, i), &events);
    options.context = t.routes;
    options.store = t.view_store;
    options.log = t.log;
    assert_int_equal(table_open(&options, &t.opened, &t.loop.mailbox, &t.table, &ei), E_OK);
    assert_int_equal(workers_start(&t.workers, &ei), E_OK);
    wait_for(&t.n_ready, 1);
}

static void stop(void)
{
    workers_stop(&t.workers);
    routes_stop(t.routes);
    table_close(t.table);
    table_log_local_close(t.log);
    routes_free(t.routes);
    workers_fini(&t.workers);
    store_close(t.log_store);
    store_close(t.view_store);
}

/* --- on the workers --- */

static void next(struct actor *a)
{
    struct device *d = &a->devices[a->at];
    const struct routes_subscription s = {.tenant = str_from(d->tenant), .device = str_from(d->name), .has_events = true};

    if (a->at == a->n) {
        t.n_finished++;
        return;
    }
    if (a->is_removing) {
        routes_unregister(a->replica, &d->write, s.tenant, s.device, d->write.epoch);
    } else {
        routes_register(a->replica, &d->write, &s);
        routes_note_gateway(a->replica, s.tenant, s.device, STR("gateway"));
    }
}

static void on_written(struct mail *m)
{
    struct routes_write *write = CONTAINER_OF(m, struct routes_write, mail);
    struct device *d = CONTAINER_OF(write, struct device, write);
    struct actor *a = &t.actors[routes_worker_of(t.routes, str_from(d->tenant))];
    struct routes_route route;

    t.n_failed += write->result != E_OK;
    t.n_failed += routes_find(a->replica, str_from(d->tenant), str_from(d->name), &route) == a->is_removing;
    a->at++;
    next(a);
}

static void on_act(struct mail *m)
{
    next(CONTAINER_OF(m, struct actor, mail));
}

/* Every device is registered, or removed, by the worker of its tenant. */
static void act(bool is_removing)
{
    t.n_finished = 0;
    for (unsigned w = 0; w < WORKERS; w++) {
        struct actor *a = &t.actors[w];

        a->mail.on_mail = on_act;
        a->at = 0;
        a->is_removing = is_removing;
        mailbox_post(&t.workers.list[w].loop.mailbox, &a->mail);
    }
    wait_for(&t.n_finished, WORKERS);
    assert_int_equal(t.n_failed, 0);
}

/* The devices of each worker stand together. */
static void hand_out(void)
{
    struct device *d = t.devices;

    for (unsigned w = 0; w < WORKERS; w++) {
        t.actors[w] = (struct actor){.replica = routes_replica_at(t.routes, w), .devices = d};
        for (unsigned i = 0; i < TENANTS * DEVICES; i++) {
            char tenant[8];

            snprintf(tenant, sizeof tenant, "t%u", i % TENANTS);
            if (routes_worker_of(t.routes, str_from(tenant)) != w)
                continue;
            *d = (struct device){.write = {.mail = {.on_mail = on_written}}};
            snprintf(d->tenant, sizeof d->tenant, "%s", tenant);
            snprintf(d->name, sizeof d->name, "d%u", i);
            d++;
            t.actors[w].n++;
        }
    }
}

/* While the workers do not run. */
static unsigned count_entries(bool of_gateways)
{
    unsigned n = 0;

    for (unsigned w = 0; w < WORKERS; w++) {
        const struct routes_replica *r = routes_replica_at(t.routes, w);

        n += of_gateways ? r->heard.n_entries : r->entries.n_entries;
    }
    return n;
}

static int set_up(void **state)
{
    struct errinfo ei = {0};

    (void)state;
    snprintf(t.path, sizeof t.path, "/tmp/routes-XXXXXX");
    assert_non_null(mkdtemp(t.path));
    snprintf(t.view_path, sizeof t.view_path, "%s/view", t.path);
    snprintf(t.log_path, sizeof t.log_path, "%s/log", t.path);
    return loop_init(&t.loop, 0, &ei) == E_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    const char *const stores[] = {t.view_path, t.log_path};
    struct errinfo ei;
    char path[96];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(stores); i++) {
        assert_int_equal(store_erase(stores[i], &ei), E_OK);
        snprintf(path, sizeof path, "%s/owner", stores[i]);
        unlink(path);
        rmdir(stores[i]);
    }
    loop_fini(&t.loop);
    assert_int_equal(rmdir(t.path), 0);
    assert_int_equal(mem_used(MEM_ROUTES), 0);
    return 0;
}

static void what_a_process_had_is_told_of_by_the_next_and_gateways_stay(void **state)
{
    (void)state;
    start();
    hand_out();
    act(false);
    assert_true(t.n_told >= TENANTS * DEVICES);
    while (metric_value(&routes_metrics[ROUTES_COUNT_GATEWAYS]) <
           TENANTS * DEVICES) /* what was heard is written, however late */
        loop_turn(&t.loop, 10);
    stop(); /* without an orderly end */
    start();
    wait_for(&t.n_orphans, TENANTS * DEVICES);
    workers_stop(&t.workers);
    assert_int_equal(count_entries(false), 0);
    assert_int_equal(count_entries(true), TENANTS * DEVICES);
    stop();
}

static void what_ends_in_order_leaves_nothing_to_tell(void **state)
{
    (void)state;
    start();
    hand_out();
    act(false);
    act(true);
    act(false);
    routes_leave(t.routes, &t.left, &t.loop.mailbox);
    wait_for(&t.n_left, 1);
    stop();
    start();
    assert_int_equal(t.n_orphans, 0);
    workers_stop(&t.workers);
    assert_int_equal(count_entries(false), 0);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_a_process_had_is_told_of_by_the_next_and_gateways_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_ends_in_order_leaves_nothing_to_tell, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
