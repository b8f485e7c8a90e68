#include "main/fanout_serve.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "admin/admin.h"
#include "base/check.h"
#include "base/log.h"
#include "config/option.h"
#include "main/process.h"
#include "main/server_fanout.h"
#include "main/tls_options.h"
#include "main/tls_watch.h"
#include "obs/metrics.h"

enum { ADDRESS_BYTES = 80, MAIN_MAILBOX_BYTES = 1 << 20 };

enum state { STARTING, READY, DRAINING };

struct fanout_server {
    struct loop loop; /* the main thread's */
    struct workers workers;
    struct server_fanout fanout;
    struct admin *admin;
    const struct cli *cli;
    const struct config *config;
    struct generation_tls tls; /* of https subscribers and of the administration port */
    struct tls_watch tls_watch;
    struct io signals;
    struct mail started, drained;
    enum state state;
    bool workers_run;
};

static enum admin_readiness readiness(void *context)
{
    static const enum admin_readiness answers[] = {
        [STARTING] = ADMIN_STARTING, [READY] = ADMIN_READY, [DRAINING] = ADMIN_DRAINING};

    return answers[((const struct fanout_server *)context)->state];
}

/* One line, on stdout, for people and for scripts that wait for it. */
static void print_ready(struct fanout_server *s)
{
    char address[ADDRESS_BYTES];

    server_fanout_name(&s->fanout, address, sizeof address);
    printf("millrace ready fanout=%s", address);
    if (s->admin) {
        admin_name(s->admin, address, sizeof address);
        printf(" admin=%s", address);
    }
    printf("\n");
    fflush(stdout);
}

static void on_started(struct mail *m)
{
    struct fanout_server *s = CONTAINER_OF(m, struct fanout_server, started);

    if (s->state != STARTING)
        return;
    s->state = READY;
    LOG_INFO(LOG_MAIN, "ready", F_INT("workers", s->workers.n));
    server_fanout_follow(&s->fanout);
    print_ready(s);
}

static void on_drained(struct mail *m)
{
    loop_stop(&CONTAINER_OF(m, struct fanout_server, drained)->loop);
}

static void drain(struct fanout_server *s)
{
    if (s->state == STARTING) {
        loop_stop(&s->loop);
        return;
    }
    LOG_INFO(LOG_MAIN, "drain");
    s->state = DRAINING;
    server_fanout_drain(&s->fanout, &s->drained);
}

/* The first https target is there, or may come with a request. */
static void on_https(void *context)
{
    static struct config_errors errors; /* larger than a stack frame should be */
    struct fanout_server *s = context;

    if (s->tls.client)
        return;
    errors = (struct config_errors){0};
    if (tls_options_make_client(s->config, cli_source_name(s->cli), &s->tls.client, &errors) != E_OK) {
        LOG_ERROR(LOG_CONFIG, "tls.invalid", F_TEXT("why", errors.items[0].text));
        return;
    }
    server_fanout_use_tls(&s->fanout, s->tls.client);
}

/* Reads the files of TLS, at the start and again. What holds stays when they are no good. */
static err make_tls(struct fanout_server *s, struct errinfo *ei)
{
    static struct config_errors errors; /* larger than a stack frame should be */
    struct generation_tls made;

    errors = (struct config_errors){0};
    if (tls_options_make(s->config, cli_source_name(s->cli), s->tls.tickets, NULL, &made, &errors) != E_OK)
        return errinfo_set(ei, E_INVAL, "%s", errors.items[0].text);
    generation_free_tls(&s->tls);
    s->tls = made;
    return E_OK;
}

static void renew_tls(struct fanout_server *s)
{
    bool was_client_needed = s->tls.client != NULL;
    struct errinfo ei = {0};

    if (make_tls(s, &ei) != E_OK) {
        LOG_ERROR(LOG_CONFIG, "tls.invalid", F_TEXT("why", ei.text));
        return;
    }
    if (was_client_needed)
        on_https(s);
    server_fanout_use_tls(&s->fanout, s->tls.client);
    if (s->admin)
        admin_use_tls(s->admin, s->tls.admin);
}

static void on_tls_change(struct tls_watch *tw)
{
    renew_tls(CONTAINER_OF(tw, struct fanout_server, tls_watch));
}

static void on_signal(struct io *io, uint32_t events)
{
    struct fanout_server *s = CONTAINER_OF(io, struct fanout_server, signals);
    struct signalfd_siginfo info;

    (void)events;
    while (read(io->fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGHUP) {
            server_fanout_reload(&s->fanout);
            renew_tls(s);
        } else {
            drain(s);
        }
    }
}

/* Whether a file or the command line gives the option, instead of its default. */
static bool is_given(const struct cli *cli, const struct config *config, const char *path)
{
    size_t n = strlen(path);

    for (size_t i = 0; i < cli->setting_count; i++)
        if (strncmp(cli->settings[i].text, path, n) == 0 && cli->settings[i].text[n] == '=')
            return true;
    return config_line(config, (size_t)(option_at(str_from(path)) - option_table)) > 0;
}

/* Several sidecars of one pod share its ports; the one that nobody asked for is no reason not to serve. */
static err open_admin(struct fanout_server *s, const struct cli *cli, const struct config *config, struct errinfo *ei)
{
    struct admin_probes probes = {.readiness = readiness, .context = s, .workers = &s->workers};
    err e;

    if (config->admin_listen.host.n == 0)
        return E_OK;
    probes.routes = server_fanout_routes(&s->fanout, &probes.n_routes);
    e = admin_open(&s->loop, config->admin_listen.text, &probes, &s->admin, ei);
    if (e == E_OK)
        admin_use_tls(s->admin, s->tls.admin);
    if (e != E_BUSY || is_given(cli, config, "admin.listen"))
        return e;
    LOG_WARN(LOG_ADMIN, "listen", F_TEXT("why", ei->text));
    return E_OK;
}

static err open_fanout(struct fanout_server *s, const struct cli *cli, struct config *config, struct errinfo *ei)
{
    struct server_fanout_settings settings = {.loop = &s->loop,
                                              .workers = &s->workers,
                                              .config = config,
                                              .has_disk = is_given(cli, config, "data_dir"),
                                              .tls = s->tls.client,
                                              .on_https = on_https,
                                              .context = s};

    return server_fanout_open(&s->fanout, &settings, ei);
}

static err init(struct fanout_server *s, const struct cli *cli, struct config *config, struct errinfo *ei)
{
    err e;

    *s = (struct fanout_server){.signals = {.fd = -1},
                                .cli = cli,
                                .config = config,
                                .started = {.on_mail = on_started},
                                .drained = {.on_mail = on_drained}};
    process_raise_descriptors();
    (void)mallopt(M_ARENA_MAX, (int)process_worker_count(config)); /* larger, not wrong, without it */
    e = loop_init(&s->loop, MAIN_MAILBOX_BYTES, ei);
    if (e != E_OK)
        return e;
    metrics_attach_thread();
    e = process_watch_signals(&s->loop, &s->signals, on_signal, ei);
    if (e == E_OK)
        e = process_init_workers(&s->workers, config, &s->loop, ei);
    if (e == E_OK)
        e = make_tls(s, ei);
    if (e == E_OK)
        tls_watch_open(&s->tls_watch, &s->loop, config, cli_source_name(cli), on_tls_change);
    if (e == E_OK)
        e = open_fanout(s, cli, config, ei);
    if (e == E_OK)
        e = open_admin(s, cli, config, ei);
    if (e == E_OK)
        e = workers_start(&s->workers, ei);
    if (e != E_OK)
        return e;
    s->workers_run = true;
    server_fanout_start(&s->fanout, &s->started);
    return E_OK;
}

static void fini(struct fanout_server *s)
{
    admin_close(s->admin);
    if (s->loop.epoll_fd > 0)
        loop_turn(&s->loop, 0);
    if (s->workers_run)
        workers_stop(&s->workers);
    server_fanout_free(&s->fanout);
    tls_watch_close(&s->tls_watch);
    generation_free_tls(&s->tls);
    workers_fini(&s->workers);
    if (s->signals.fd >= 0)
        close(s->signals.fd);
    loop_fini(&s->loop);
}

int fanout_serve_run(const struct cli *cli, struct config *config)
{
    static struct fanout_server s; /* larger than a stack frame should be */
    struct errinfo ei = {0};
    int status = 1;

    if (init(&s, cli, config, &ei) == E_OK) {
        loop_run(&s.loop);
        status = 0;
    } else {
        LOG_ERROR(LOG_MAIN, "start.failed", F_TEXT("why", ei.text));
    }
    fini(&s);
    LOG_INFO(LOG_MAIN, "stopped", F_INT("status", status));
    return status;
}
