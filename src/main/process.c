#include "main/process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "obs/metrics.h"
#include "obs/process_metrics.h"
#include "obs/tls_metrics.h"

enum {
    WORKER_MAILBOX_BYTES = 32 << 20, /* messages on their way to one worker; past it publishers wait */
    LOOP_NAME_BYTES = 24,
};

void process_raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        LOG_WARN(LOG_MAIN, "descriptors.limit", F_TEXT("why", strerror(errno)));
    LOG_DEBUG(LOG_MAIN, "descriptors", F_INT("limit", limit.rlim_cur));
}

err process_watch_signals(struct loop *l, struct io *signals, void (*on_io)(struct io *io, uint32_t events), struct errinfo *ei)
{
    sigset_t mask;

    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &mask, NULL);
    *signals = (struct io){.fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC), .on_io = on_io};
    if (signals->fd < 0 || loop_watch(l, signals, EPOLLIN) != E_OK)
        return errinfo_set(ei, E_IO, "cannot watch signals: %s", strerror(errno));
    return E_OK;
}

err process_make_data_dir(const struct config *config, struct errinfo *ei)
{
    const char *dir = config->data_dir.p;

    if (mkdir(dir, 0700) == 0 || errno == EEXIST)
        return E_OK;
    return errinfo_set(ei, E_IO, "cannot make the data directory %s: %s", dir, strerror(errno));
}

unsigned process_worker_count(const struct config *config)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t n = config->workers ? config->workers : (uint64_t)(cpus > 0 ? cpus : 1);

    return n < WORKERS_MAX ? (unsigned)n : WORKERS_MAX;
}

static void on_worker_thread(struct worker *w)
{
    (void)w;
    metrics_attach_thread();
}

err process_init_workers(struct workers *ws, const struct config *config, struct loop *main_loop, struct errinfo *ei)
{
    err e = workers_init(ws, process_worker_count(config), WORKER_MAILBOX_BYTES, on_worker_thread, ei);

    if (e != E_OK)
        return e;
    process_metrics_register();
    tls_metrics_register();
    process_metrics_register_loop(main_loop, "main");
    for (unsigned i = 0; i < ws->n; i++) {
        char name[LOOP_NAME_BYTES];

        snprintf(name, sizeof name, "worker-%u", i);
        process_metrics_register_loop(&ws->list[i].loop, name);
    }
    return E_OK;
}
