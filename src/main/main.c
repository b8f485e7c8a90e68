/* The program's entry: reads the command line and runs the command. */
#include <stdio.h>

#include "main/check_config.h"
#include "main/cli.h"
#include "main/command_send.h"
#include "main/completion.h"
#include "main/events.h"
#include "main/explain.h"
#include "main/fanout_parked.h"
#include "main/fanout_write.h"
#include "main/import_run.h"
#include "main/manage_run.h"
#include "main/serve.h"

static int help(const struct cli *cli)
{
    cli_print_help(stdout, cli->topic);
    return 0;
}

static int version(const struct cli *cli)
{
    (void)cli;
    cli_print_version(stdout);
    return 0;
}

static int (*const commands[CLI_COMMANDS])(const struct cli *cli) = {
    [CLI_HELP] = help,
    [CLI_VERSION] = version,
    [CLI_SERVE] = serve_run,
    [CLI_CHECK] = check_config_run,
    [CLI_EXPLAIN] = explain_run,
    [CLI_FANOUT] = serve_run,
    [CLI_FANOUT_WRITE] = fanout_write_run,
    [CLI_FANOUT_PARKED] = fanout_parked_run,
    [CLI_COMMAND_SEND] = command_send_run,
    [CLI_EVENTS] = events_run,
    [CLI_TENANT] = manage_run,
    [CLI_DEVICE] = manage_run,
    [CLI_CREDENTIALS] = manage_run,
    [CLI_IMPORT] = import_run,
    [CLI_COMPLETION] = completion_run,
};

int main(int argc, char **argv)
{
    static struct cli cli; /* all-zero; larger than a stack frame should be */
    struct errinfo ei = {0};
    int status = 2;

    if (cli_parse(argc, argv, &cli, &ei) == E_OK)
        status = commands[cli.command](&cli);
    else
        fprintf(stderr, "millrace: %s\nTry 'millrace --help'.\n", ei.text);
    cli_fini(&cli);
    return status;
}
