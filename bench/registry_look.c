/* How fast workers look up devices in the registry's table, as a stand-alone instance has it.
 *
 *     registry_look DATA_DIR TENANT DEVICES FEW THREADS MILLISECONDS PASSWORD
 *
 * Threads, as workers do, assert that device-0 to device-(DEVICES - 1) of the tenant may speak, in a random order: the first FEW of them, whom a
 * thread's cache holds (each thread has asked for them before), and all of them; then they log all of them in. Every one is looked up once before, so that pages are warm. The server
 * must have stopped. Prints one line of JSON: look-ups a second of all threads together for each, and what was read from the disk
 * meanwhile. Exit status: 0, 1 when somebody was not found, 2 usage. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/check.h"
#include "base/mem.h"
#include "latency.h"
#include "loop/loop.h"
#include "registry/hash_pool.h"
#include "registry/registry.h"
#include "registry/registry_decide.h"
#include "registry/registry_view.h"
#include "store/store.h"
#include "table/table.h"
#include "table/table_log_local.h"

enum { MAX_THREADS = 64, MAX_DEVICES = 10000000, MAX_MS = 600000, NAME_BYTES = 48, PATH_BYTES = 4096, AT_ONCE = 256 };

struct name {
    char text[NAME_BYTES]; /* `device-N@TENANT` */
    size_t id_n, n;
};

struct look {
    struct loop loop;
    struct hash_pool *pool;
    struct store *view_store, *log_store;
    struct table_log *log;
    struct registry_view *view;
    struct table *table;
    struct registry *registry;
    struct mail opened, changed;
    bool is_open;
    struct str tenant, password;
    struct name *names;
    uint64_t n_names, n_few, n_threads, limit_ms;
};

/* What the threads do, until time is up. */
struct phase {
    struct look *look;
    bool (*ask)(struct look *look, const struct name *name);
    uint64_t n_names;
    bool is_warmed_up; /* each thread asks for everybody once before it begins */
    atomic_bool is_over;
    atomic_ullong n_asked, n_missed, n_seeds;
    pthread_barrier_t begun;
};

static void give_up(const char *what, const char *why)
{
    fprintf(stderr, "registry_look: %s: %s\n", what, why);
    exit(1);
}

/* --- questions --- */

static bool ask_assertion(struct look *look, const struct name *name)
{
    struct registration registration;

    return registry_assert(look->registry, look->tenant, (struct str){name->text, name->id_n}, (struct str){0},
                           &registration) == REGISTRY_ASSERTED;
}

static bool ask_login(struct look *look, const struct name *name)
{
    const struct registry_login login = {
        .adapter = CONFIG_ADAPTER_MQTT,
        .has_user_name = true,
        .has_password = true,
        .user_name = {name->text, name->n},
        .password = look->password,
    };
    struct principal principal = {0};
    bool is_right = registry_authenticate(look->registry, &login, &principal) == REGISTRY_OK;

    principal_release(&principal);
    return is_right;
}

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Everybody once. Returns how many were not found. */
static uint64_t ask_in_order(struct phase *p)
{
    uint64_t n_missed = 0;

    for (uint64_t i = 0; i < p->n_names; i++)
        n_missed += !p->ask(p->look, &p->look->names[i]);
    return n_missed;
}

static void *run_thread(void *context)
{
    struct phase *p = context;
    uint64_t seed = UINT64_C(0x9E3779B97F4A7C15) * (atomic_fetch_add(&p->n_seeds, 1) + 1), n_asked = 0, n_missed = 0;

    if (p->is_warmed_up)
        n_missed = ask_in_order(p);
    pthread_barrier_wait(&p->begun);
    while (!atomic_load_explicit(&p->is_over, memory_order_relaxed)) {
        for (unsigned i = 0; i < AT_ONCE; i++)
            n_missed += !p->ask(p->look, &p->look->names[next_random(&seed) % p->n_names]);
        n_asked += AT_ONCE;
    }
    atomic_fetch_add(&p->n_asked, n_asked);
    atomic_fetch_add(&p->n_missed, n_missed);
    return NULL;
}

/* Returns questions a second, of all threads together. */
static double run_phase(struct phase *p)
{
    struct look *look = p->look;
    const struct timespec pause = {(time_t)(look->limit_ms / 1000), (long)(look->limit_ms % 1000) * 1000000};
    pthread_t threads[MAX_THREADS];
    uint64_t began;

    pthread_barrier_init(&p->begun, NULL, (unsigned)look->n_threads + 1);
    for (uint64_t i = 0; i < look->n_threads; i++)
        if (pthread_create(&threads[i], NULL, run_thread, p) != 0)
            give_up("thread", "cannot be started");
    pthread_barrier_wait(&p->begun);
    began = latency_clock_ns();
    nanosleep(&pause, NULL);
    atomic_store(&p->is_over, true);
    for (uint64_t i = 0; i < look->n_threads; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&p->begun);
    return (double)p->n_asked * 1e9 / (double)(latency_clock_ns() - began);
}

/* --- the instance --- */

static void on_opened(struct mail *m)
{
    CONTAINER_OF(m, struct look, opened)->is_open = true;
}

static void on_changed(struct mail *m)
{
    registry_view_accept_changes(CONTAINER_OF(m, struct look, changed)->view);
}

static struct registry *make_registry(void)
{
    static const char text[] = "kafka: {embedded: true}\nlisteners: [{mqtt: \"127.0.0.1:1883\"}]\n";
    static struct config_errors errors;
    const struct config_source source = {.text = str_from(text), .name = "registry_look"};
    struct registry *registry;
    struct config *config;

    if (config_load(&source, &config, &errors) != E_OK)
        give_up("configuration", errors.items[0].text);
    registry = registry_new(config);
    config_unref(config);
    return registry;
}

static err open_store(const char *folder, const char *name, enum store_durability durability, struct store **out,
                      struct errinfo *ei)
{
    char path[PATH_BYTES];
    const struct store_options options = {.path = path, .durability = durability};

    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return errinfo_set(ei, E_INVAL, "the path is too long");
    return store_open(&options, out, ei);
}

/* As the server does (main/server_registry.c). */
static void open_look(struct look *look, const char *folder)
{
    static const struct table_ops ops = {
        .decide = registry_decide, .on_applied = registry_view_on_applied, .on_rebuild = registry_view_on_rebuild};
    struct table_options options = {.name = "registry", .ops = &ops, .n_partitions = 1};
    struct errinfo ei = {0};
    err e = loop_init(&look->loop, 1 << 20, &ei);

    if (e == E_OK)
        e = open_store(folder, "tables", STORE_REBUILDABLE, &look->view_store, &ei);
    if (e == E_OK)
        e = open_store(folder, "tables-log", STORE_DURABLE, &look->log_store, &ei);
    if (e == E_OK)
        e = table_log_local_open(look->log_store, options.name, options.n_partitions, &look->log, &ei);
    if (e == E_OK)
        e = hash_pool_start(1, &look->pool, &ei);
    if (e != E_OK)
        give_up(folder, ei.text);
    look->opened.on_mail = on_opened;
    look->changed.on_mail = on_changed;
    look->view = registry_view_new(look->pool, &look->changed, &look->loop.mailbox);
    options.context = look->view;
    options.store = look->view_store;
    options.log = look->log;
    if (table_open(&options, &look->opened, &look->loop.mailbox, &look->table, &ei) != E_OK)
        give_up(folder, ei.text);
    registry_view_use_table(look->view, look->table);
    look->registry = make_registry();
    registry_use_view(look->registry, look->view);
    while (!look->is_open)
        loop_turn(&look->loop, 1000);
}

static void close_look(struct look *look)
{
    hash_pool_stop(look->pool);
    registry_view_close(look->view);
    table_close(look->table);
    loop_turn(&look->loop, 0);
    table_log_local_close(look->log);
    store_close(look->log_store);
    store_close(look->view_store);
    registry_view_free(look->view);
    registry_unref(look->registry);
    loop_fini(&look->loop);
    mem_free(MEM_TEST, look->names);
}

static void make_names(struct look *look)
{
    look->names = mem_alloc(MEM_TEST, look->n_names * sizeof *look->names);
    for (uint64_t i = 0; i < look->n_names; i++) {
        struct name *name = &look->names[i];

        name->id_n = (size_t)snprintf(name->text, sizeof name->text, "device-%llu", (unsigned long long)i);
        name->n = name->id_n +
                  (size_t)snprintf(name->text + name->id_n, sizeof name->text - name->id_n, "@%.*s", STR_ARG(look->tenant));
        if (name->n >= sizeof name->text)
            give_up("TENANT", "is too long");
    }
}

static struct rusage usage(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage;
}

static bool parse(struct look *look, int argc, char **argv)
{
    if (argc != 8)
        return false;
    look->tenant = str_from(argv[2]);
    look->password = str_from(argv[7]);
    return str_to_u64(str_from(argv[3]), MAX_DEVICES, &look->n_names) && look->n_names > 0 &&
           str_to_u64(str_from(argv[4]), look->n_names, &look->n_few) && look->n_few > 0 &&
           str_to_u64(str_from(argv[5]), MAX_THREADS, &look->n_threads) && look->n_threads > 0 &&
           str_to_u64(str_from(argv[6]), MAX_MS, &look->limit_ms);
}

int main(int argc, char **argv)
{
    static struct look look;
    struct phase phases[] = {
        {.look = &look, .ask = ask_assertion, .is_warmed_up = true},
        {.look = &look, .ask = ask_assertion},
        {.look = &look, .ask = ask_login},
    };
    static const char *const names[ARRAY_LEN(phases)] = {"few", "all", "login"};
    struct phase first = {.look = &look, .ask = ask_login};
    uint64_t n_missed;
    long reads;

    if (!parse(&look, argc, argv)) {
        fprintf(stderr, "usage: registry_look DATA_DIR TENANT DEVICES FEW THREADS MILLISECONDS PASSWORD\n");
        return 2;
    }
    make_names(&look);
    open_look(&look, argv[1]);
    first.n_names = look.n_names;
    n_missed = ask_in_order(&first);
    reads = usage().ru_inblock;
    printf("{");
    for (size_t i = 0; i < ARRAY_LEN(phases); i++) {
        phases[i].n_names = i == 0 ? look.n_few : look.n_names;
        printf("\"%s_per_s\": %.0f, ", names[i], run_phase(&phases[i]));
        n_missed += phases[i].n_missed;
    }
    printf("\"devices\": %llu, \"few\": %llu, \"threads\": %llu, \"missed\": %llu, \"disk_reads\": %ld, \"peak_mb\": %.1f}\n",
           (unsigned long long)look.n_names, (unsigned long long)look.n_few, (unsigned long long)look.n_threads,
           (unsigned long long)n_missed, usage().ru_inblock - reads, (double)usage().ru_maxrss * 1024 / 1e6);
    close_look(&look);
    return n_missed > 0;
}
