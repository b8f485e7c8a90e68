/* cli: the command line, as data. One table of flags gives the parser, the help texts and the check of the man page; flags
 * that stand for an option of the configuration become `path=value` settings, so that the option table checks them as it
 * checks a file. Main thread only. Prints nothing unless the function says so. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"
#include "config/config.h"

enum { CLI_MAX_SETTINGS = 256 };

enum cli_command {
    CLI_HELP,    /* print cli_print_help() of `topic` and exit 0 */
    CLI_VERSION, /* print cli_print_version() and exit 0 */
    CLI_SERVE,
    CLI_CHECK,
    CLI_EXPLAIN,
    CLI_FANOUT,
    CLI_FANOUT_WRITE,
    CLI_FANOUT_PARKED,
    CLI_COMMAND_SEND,
    CLI_EVENTS,
    CLI_TENANT,
    CLI_DEVICE,
    CLI_CREDENTIALS,
    CLI_IMPORT,
    CLI_COMPLETION,
    CLI_COMMANDS,
};

enum { CLI_MAX_PROPERTIES = 32 };

/* What `explain publish` is asked about; NULL: not given. */
struct cli_explain {
    const char *client, *user, *topic, *qos, *payload, *content_type, *listener, *output;
    const char *properties[CLI_MAX_PROPERTIES]; /* NAME=VALUE */
    size_t n_properties;
    bool retain;
};

/* What `command send` and `events` are asked for; NULL: not given. */
struct cli_talk {
    const char *tenant, *device, *name, *payload, *content_type, *ttl, *timeout, *count, *output;
    bool wants_response, wants_ack;
};

enum { CLI_MAX_WORDS = 16 };

/* What `tenant`, `device` and `credentials` are asked for: a verb and ids; `import`: a source and files. NULL: not given. */
struct cli_manage {
    const char *words[CLI_MAX_WORDS];
    unsigned n_words;
    const char *api, *ca, *user, *token, *body, *if_match, *filter, *sort, *page, *page_size, *output;
    const char *tenant, *acl; /* of `import` */
    bool has_secrets, is_dry, is_update;
};

/* All-zero is valid. Texts are borrowed from argv, which is never freed. */
struct cli {
    enum cli_command command;
    enum cli_command topic; /* of CLI_HELP: the command it is about; CLI_HELP: all of them */
    bool is_dev;
    bool skips_secrets;
    bool prints_acls;
    bool prints_docs, prints_schema;
    const char *config_file; /* NULL: none */
    const char *from;        /* of `fanout write-config` and the management: the file, `-` is stdin; NULL: not given */
    struct cli_explain explain;
    struct cli_talk talk;
    struct cli_manage manage;
    struct config_setting settings[CLI_MAX_SETTINGS];
    size_t setting_count;
    char *owned[CLI_MAX_SETTINGS]; /* those of the settings that were put together here */
    size_t owned_count;
};

/* Reads the arguments into `out_cli`, which the caller gives to cli_fini() in any case. E_INVAL: unknown command or flag (the
 * nearest one is in the text), a missing value, flags that exclude each other. E_LIMIT: over CLI_MAX_SETTINGS. */
MUST_USE err cli_parse(int argc, char *const *argv, struct cli *out_cli, struct errinfo *ei);
void cli_fini(struct cli *cli);

/* The configuration that the arguments ask for: the file or the built-in settings of --dev, with the settings on top.
 * Errors as of config_load_file(). May block on the disk. */
MUST_USE err cli_load_config(const struct cli *cli, struct config **out_config, struct config_errors *errors);

/* Where that configuration comes from, for messages: the file, else "--dev" or "command line". */
const char *cli_source_name(const struct cli *cli);

/* Prints each error on a line of its own: `file:line: message`. */
void cli_print_errors(FILE *to, const struct config_errors *errors);

void cli_print_help(FILE *to, enum cli_command topic);
void cli_print_version(FILE *to);
