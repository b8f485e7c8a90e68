#include "main/serve.h"

#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "main/rule_options.h"
#include "main/server.h"
#include "obs/obs_log.h"

static err start_log(const struct config *config, struct errinfo *ei)
{
    struct obs_log_options options = {
        .fd = STDERR_FILENO,
        .format = config->log_format == CONFIG_LOG_JSON ? OBS_LOG_JSON : OBS_LOG_LOGFMT,
    };

    for (int sub = 0; sub < LOG_SUBS; sub++)
        log_set_level((enum log_sub)sub, config->log_levels[sub]);
    return obs_log_start(&options, ei);
}

static int run(struct generation *first)
{
    static struct server s; /* larger than a stack frame should be */
    struct errinfo ei = {0};
    int status = 1;

    if (server_init(&s, first, &ei) == E_OK) {
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
    struct config_errors errors = {0};
    struct rule_table *rules = NULL;
    struct config *config = NULL;
    struct errinfo ei = {0};
    int status;

    if (cli_load_config(cli, &config, &errors) != E_OK ||
        rule_options_make(config, cli_source_name(cli), &rules, &errors) != E_OK) {
        cli_print_errors(stderr, &errors);
        config_unref(config);
        return 1;
    }
    if (start_log(config, &ei) != E_OK) {
        fprintf(stderr, "millrace: %s\n", ei.text);
        config_unref(config);
        rule_table_unref(rules);
        return 1;
    }
    status = run(generation_new(1, config, rules));
    obs_log_stop();
    return status;
}
