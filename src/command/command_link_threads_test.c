/* The link with threads as they are: its workers', and one of the test's for the proxy, which cuts connections all the time. For
 * the thread sanitizer, and for what only happens when nobody waits for the others. */
#include "command/command_link.h"

#include "command/command_link_fixture.h"
#include "obs/metrics.h"

enum { COMMANDS = 500, CUTS = 12, CUT_BYTES = 5000, CHANGES = 20 };

/* Asks on its worker's thread, one at a time, for the tenants of that worker. */
struct asker {
    struct mail mail;
    struct mailbox *box;
    unsigned worker;
    int64_t asked;
};

static struct asker askers[WORKERS_A];
static atomic_uint n_results;

static void ask_next(struct mail *m)
{
    struct asker *asker = CONTAINER_OF(m, struct asker, mail);

    asker->asked++;
    for (unsigned i = asker->worker; i < TENANTS; i += WORKERS_A)
        assert_int_equal(ask(i, asker->asked, STR("on")), E_OK);
    if (asker->asked < COMMANDS)
        mailbox_post(asker->box, m);
}

static void answers(struct side *side, const struct command_request *request)
{
    /* Not of those that come a second time, which a plane would know. */
    if (side->requests[tenant_number(request->ticket.tenant)].last == request->ticket.offset)
        assert_int_equal(answer(side, STR("a"), tenant_number(request->ticket.tenant), request->ticket.offset), E_OK);
}

static void count_result(struct command_plane *plane, const struct command_result_message *result)
{
    struct side *side = (struct side *)(void *)plane;
    struct heard *heard = &side->results[tenant_number(result->ticket.tenant)];
    int64_t before = heard->last;

    hear(heard, result->ticket.offset);
    if (heard->last > before)
        atomic_fetch_add(&n_results, 1);
}

static void attach(struct worker *w)
{
    (void)w;
    metrics_attach_thread();
}

static void start_threads(struct side *side)
{
    side->workers.on_thread = attach;
    assert_int_equal(workers_start(&side->workers, NULL), E_OK);
}

/* A certificate is renewed, and instances come and go, while all that goes on. */
static void change_something(void)
{
    struct tls *server = make_tls("a", "root.pem", true), *client = make_tls("a", "root.pem", false);

    command_link_use_tls(a.transport, server, client);
    tls_unref(server);
    tls_unref(client);
    a.transport->ops->on_instances(a.transport);
    b.transport->ops->on_instances(b.transport);
}

static void every_command_is_answered_whatever_is_cut(void **state)
{
    const struct command_transport_user user = {
        .plane = as_plane(&a), .on_request = on_request, .on_result = count_result, .on_room = on_room};
    unsigned n_cuts = 0, n_changes = 0;

    (void)state;
    open_both(true);
    command_link_set_user(a.transport, &user);
    b.on_request = answers;
    for (unsigned i = 0; i < WORKERS_A; i++) {
        askers[i] = (struct asker){.mail = {.on_mail = ask_next}, .box = &a.workers.list[i].loop.mailbox, .worker = i};
        mailbox_post(askers[i].box, &askers[i].mail);
    }
    start_threads(&a);
    start_threads(&b);
    while (atomic_load(&n_results) < COMMANDS * TENANTS) {
        if (proxy.cut_to == 0 && n_cuts < CUTS) {
            proxy.cut_to = CUT_BYTES;
            n_cuts++;
        }
        if (n_changes < CHANGES) {
            change_something();
            n_changes++;
        }
        loop_turn(&proxy.loop, 1);
    }
    workers_stop(&a.workers);
    workers_stop(&b.workers);
    assert_int_equal(n_cuts, CUTS);
    for (unsigned i = 0; i < TENANTS; i++) {
        assert_int_equal(b.requests[i].last, COMMANDS);
        assert_int_equal(a.results[i].last, COMMANDS);
        assert_int_equal(b.requests[i].n_again + a.results[i].n_again, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_command_is_answered_whatever_is_cut, tear_down),
    };

    return cmocka_run_group_tests(tests, make_certificates, remove_certificates);
}
