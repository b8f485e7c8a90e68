#include "main/serve.h"

#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "main/fanout_serve.h"
#include "main/server.h"
#include "obs/obs_log.h"

static err start_log(const struct config *config, struct errinfo *ei)
{
    struct obs_log_options options = {
        .fd = STDERR_FILENO,
        .format = config->log_format == CONFIG_LOG_JSON ? OBS_LOG_JSON : OBS_LOG_LOGFMT,
    };

    reload_apply_log_levels(config);
    return obs_log_start(&options, ei);
}

static int run(const struct server_start *start)
{
    static struct server s; /* larger than a stack frame should be */
    struct errinfo ei = {0};
    int status = 1;

    if (server_init(&s, start, &ei) == E_OK) {
        loop_run(&s.loop);
        status = s.status;
    } else {
        LOG_ERROR(LOG_MAIN, "start.failed", F_TEXT("why", ei.text));
    }
    server_fini(&s);
    LOG_INFO(LOG_MAIN, "stopped", F_INT("status", status));
    return status;
}

int serve_run(const struct cli *cli)
{
    struct server_start start = {.cli = cli};
    struct config_errors errors = {0};
    struct errinfo ei = {0};
    int status;

    if (cli->config_file)
        start.stamp = file_watch_stamp(cli->config_file);
    if (reload_load(cli, 1, NULL, &start.first, &errors) != E_OK) {
        cli_print_errors(stderr, &errors);
        return 1;
    }
    if (cli->command == CLI_FANOUT && !start.first->config->fanout.is_enabled) {
        fprintf(stderr, "millrace: %s has no section fanout\n", cli_source_name(cli));
        generation_unref(start.first);
        return 1;
    }
    if (start_log(start.first->config, &ei) != E_OK) {
        fprintf(stderr, "millrace: %s\n", ei.text);
        generation_unref(start.first);
        return 1;
    }
    if (config_is_fanout_alone(start.first->config)) {
        status = fanout_serve_run(cli, start.first->config);
        generation_unref(start.first);
    } else {
        status = run(&start);
    }
    obs_log_stop();
    return status;
}
