/* Whatever the order in which things happen: replicas that have seen everything are equal, however they came to be. */
#include "routes/routes_fixture_test.h"

enum { ASKS = 4000, STEPS = 3000, SEEDS = 30, DEVICES = 12, NODES = 3, LINES = 4000, LINE_BYTES = 200 };

static const char *const tenants[] = {"t", "u", "v"};

static struct {
    uint64_t random;
    struct fixture_ask asks[ASKS];
    unsigned n_asks;
    uint64_t epochs[NODES];
} p;

static unsigned draw(unsigned below)
{
    p.random = p.random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(p.random >> 33) % below;
}

static struct fixture_ask *next_ask(void)
{
    assert_true(p.n_asks < ASKS);
    p.asks[p.n_asks] = fixture_ask();
    return &p.asks[p.n_asks++];
}

/* --- what a replica holds, as sorted lines --- */

struct dump {
    char lines[LINES][LINE_BYTES];
    size_t n;
};

static int compare_lines(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void PRINTF_LIKE(2, 3) add_line(struct dump *d, const char *format, ...)
{
    va_list args;

    assert_true(d->n < LINES);
    va_start(args, format);
    vsnprintf(d->lines[d->n++], LINE_BYTES, format, args);
    va_end(args);
}

static void dump_devices(struct dump *d, const struct routes_replica *r)
{
    const struct routes_entry *e;
    const struct routes_heard *h;
    const struct routes_queue *q;
    uint32_t cursor = 0;

    while ((e = map_next(&r->entries, &cursor)))
        add_line(d, "r %.*s/%.*s %.*s %llx %llu %d %d", STR_ARG(routes_names_tenant(&e->names)),
                 STR_ARG(routes_names_device(&e->names)), STR_ARG(e->holder->instance.name),
                 (unsigned long long)e->holder->instance.incarnation, (unsigned long long)e->epoch, e->names.flags,
                 e->holder->is_living);
    for (cursor = 0; (h = map_next(&r->heard, &cursor));)
        add_line(d, "g %.*s/%.*s %.*s %llu", STR_ARG(routes_names_tenant(&h->names)), STR_ARG(routes_names_device(&h->names)),
                 STR_ARG(routes_names_gateway(&h->names)), (unsigned long long)h->at_ms);
    for (cursor = 0; (q = map_next(&r->queues, &cursor));)
        add_line(d, "n %.*s/%.*s %llu", STR_ARG(routes_names_tenant(&q->names)), STR_ARG(routes_names_device(&q->names)),
                 (unsigned long long)q->count);
}

static void dump_all(struct dump *d, struct fixture_node *node)
{
    const struct routes_topic *t;
    uint32_t cursor = 0;

    d->n = 0;
    for (unsigned w = 0; w < FIXTURE_WORKERS; w++) {
        const struct routes_replica *r = routes_replica_at(node->routes, w);

        dump_devices(d, r);
        for (struct list *l = r->holders.next; l != &r->holders; l = l->next) {
            const struct routes_holder *h = CONTAINER_OF(l, struct routes_holder, link);

            if (h->is_living) /* on every worker; those of the dead only where they have routes */
                add_line(d, "i%u %.*s %llx %llu %llu", w, STR_ARG(h->instance.name),
                         (unsigned long long)h->instance.incarnation, (unsigned long long)h->number,
                         (unsigned long long)h->instance.seen);
        }
        for (cursor = 0; (t = map_next(&r->topics, &cursor));) {
            add_line(d, "d%u %.*s %d %llu", w, STR_ARG(routes_names_tenant(&t->names)), t->partition,
                     (unsigned long long)t->done.watermark);
            for (size_t i = 0; i < t->done.n; i++)
                add_line(d, "d%u %.*s %d %llu-%llu", w, STR_ARG(routes_names_tenant(&t->names)), t->partition,
                         (unsigned long long)t->done.ranges[i].from, (unsigned long long)t->done.ranges[i].to);
        }
        assert_int_equal(routes_applied(r), fixture.log.n_states);
    }
    qsort(d->lines, d->n, LINE_BYTES, compare_lines);
}

static void expect_equal(struct fixture_node *a, struct fixture_node *b)
{
    static struct dump of_a, of_b;

    dump_all(&of_a, a);
    dump_all(&of_b, b);
    for (size_t i = 0; i < of_a.n && i < of_b.n; i++)
        assert_string_equal(of_a.lines[i], of_b.lines[i]);
    assert_int_equal(of_a.n, of_b.n);
}

/* --- what may happen --- */

static void do_register(struct fixture_node *node, const char *tenant, const char *device)
{
    const struct routes_subscription s = {.tenant = str_from(tenant),
                                          .device = str_from(device),
                                          .gateway = draw(3) ? STR("") : STR("g"),
                                          .is_for_all = draw(2),
                                          .has_events = draw(2)};

    routes_register(fixture_replica(node, tenant), &next_ask()->write, &s);
}

static void do_unregister(struct fixture_node *node, const char *tenant, const char *device)
{
    struct routes_route route;
    struct routes_replica *r = fixture_replica(node, tenant);

    if (routes_find(r, str_from(tenant), str_from(device), &route))
        routes_unregister(r, &next_ask()->write, str_from(tenant), str_from(device), route.epoch - (draw(4) == 0));
}

static void do_note(struct fixture_node *node, const char *tenant, const char *device)
{
    routes_note_gateway(fixture_replica(node, tenant), str_from(tenant), str_from(device), draw(2) ? STR("g") : STR("h"));
    fixture_replica(node, tenant)->notes_timer.on_timer(&fixture_replica(node, tenant)->notes_timer);
}

static void do_keep(struct fixture_node *node, const char *tenant, const char *device)
{
    char id[8];

    snprintf(id, sizeof id, "%u", draw(20));
    routes_keep(fixture_replica(node, tenant), &next_ask()->write, str_from(tenant), str_from(device), str_from(id), STR("v"),
                4, 20);
}

static void do_forget(struct fixture_node *node, const char *tenant, const char *device)
{
    struct routes_waiting waiting;
    struct arena arena = {0};

    if (routes_next_waiting(fixture_replica(node, tenant), str_from(tenant), str_from(device), 0, &arena, &waiting))
        routes_forget(fixture_replica(node, tenant), &next_ask()->write, str_from(tenant), str_from(device), waiting.number);
    arena_free(&arena, MEM_COMMAND);
}

static void do_mark(struct fixture_node *node, const char *tenant, const char *device)
{
    unsigned from = draw(200);

    (void)device;
    routes_mark_done(fixture_replica(node, tenant), str_from(tenant), (int32_t)draw(2), from, from + 1 + draw(5));
}

static void do_publish(struct fixture_node *node, const char *tenant, const char *device)
{
    (void)tenant;
    (void)device;
    routes_keeper_publish(&node->routes->keeper);
}

static void do_look(struct fixture_node *node, const char *tenant, const char *device)
{
    (void)tenant;
    (void)device;
    fixture_now_ms += draw(200);
    routes_keeper_look(&node->routes->keeper);
}

/* A request is decided, or lost. */
static void do_decide(struct fixture_node *node, const char *tenant, const char *device)
{
    (void)node;
    (void)tenant;
    (void)device;
    for (unsigned n = draw(6); n > 0 && fixture.log.n_decided < fixture.log.n_requests; n--) {
        fixture.log.requests[fixture.log.n_decided].is_lost = draw(40) == 0;
        fixture_decide_one(&fixture.log);
    }
}

static void do_apply(struct fixture_node *node, const char *tenant, const char *device)
{
    (void)tenant;
    (void)device;
    for (unsigned n = draw(8); n > 0 && fixture_apply_one(&node->table); n--)
        if (draw(3) == 0)
            (void)fixture_answer_some(&node->table);
    (void)fixture_answer_some(&node->table);
}

static void do_turn(struct fixture_node *node, const char *tenant, const char *device)
{
    (void)tenant;
    (void)device;
    loop_turn(&node->workers.list[draw(FIXTURE_WORKERS)].loop, 0);
}

/* What the view was built of is gone: it comes again from the log. */
static void do_rebuild(struct fixture_node *node, const char *tenant, const char *device)
{
    (void)tenant;
    (void)device;
    if (draw(20))
        return;
    fixture_set_clear(&node->table.view);
    node->table.n_applied = 0;
    routes_table_ops.on_rebuild(node->routes, 0);
}

/* Too many news that a worker has not taken. */
static void do_overflow(struct fixture_node *node, const char *tenant, const char *device)
{
    struct routes_replica *r = fixture_replica(node, tenant);

    (void)device;
    if (draw(20))
        return;
    pthread_mutex_lock(&r->lock);
    r->is_reset = true;
    pthread_mutex_unlock(&r->lock);
}

static void (*const deeds[])(struct fixture_node *node, const char *tenant, const char *device) = {
    do_register, do_register, do_unregister, do_note,  do_keep,  do_keep, do_forget, do_mark,    do_publish, do_look,
    do_decide,   do_decide,   do_apply,      do_apply, do_apply, do_turn, do_turn,   do_rebuild, do_overflow};

static void run(uint64_t seed)
{
    p.random = seed;
    p.n_asks = 0;
    for (unsigned i = 0; i < NODES; i++)
        fixture_add((const char *const[]){"a", "b", "c"}[i], false);
    if (seed % 2)
        fixture_settle();
    for (unsigned i = 0; i < STEPS; i++) {
        char device[8];

        snprintf(device, sizeof device, "d%u", draw(DEVICES));
        deeds[draw(ARRAY_LEN(deeds))](&fixture.nodes[draw(NODES)], tenants[draw(ARRAY_LEN(tenants))], device);
    }
    fixture_settle();
    fixture_pass(3 * FIXTURE_LEASE_MS);
}

static void replicas_that_have_seen_everything_are_equal(void **state)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        fixture_set_up(state);
        run(seed);
        assert_true(fixture.log.n_states > STEPS / 10);
        for (unsigned i = 1; i < NODES; i++)
            expect_equal(&fixture.nodes[0], &fixture.nodes[i]);
        for (unsigned i = 0; i < NODES; i++)
            assert_true(routes_is_leased(routes_replica_at(fixture.nodes[i].routes, 1)));
        for (unsigned i = 0; i < p.n_asks; i++)
            assert_true(p.asks[i].is_done); /* each is answered, once */
        fixture_add("new", false);
        fixture_settle();
        fixture_pass(FIXTURE_LEASE_MS);
        expect_equal(&fixture.nodes[0], &fixture.nodes[NODES]); /* grown by events, and filled from a view */
        fixture_tear_down(state);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(replicas_that_have_seen_everything_are_equal)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
