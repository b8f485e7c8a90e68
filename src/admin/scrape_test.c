#include "admin/scrape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "admin/admin.h"
#include "loop/listener.h"
#include "obs/metrics.h"

enum { WORKERS = 2, SCRAPES = 300, MAILBOX_BYTES = 1 << 20, TEXT_BYTES = 1 << 18, PARTS = 64, NAME_BYTES = 64 };

/* Like the ledger of messages: `in` is counted before its parts, and only between two handlers do they balance. */
static struct metric in_metric = {.name = "test_in_total", .help = "in", .kind = METRIC_COUNTER};
static struct metric part_metric = {.name = "test_parts_total", .help = "parts", .kind = METRIC_COUNTER};

/* Keeps a worker counting: its mail posts itself again until it is told to stop. */
struct counting {
    struct mail mail;
    struct worker *worker;
};

static struct {
    struct loop loop;
    struct workers workers;
    struct counting counting[WORKERS];
    struct admin *admin;
    char name[NAME_BYTES];
    atomic_bool is_over;
    char text[TEXT_BYTES];
} t;

static void on_count(struct mail *m)
{
    struct counting *c = CONTAINER_OF(m, struct counting, mail);

    metric_add(&in_metric, PARTS);
    for (int i = 0; i < PARTS; i++)
        metric_add(&part_metric, 1);
    if (!atomic_load(&t.is_over))
        mailbox_post(&c->worker->loop.mailbox, m);
}

static void on_thread(struct worker *w)
{
    (void)w;
    metrics_attach_thread();
}

static enum admin_readiness readiness(void *context)
{
    (void)context;
    return ADMIN_READY;
}

static int set_up(void **state)
{
    const struct admin_probes probes = {.readiness = readiness, .workers = &t.workers};

    (void)state;
    assert_int_equal(loop_init(&t.loop, MAILBOX_BYTES, NULL), E_OK);
    assert_int_equal(workers_init(&t.workers, WORKERS, MAILBOX_BYTES, on_thread, NULL), E_OK);
    assert_int_equal(admin_open(&t.loop, STR("127.0.0.1:0"), &probes, &t.admin, NULL), E_OK);
    admin_name(t.admin, t.name, sizeof t.name);
    assert_int_equal(workers_start(&t.workers, NULL), E_OK);
    for (unsigned i = 0; i < WORKERS; i++) {
        t.counting[i] = (struct counting){.mail = {.on_mail = on_count}, .worker = &t.workers.list[i]};
        mailbox_post(&t.workers.list[i].loop.mailbox, &t.counting[i].mail);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    atomic_store(&t.is_over, true);
    admin_close(t.admin);
    loop_turn(&t.loop, 0);
    workers_stop(&t.workers);
    loop_turn(&t.loop, 0);
    workers_fini(&t.workers);
    loop_fini(&t.loop);
    return 0;
}

static int connect_client(void)
{
    struct sockaddr_storage address;
    socklen_t size;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(listener_parse(str_from(t.name), &address, &size, NULL), E_OK);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, size), 0);
    return fd;
}

/* One scrape, on a connection of its own. */
static void scrape_metrics(void)
{
    static const char request[] = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    int fd = connect_client();
    size_t n = 0;
    ssize_t got = -1;

    assert_int_equal(send(fd, request, sizeof request - 1, MSG_NOSIGNAL), sizeof request - 1);
    while (got != 0) {
        loop_turn(&t.loop, 1);
        got = recv(fd, t.text + n, sizeof t.text - n - 1, MSG_DONTWAIT);
        n += got > 0 ? (size_t)got : 0;
    }
    t.text[n] = '\0';
    close(fd);
}

static long long value_of(const char *name)
{
    char line[NAME_BYTES];
    const char *at;

    snprintf(line, sizeof line, "\n%s ", name);
    at = strstr(t.text, line);
    assert_non_null(at);
    return atoll(at + strlen(line));
}

static void sums_of_busy_workers_balance_in_every_scrape(void **state)
{
    long long before = -1;

    (void)state;
    for (int i = 0; i < SCRAPES; i++) {
        scrape_metrics();
        assert_int_equal(value_of(in_metric.name), value_of(part_metric.name));
        assert_true(value_of(in_metric.name) >= before);
        before = value_of(in_metric.name);
    }
    assert_true(before > 0); /* they were counting */
}

static void scrapes_at_the_same_time_are_all_answered(void **state)
{
    enum { CLIENTS = 20 };
    static const char request[] = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    int fds[CLIENTS], open = CLIENTS;
    char first[16];

    (void)state;
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = connect_client();
        assert_int_equal(send(fds[i], request, sizeof request - 1, MSG_NOSIGNAL), sizeof request - 1);
    }
    while (open) {
        loop_turn(&t.loop, 1);
        for (int i = 0; i < CLIENTS; i++) {
            ssize_t n = fds[i] < 0 ? 0 : recv(fds[i], first, sizeof first, MSG_DONTWAIT);

            if (n <= 0)
                continue;
            assert_memory_equal(first, "HTTP/1.1 200 OK", 15);
            close(fds[i]);
            fds[i] = -1;
            open--;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_busy_workers_balance_in_every_scrape),
        cmocka_unit_test(scrapes_at_the_same_time_are_all_answered),
    };

    metrics_register(&in_metric, 1);
    metrics_register(&part_metric, 1);
    return cmocka_run_group_tests_name("scrape", tests, set_up, tear_down);
}
