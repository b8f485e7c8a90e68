/* cli: the command line, as data. One table of flags gives the parser, the help texts and the man page's check; flags that
 * stand for an option of the configuration become `path=value` settings, so that they are checked by the option table as
 * a file is. Main thread only. Never prints unless the function says so. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"
#include "config/config.h"

enum { CLI_MAX_SETTINGS = 256 };

enum cli_command {
    CLI_HELP,    /* print cli_print_help() for `topic` and exit 0 */
    CLI_VERSION, /* print cli_print_version() and exit 0 */
    CLI_SERVE,
    CLI_CHECK,
    CLI_COMMANDS,
};

/* All-zero is valid. Texts are borrowed from argv. */
struct cli {
    enum cli_command command;
    enum cli_command topic; /* of CLI_HELP: which command it is about; CLI_HELP: all */
    bool is_dev;
    bool skips_secrets;
    bool prints_docs;
    const char *config_file;  /* NULL: none */
    const char *http_address; /* accepted and checked for a later version; nothing listens there */
    struct config_setting settings[CLI_MAX_SETTINGS];
    size_t setting_count;
    char *owned[CLI_MAX_SETTINGS]; /* texts of settings that were put together here */
    size_t owned_count;
};

/* Reads the arguments into `out_cli`, which the caller gives to cli_fini() in any case. E_INVAL: unknown command or flag (with the
 * nearest one in the text), a missing value, flags that exclude each other. */
MUST_USE err cli_parse(int argc, char *const *argv, struct cli *out_cli, struct errinfo *ei);
void cli_fini(struct cli *cli);

/* The configuration that the arguments ask for: the file or the built-in development settings, with the settings on top.
 * Errors as of config_load_file(). */
MUST_USE err cli_load_config(const struct cli *cli, struct config **out_config, struct config_errors *errors);

/* Prints every error on a line of its own: `file:line: message`. */
void cli_print_errors(FILE *to, const struct config_errors *errors);

void cli_print_help(FILE *to, enum cli_command topic);
void cli_print_version(FILE *to);
