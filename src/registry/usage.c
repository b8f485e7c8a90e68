#include "registry/usage.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/check.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/siphash.h"
#include "core/usage_period.h"
#include "registry/principal.h"

enum { MS_PER_MINUTE = 60 * 1000 };

/* How much of an allowance has been used in the period that began at `begin_ms`. */
struct meter {
    atomic_int_fast64_t begin_ms, used;
};

struct usage {
    unsigned refs; /* under the book's lock */
    struct meter bytes;
    struct meter bytes_elsewhere, connected_ms_elsewhere;
    atomic_int_fast64_t n_connections_elsewhere;
    pthread_mutex_t lock; /* of what follows: connections come and go less often than messages */
    struct meter connected_ms;
    int64_t n_connections;
    int64_t measured_ms;      /* up to when their time is counted */
    int64_t until_ms;         /* the end of the period that it is counted for; 0: of none */
    struct usage_state taken; /* what usage_take_changes() has seen; under the book's lock */
    size_t id_n;
    char id[];
};

static struct {
    pthread_mutex_t lock;
    struct map accounts; /* by tenant */
} book = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* --- accounts --- */

static bool is_of(const void *entry, const void *key)
{
    const struct usage *usage = entry;

    return str_equal((struct str){usage->id, usage->id_n}, *(const struct str *)key);
}

static void empty_book(void)
{
    map_free(&book.accounts, MEM_REGISTRY);
    book.accounts = (struct map){0};
}

static struct usage *make(struct str tenant)
{
    struct usage *usage = mem_alloc_zero(MEM_REGISTRY, sizeof *usage + tenant.n);

    pthread_mutex_init(&usage->lock, NULL);
    memcpy(usage->id, tenant.p, tenant.n);
    usage->id_n = tenant.n;
    map_add(&book.accounts, MEM_REGISTRY, siphash(tenant), usage);
    return usage;
}

struct usage *usage_ref(struct str tenant)
{
    struct usage *usage;

    pthread_mutex_lock(&book.lock);
    usage = map_find(&book.accounts, siphash(tenant), &tenant, is_of);
    if (!usage)
        usage = make(tenant);
    usage->refs++;
    pthread_mutex_unlock(&book.lock);
    return usage;
}

static void free_account(struct usage *usage)
{
    pthread_mutex_destroy(&usage->lock);
    mem_free(MEM_REGISTRY, usage);
}

static bool is_blank(struct usage *usage)
{
    return atomic_load(&usage->bytes.used) == 0 && atomic_load(&usage->connected_ms.used) == 0 &&
           atomic_load(&usage->bytes_elsewhere.used) == 0 && atomic_load(&usage->connected_ms_elsewhere.used) == 0 &&
           atomic_load(&usage->n_connections_elsewhere) == 0;
}

void usage_unref(struct usage *usage)
{
    if (!usage)
        return;
    pthread_mutex_lock(&book.lock);
    if (--usage->refs == 0 && is_blank(usage)) {
        ASSERT(map_remove(&book.accounts, siphash((struct str){usage->id, usage->id_n}), usage));
        if (book.accounts.n_entries == 0)
            empty_book();
        free_account(usage);
    }
    pthread_mutex_unlock(&book.lock);
}

void usage_free_all(void)
{
    uint32_t cursor = 0;
    struct usage *usage;

    while ((usage = map_next(&book.accounts, &cursor)))
        free_account(usage);
    empty_book();
}

/* --- meters --- */

/* The present period of an allowance. False: there is no bound, or it does not hold yet. */
static bool find_window(const struct config_allowance *allowance, int64_t now_ms, struct usage_window *out)
{
    struct usage_period period = {allowance->since_ms, allowance->period == CONFIG_PERIOD_DAYS ? allowance->days : 0};

    return allowance->max >= 0 && usage_period_at(&period, now_ms, out);
}

/* Begins anew with a new period. What others add meanwhile is kept: only what was there before is taken away. */
static void turn(struct meter *meter, const struct usage_window *window)
{
    int64_t begin_ms = atomic_load(&meter->begin_ms), used = atomic_load(&meter->used);

    if (begin_ms != window->begin_ms && atomic_compare_exchange_strong(&meter->begin_ms, &begin_ms, window->begin_ms))
        atomic_fetch_sub(&meter->used, used);
}

/* What this instance and the others have used in the present period. */
static int64_t used_in(struct meter *here, struct meter *elsewhere, const struct usage_window *window)
{
    int64_t used = atomic_load(&here->used);

    return atomic_load(&elsewhere->begin_ms) == window->begin_ms ? used + atomic_load(&elsewhere->used) : used;
}

static int64_t size_of(const struct registry_tenant *ten, size_t payload_bytes)
{
    return usage_period_round((int64_t)payload_bytes, ten->limits->minimum_message_size);
}

bool usage_admits(const struct registry_tenant *ten, size_t payload_bytes, int64_t now_ms)
{
    struct usage_window window;
    int64_t allowed;

    if (payload_bytes == 0 || !ten->usage || !find_window(&ten->limits->data_volume, now_ms, &window))
        return true;
    turn(&ten->usage->bytes, &window);
    allowed = usage_period_share(&window, ten->limits->data_volume.max);
    return used_in(&ten->usage->bytes, &ten->usage->bytes_elsewhere, &window) + size_of(ten, payload_bytes) <= allowed;
}

static void add(const struct registry_tenant *ten, size_t payload_bytes, int64_t sign, int64_t now_ms)
{
    struct usage_window window;

    if (payload_bytes == 0 || !ten->usage || !find_window(&ten->limits->data_volume, now_ms, &window))
        return;
    turn(&ten->usage->bytes, &window);
    atomic_fetch_add(&ten->usage->bytes.used, sign * size_of(ten, payload_bytes));
}

void usage_count(const struct registry_tenant *ten, size_t payload_bytes, int64_t now_ms)
{
    add(ten, payload_bytes, 1, now_ms);
}

void usage_uncount(const struct registry_tenant *ten, size_t payload_bytes, int64_t now_ms)
{
    add(ten, payload_bytes, -1, now_ms);
}

/* --- connections --- */

/* Adds the time since the last look, as far as it is in the present period. Under the lock. */
static void measure(struct usage *usage, const struct usage_window *window, int64_t now_ms)
{
    int64_t from_ms = usage->measured_ms;

    usage->measured_ms = now_ms;
    usage->until_ms = window ? window->end_ms : 0;
    if (!window)
        return;
    turn(&usage->connected_ms, window);
    if (from_ms < window->begin_ms)
        from_ms = window->begin_ms;
    if (now_ms > from_ms)
        atomic_fetch_add(&usage->connected_ms.used, usage->n_connections * (now_ms - from_ms));
}

static enum usage_verdict judge(const struct registry_tenant *ten, const struct usage_window *window, unsigned n_leaving,
                                int64_t now_ms)
{
    const struct config_tenant_limits *limits = ten->limits;
    struct usage *usage = ten->usage;

    int64_t n_connections = usage->n_connections + atomic_load(&usage->n_connections_elsewhere);

    if (limits->max_connections >= 0 && n_connections - n_leaving >= limits->max_connections)
        return USAGE_TOO_MANY_CONNECTIONS;
    if (window && used_in(&usage->connected_ms, &usage->connected_ms_elsewhere, window) / MS_PER_MINUTE >=
                      usage_period_share(window, limits->connection_duration.max))
        return USAGE_CONNECTED_TOO_LONG;
    return usage_admits(ten, 1, now_ms) ? USAGE_ADMITTED : USAGE_TOO_MUCH_DATA; /* one that could not send a byte */
}

enum usage_verdict usage_connect(const struct registry_tenant *ten, unsigned n_leaving, int64_t now_ms)
{
    struct usage *usage = ten->usage;
    struct usage_window window;
    enum usage_verdict verdict;
    bool is_bounded;

    if (!usage)
        return USAGE_ADMITTED;
    is_bounded = find_window(&ten->limits->connection_duration, now_ms, &window);
    pthread_mutex_lock(&usage->lock);
    measure(usage, is_bounded ? &window : NULL, now_ms);
    verdict = judge(ten, is_bounded ? &window : NULL, n_leaving, now_ms);
    usage->n_connections += verdict == USAGE_ADMITTED;
    pthread_mutex_unlock(&usage->lock);
    return verdict;
}

void usage_disconnect(const struct registry_tenant *ten, int64_t now_ms)
{
    struct usage *usage = ten->usage;
    struct usage_window window;
    bool is_bounded;

    if (!usage)
        return;
    is_bounded = find_window(&ten->limits->connection_duration, now_ms, &window);
    pthread_mutex_lock(&usage->lock);
    measure(usage, is_bounded ? &window : NULL, now_ms);
    usage->n_connections--;
    ASSERT(usage->n_connections >= 0);
    pthread_mutex_unlock(&usage->lock);
}

/* --- over restarts --- */

/* Of connections that last, too; what of it is in the next period is counted when one comes or goes. */
static struct usage_state state_of(struct usage *usage, int64_t now_ms)
{
    struct usage_state state;

    pthread_mutex_lock(&usage->lock);
    if (usage->measured_ms < now_ms && now_ms < usage->until_ms) {
        atomic_fetch_add(&usage->connected_ms.used, usage->n_connections * (now_ms - usage->measured_ms));
        usage->measured_ms = now_ms;
    }
    state = (struct usage_state){
        .bytes_begin_ms = atomic_load(&usage->bytes.begin_ms),
        .bytes = atomic_load(&usage->bytes.used),
        .connected_begin_ms = atomic_load(&usage->connected_ms.begin_ms),
        .connected_ms = atomic_load(&usage->connected_ms.used),
        .n_connections = usage->n_connections,
    };
    pthread_mutex_unlock(&usage->lock);
    return state;
}

void usage_take_changes(void (*visit)(void *context, struct str tenant, const struct usage_state *state), void *context,
                        int64_t now_ms)
{
    uint32_t cursor = 0;
    struct usage *usage;

    pthread_mutex_lock(&book.lock);
    while ((usage = map_next(&book.accounts, &cursor))) {
        struct usage_state state = state_of(usage, now_ms);

        if (memcmp(&state, &usage->taken, sizeof state) == 0)
            continue;
        usage->taken = state;
        visit(context, (struct str){usage->id, usage->id_n}, &state);
    }
    pthread_mutex_unlock(&book.lock);
}

/* False: the meter has as much. */
static bool raise_meter(struct meter *meter, int64_t begin_ms, int64_t used)
{
    int64_t known_ms = atomic_load(&meter->begin_ms);

    if (known_ms > begin_ms || (known_ms == begin_ms && atomic_load(&meter->used) >= used))
        return false;
    atomic_store(&meter->begin_ms, begin_ms);
    atomic_store(&meter->used, used);
    return true;
}

void usage_restore(struct str tenant, const struct usage_state *state)
{
    struct usage *usage = usage_ref(tenant);

    pthread_mutex_lock(&book.lock);
    if (raise_meter(&usage->bytes, state->bytes_begin_ms, state->bytes)) {
        usage->taken.bytes_begin_ms = state->bytes_begin_ms;
        usage->taken.bytes = state->bytes;
    }
    if (raise_meter(&usage->connected_ms, state->connected_begin_ms, state->connected_ms)) {
        usage->taken.connected_begin_ms = state->connected_begin_ms;
        usage->taken.connected_ms = state->connected_ms;
    }
    pthread_mutex_unlock(&book.lock);
    usage_unref(usage);
}

/* --- several instances --- */

void usage_use_others(struct str tenant, const struct usage_state *others)
{
    struct usage *usage = usage_ref(tenant);

    atomic_store(&usage->n_connections_elsewhere, others->n_connections);
    atomic_store(&usage->bytes_elsewhere.used, others->bytes);
    atomic_store(&usage->bytes_elsewhere.begin_ms, others->bytes_begin_ms);
    atomic_store(&usage->connected_ms_elsewhere.used, others->connected_ms);
    atomic_store(&usage->connected_ms_elsewhere.begin_ms, others->connected_begin_ms);
    usage_unref(usage);
}

static void add_meter(int64_t *sum_begin_ms, int64_t *sum, int64_t begin_ms, int64_t used)
{
    if (begin_ms > *sum_begin_ms)
        *sum = 0;
    if (begin_ms < *sum_begin_ms)
        return;
    *sum_begin_ms = begin_ms;
    *sum += used;
}

void usage_add_state(struct usage_state *sum, const struct usage_state *state)
{
    add_meter(&sum->bytes_begin_ms, &sum->bytes, state->bytes_begin_ms, state->bytes);
    add_meter(&sum->connected_begin_ms, &sum->connected_ms, state->connected_begin_ms, state->connected_ms);
    sum->n_connections += state->n_connections;
}

const char *usage_verdict_name(enum usage_verdict verdict)
{
    static const char *const names[USAGE_VERDICTS] = {
        [USAGE_ADMITTED] = "admitted",
        [USAGE_TOO_MANY_CONNECTIONS] = "max_connections",
        [USAGE_CONNECTED_TOO_LONG] = "connection_duration",
        [USAGE_TOO_MUCH_DATA] = "data_volume",
    };

    return names[verdict];
}
