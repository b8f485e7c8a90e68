/* cli_flag: the table of commands and flags. Immutable, any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "main/cli.h"

struct cli_command_row {
    const char *name;    /* as typed; NULL: not a command of its own */
    const char *summary; /* one line */
    const char *usage;
    const char *object;      /* a second word that must follow, or NULL; of two rows with one name it decides which is meant */
    const char *description; /* paragraphs of the help */
    const char *options; /* those of the configuration that matter to it, as config_doc_write_list() takes them; NULL: all */
    unsigned max_words;  /* that are no flags: kept in cli->manage */
    const char *const *verbs; /* what the first of those may be, ended by NULL; NULL: anything */
    bool takes_files;         /* those behind it are files */
};

enum cli_flag_kind {
    CLI_FLAG_SETTING, /* becomes `path=VALUE` */
    CLI_FLAG_SET,     /* is PATH=VALUE itself */
    CLI_FLAG_CONFIG,
    CLI_FLAG_HELP,
    CLI_FLAG_TEXT,     /* kept in struct cli, at `offset`, */
    CLI_FLAG_SWITCH,   /* as is the bool of one that takes no value */
    CLI_FLAG_PROPERTY, /* can be given again */
};

struct cli_flag_row {
    const char *name; /* with its dashes */
    char letter;      /* of the short form, 0: none */
    bool is_hidden;   /* from the help texts */
    enum cli_flag_kind kind;
    unsigned commands; /* bits 1u << enum cli_command that take it */
    const char *value; /* what its value is called; NULL: it takes none */
    const char *path;  /* of CLI_FLAG_SETTING */
    const char *with;  /* another setting that comes with it, or NULL */
    size_t offset;     /* of CLI_FLAG_TEXT and CLI_FLAG_SWITCH */
    const char *help;
};

extern const struct cli_command_row cli_command_table[CLI_COMMANDS];
extern const struct cli_flag_row cli_flag_table[];
extern const size_t cli_flag_count;

/* The configuration of --dev, as YAML. */
extern const char cli_dev_text[];
