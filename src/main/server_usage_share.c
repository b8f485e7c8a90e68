#include "main/server_usage_share.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/siphash.h"
#include "loop/loop.h"
#include "loop/worker.h"
#include "obs/metrics.h"
#include "registry/usage.h"
#include "routes/routes.h"

enum { VALUE_BYTES = 160, LOOK_MS = 1000 };

/* A report: a version, then the numbers of struct usage_state. */
#define FORMAT_WRITE "1 %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
#define FORMAT_READ  "1 %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64

static struct metric counts[] = {{.name = "millrace_usage_reports_total",
                                  .help = "Times that another instance has told what a tenant uses",
                                  .kind = METRIC_COUNTER}};

/* What one instance has told. */
struct report {
    struct list link;
    uint64_t incarnation;
    struct usage_state state;
    size_t instance_n;
    char instance[];
};

struct account {
    struct list reports;
    size_t tenant_n;
    char tenant[];
};

static struct str tenant_of(const struct account *account)
{
    return (struct str){account->tenant, account->tenant_n};
}

static bool is_of(const void *entry, const void *key)
{
    return str_equal(tenant_of(entry), *(const struct str *)key);
}

static struct account *make_account(struct server_usage_share *share, struct str tenant)
{
    struct account *account = map_find(&share->accounts, siphash(tenant), &tenant, is_of);

    if (account)
        return account;
    account = mem_alloc(MEM_REGISTRY, sizeof *account + tenant.n);
    list_init(&account->reports);
    account->tenant_n = tenant.n;
    memcpy(account->tenant, tenant.p, tenant.n);
    map_add(&share->accounts, MEM_REGISTRY, siphash(tenant), account);
    return account;
}

static struct report *find_report(struct account *account, struct str instance)
{
    for (struct list *link = account->reports.next; link != &account->reports; link = link->next) {
        struct report *report = CONTAINER_OF(link, struct report, link);

        if (str_equal((struct str){report->instance, report->instance_n}, instance))
            return report;
    }
    return NULL;
}

static struct report *make_report(struct account *account, struct str instance)
{
    struct report *report = find_report(account, instance);

    if (report)
        return report;
    report = mem_alloc_zero(MEM_REGISTRY, sizeof *report + instance.n);
    report->instance_n = instance.n;
    memcpy(report->instance, instance.p, instance.n);
    list_push(&account->reports, &report->link);
    return report;
}

static bool lives(const struct server_usage_share *share, const struct report *report)
{
    return routes_find_instance(routes_replica_at(share->routes, 0), (struct str){report->instance, report->instance_n},
                                report->incarnation) != NULL;
}

static void add_up(struct server_usage_share *share, const struct account *account)
{
    struct usage_state sum = {0};

    for (struct list *link = account->reports.next; link != &account->reports; link = link->next) {
        const struct report *report = CONTAINER_OF(link, struct report, link);
        struct usage_state state = report->state;

        if (!lives(share, report))
            state.n_connections = 0;
        usage_add_state(&sum, &state);
    }
    usage_use_others(tenant_of(account), &sum);
}

static bool read_state(struct str value, struct usage_state *out)
{
    char text[VALUE_BYTES];

    if (value.n >= sizeof text)
        return false;
    memcpy(text, value.p, value.n);
    text[value.n] = '\0';
    return sscanf(text, FORMAT_READ, &out->bytes_begin_ms, &out->bytes, &out->connected_begin_ms, &out->connected_ms,
                  &out->n_connections) == 5;
}

/* Our own reports are of interest after a start without the data directory of the process before. */
static void on_report(void *context, struct str instance, uint64_t incarnation, struct str tenant, struct str value)
{
    struct server_usage_share *share = context;
    struct usage_state state = {0};
    struct account *account;
    struct report *report;

    if (!read_state(value, &state))
        return;
    if (str_equal(instance, routes_name(share->routes))) {
        state.n_connections = 0;
        usage_restore(tenant, &state);
        return;
    }
    metric_add(&counts[0], 1);
    account = make_account(share, tenant);
    report = make_report(account, instance);
    report->incarnation = incarnation;
    report->state = state;
    add_up(share, account);
}

/* Who is gone has no connections any more. */
static void on_timer(struct timer *t)
{
    struct server_usage_share *share = CONTAINER_OF(t, struct server_usage_share, timer);
    uint32_t cursor = 0;
    struct account *account;

    while ((account = map_next(&share->accounts, &cursor)))
        add_up(share, account);
    wheel_start(&share->worker->loop.wheel, &share->timer, LOOK_MS);
}

void server_usage_share_open(struct server_usage_share *share, struct routes *routes, struct worker *worker)
{
    *share = (struct server_usage_share){.routes = routes, .worker = worker, .timer = {.on_timer = on_timer}};
    metrics_register(counts, ARRAY_LEN(counts));
    routes_listen_reports(routes, on_report, share);
    wheel_start(&worker->loop.wheel, &share->timer, LOOK_MS);
}

void server_usage_share_tell(struct server_usage_share *share, struct str tenant, const struct usage_state *state)
{
    char value[VALUE_BYTES];
    int n = snprintf(value, sizeof value, FORMAT_WRITE, state->bytes_begin_ms, state->bytes, state->connected_begin_ms,
                     state->connected_ms, state->n_connections);

    routes_tell(share->routes, tenant, (struct str){value, (size_t)n});
}

static void free_account(struct account *account)
{
    while (!list_is_empty(&account->reports))
        mem_free(MEM_REGISTRY, CONTAINER_OF(list_pop(&account->reports), struct report, link));
    mem_free(MEM_REGISTRY, account);
}

void server_usage_share_close(struct server_usage_share *share)
{
    uint32_t cursor = 0;
    struct account *account;

    while ((account = map_next(&share->accounts, &cursor)))
        free_account(account);
    map_free(&share->accounts, MEM_REGISTRY);
    *share = (struct server_usage_share){0};
}
