#include "main/cli.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/str.h"
#include "config/config_doc.h"
#include "config/nearest.h"
#include "main/cli_flag.h"

enum { HELP_COLUMN = 24, HELP_WIDTH = 100 };

/* The arguments that are not read yet. */
struct arguments {
    int left;
    char *const *next;
};

static err refuse_word(struct errinfo *ei, const char *what, const char *word, const struct nearest *near)
{
    struct str best = nearest_result(near);

    return errinfo_set(ei, E_INVAL, "%s %s%s%.*s%s", what, word, best.n ? " (did you mean " : "", STR_ARG(best),
                       best.n ? "?)" : "");
}

static err add_setting(struct cli *cli, const char *text, struct errinfo *ei)
{
    if (cli->setting_count == CLI_MAX_SETTINGS)
        return errinfo_set(ei, E_LIMIT, "too many settings (at most %d)", CLI_MAX_SETTINGS);
    cli->settings[cli->setting_count++].text = text;
    return E_OK;
}

static err add_path_setting(struct cli *cli, const struct cli_flag_row *flag, const char *value, struct errinfo *ei)
{
    size_t n = strlen(flag->path), size = n + strlen(value) + 2;
    char *text = mem_alloc(MEM_CONFIG, size);
    err e;

    (void)snprintf(text, size, "%s=%s", flag->path, value); /* fits by construction */
    e = add_setting(cli, text, ei);
    if (e != E_OK) {
        mem_free(MEM_CONFIG, text);
        return e;
    }
    cli->owned[cli->owned_count++] = text;
    return flag->with ? add_setting(cli, flag->with, ei) : E_OK;
}

static err add_property(struct cli *cli, const char *value, struct errinfo *ei)
{
    if (cli->explain.n_properties == CLI_MAX_PROPERTIES)
        return errinfo_set(ei, E_LIMIT, "too many user properties (at most %d)", CLI_MAX_PROPERTIES);
    cli->explain.properties[cli->explain.n_properties++] = value;
    return E_OK;
}

static err apply_flag(struct cli *cli, const struct cli_flag_row *flag, const char *value, struct errinfo *ei)
{
    static const bool on = true;

    switch (flag->kind) {
    case CLI_FLAG_SETTING:
        return add_path_setting(cli, flag, value, ei);
    case CLI_FLAG_SET:
        return add_setting(cli, value, ei);
    case CLI_FLAG_PROPERTY:
        return add_property(cli, value, ei);
    case CLI_FLAG_TEXT:
        memcpy((char *)cli + flag->offset, &value, sizeof value);
        break;
    case CLI_FLAG_SWITCH:
        memcpy((char *)cli + flag->offset, &on, sizeof on);
        break;
    case CLI_FLAG_CONFIG:
        cli->config_file = value;
        break;
    case CLI_FLAG_HELP:
        cli->topic = cli->command;
        cli->command = CLI_HELP;
        break;
    }
    return E_OK;
}

static bool is_letter_of(const struct cli_flag_row *flag, const char *word)
{
    return flag->letter && word[0] == '-' && word[1] == flag->letter && word[2] == '\0';
}

/* The flag that `word` names, which may be `--flag=value`. */
static const struct cli_flag_row *find_flag(enum cli_command command, const char *word, struct nearest *near)
{
    struct str name = {word, strcspn(word, "=")};

    near->word = name;
    for (size_t i = 0; i < cli_flag_count; i++) {
        const struct cli_flag_row *flag = &cli_flag_table[i];

        if (!(flag->commands & 1u << command))
            continue;
        if (str_equal(name, str_from(flag->name)) || is_letter_of(flag, word))
            return flag;
        if (!flag->is_hidden)
            nearest_offer(near, str_from(flag->name));
    }
    return NULL;
}

static err read_flag(struct cli *cli, struct arguments *args, struct errinfo *ei)
{
    const char *word = *args->next, *equals = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : NULL, *value = NULL;
    struct nearest near = {0};
    const struct cli_flag_row *flag = find_flag(cli->command, word, &near);

    args->next++;
    args->left--;
    if (!flag && (word[0] != '-' || !word[1]) && cli->manage.n_words < cli_command_table[cli->command].max_words) {
        cli->manage.words[cli->manage.n_words++] = word;
        return E_OK;
    }
    if (!flag)
        return refuse_word(ei, word[0] == '-' ? "unknown flag" : "unexpected argument", word, &near);
    if (!flag->value && equals)
        return errinfo_set(ei, E_INVAL, "%s takes no value", flag->name);
    if (flag->value && equals) {
        value = equals + 1;
    } else if (flag->value) {
        if (args->left == 0)
            return errinfo_set(ei, E_INVAL, "%s needs a value: %s", word, flag->value);
        value = *args->next++;
        args->left--;
    }
    return apply_flag(cli, flag, value, ei);
}

static bool is_word(const char *word, const char *name, const char *letter)
{
    return strcmp(word, name) == 0 || strcmp(word, letter) == 0;
}

/* `next` is the word behind it, or NULL. */
static err find_command(const char *word, const char *next, enum cli_command *out_command, struct errinfo *ei)
{
    struct nearest near = {.word = str_from(word)};
    bool is_found = false;

    for (int i = 0; i < CLI_COMMANDS; i++) {
        const char *name = cli_command_table[i].name, *object = cli_command_table[i].object;

        if (name && strcmp(word, name) == 0) {
            if (!is_found || (object && next && strcmp(next, object) == 0))
                *out_command = (enum cli_command)i;
            is_found = true;
        }
        if (name)
            nearest_offer(&near, str_from(name));
    }
    if (is_found)
        return E_OK;
    return refuse_word(ei, word[0] == '-' ? "unknown flag" : "unknown command", word, &near);
}

static err check_import(const struct cli_manage *m, struct errinfo *ei)
{
    bool is_mosquitto = m->n_words && strcmp(m->words[0], "mosquitto") == 0;

    if (!is_mosquitto && (m->n_words == 0 || strcmp(m->words[0], "hono") != 0))
        return errinfo_set(ei, E_INVAL, "import from where? mosquitto or hono");
    if (is_mosquitto && !m->tenant)
        return errinfo_set(ei, E_INVAL, "into which tenant? --tenant ID");
    if (!is_mosquitto && m->acl)
        return errinfo_set(ei, E_INVAL, "--acl is a file of mosquitto");
    if (m->n_words < 2 && !m->acl)
        return errinfo_set(ei, E_INVAL, "import which files?");
    return E_OK;
}

static err check_sources(const struct cli *cli, struct errinfo *ei)
{
    if (cli->command == CLI_HELP || cli->prints_docs || cli->prints_schema)
        return E_OK;
    if (cli->command == CLI_EXPLAIN && !cli->explain.client)
        return errinfo_set(ei, E_INVAL, "which client? --client ID");
    if (cli->command == CLI_EXPLAIN && !cli->explain.topic)
        return errinfo_set(ei, E_INVAL, "which topic? --topic TOPIC");
    if (cli->command == CLI_COMMAND_SEND && (!cli->talk.tenant || !cli->talk.device || !cli->talk.name))
        return errinfo_set(ei, E_INVAL, "which command to whom? --tenant ID --device ID --name NAME");
    if (cli->command == CLI_EVENTS && !cli->talk.tenant)
        return errinfo_set(ei, E_INVAL, "of which tenant? --tenant ID");
    if (cli->command == CLI_IMPORT)
        return check_import(&cli->manage, ei);
    if (cli->is_dev && cli->config_file)
        return errinfo_set(ei, E_INVAL, "--dev and --config exclude each other");
    if (cli->command == CLI_FANOUT || cli->command == CLI_FANOUT_WRITE || cli->command == CLI_FANOUT_PARKED)
        return E_OK;
    if (cli_command_table[cli->command].max_words)
        return cli->manage.n_words ? E_OK
                                   : errinfo_set(ei, E_INVAL, "%s what? %s", cli_command_table[cli->command].name,
                                                 cli_command_table[cli->command].usage);
    if (!cli->is_dev && !cli->config_file && cli->setting_count == 0)
        return errinfo_set(ei, E_INVAL, "which configuration? -c FILE, or --dev to try it out");
    return E_OK;
}

/* The second word of a command that has one; a request for help may stand in its place. */
static err read_object(enum cli_command command, struct arguments *args, struct errinfo *ei)
{
    const char *object = cli_command_table[command].object;

    if (!object || (args->left > 0 && is_word(*args->next, "--help", "-h")))
        return E_OK;
    if (args->left == 0 || strcmp(*args->next, object) != 0)
        return errinfo_set(ei, E_INVAL, "%s what? %s", cli_command_table[command].name, cli_command_table[command].usage);
    args->next++;
    args->left--;
    return E_OK;
}

err cli_parse(int argc, char *const *argv, struct cli *out_cli, struct errinfo *ei)
{
    struct arguments args = {argc - 1, argv + 1};
    err e = E_OK;

    *out_cli = (struct cli){0};
    if (args.left <= 0)
        return errinfo_set(ei, E_INVAL, "a command is missing; millrace --help lists them");
    if (is_word(*args.next, "--help", "-h"))
        return E_OK;
    if (is_word(*args.next, "--version", "-V")) {
        out_cli->command = CLI_VERSION;
        return E_OK;
    }
    e = find_command(*args.next, args.left > 1 ? args.next[1] : NULL, &out_cli->command, ei);
    args.next++;
    args.left--;
    if (e == E_OK)
        e = read_object(out_cli->command, &args, ei);
    while (e == E_OK && args.left > 0 && out_cli->command != CLI_HELP)
        e = read_flag(out_cli, &args, ei);
    return e == E_OK ? check_sources(out_cli, ei) : e;
}

void cli_fini(struct cli *cli)
{
    while (cli->owned_count)
        mem_free(MEM_CONFIG, cli->owned[--cli->owned_count]);
    *cli = (struct cli){0};
}

const char *cli_source_name(const struct cli *cli)
{
    if (cli->config_file)
        return cli->config_file;
    return cli->is_dev ? "--dev" : "command line";
}

err cli_load_config(const struct cli *cli, struct config **out_config, struct config_errors *errors)
{
    struct config_source source = {
        .name = cli_source_name(cli),
        .settings = cli->settings,
        .setting_count = cli->setting_count,
        .skips_secrets = cli->skips_secrets,
    };

    if (cli->config_file)
        return config_load_file(&source, out_config, errors);
    if (cli->is_dev)
        source.text = str_from(cli_dev_text);
    else if (cli->command != CLI_SERVE && cli->command != CLI_CHECK && cli->command != CLI_EXPLAIN)
        source.text = STR("fanout: {}\n"); /* the section alone, which needs no listeners; the rest is as the flags say */
    return config_load(&source, out_config, errors);
}

void cli_print_errors(FILE *to, const struct config_errors *errors)
{
    for (size_t i = 0; i < errors->count; i++) {
        const struct errinfo *ei = &errors->items[i];

        if (ei->line)
            fprintf(to, "%s:%u: %s\n", ei->file, ei->line, ei->text);
        else
            fprintf(to, "%s: %s\n", ei->file, ei->text);
    }
    if (errors->omitted)
        fprintf(to, "and %zu more\n", errors->omitted);
}

/* Writes the words of `text` into lines, all but the first indented to HELP_COLUMN. */
static void print_wrapped(FILE *to, const char *text)
{
    size_t column = HELP_COLUMN;

    while (*text) {
        size_t n = strcspn(text, " ");

        if (column > HELP_COLUMN && column + 1 + n > HELP_WIDTH) {
            fprintf(to, "\n%*s", HELP_COLUMN, "");
            column = HELP_COLUMN;
        } else if (column > HELP_COLUMN) {
            fputc(' ', to);
            column++;
        }
        fprintf(to, "%.*s", (int)n, text);
        column += n;
        text += n;
        text += strspn(text, " ");
    }
    fputc('\n', to);
}

static void print_flags(FILE *to, enum cli_command command)
{
    fputs("\nFlags:\n", to);
    for (size_t i = 0; i < cli_flag_count; i++) {
        const struct cli_flag_row *flag = &cli_flag_table[i];
        char head[64], letter[8] = "";

        if (flag->is_hidden || !(flag->commands & 1u << command))
            continue;
        if (flag->letter)
            (void)snprintf(letter, sizeof letter, "-%c, ", flag->letter); /* fits */
        (void)snprintf(head, sizeof head, "  %s%s %s", letter, flag->name,
                       flag->value ? flag->value : ""); /* the longest is 23 bytes */
        fprintf(to, "%-*s", HELP_COLUMN, head);
        print_wrapped(to, flag->help);
    }
}

static bool takes_settings(enum cli_command command)
{
    for (size_t i = 0; i < cli_flag_count; i++)
        if (cli_flag_table[i].kind == CLI_FLAG_SET)
            return cli_flag_table[i].commands & 1u << command;
    return false;
}

static void print_command(FILE *to, const struct cli_command_row *row)
{
    char name[64];

    (void)snprintf(name, sizeof name, "%s%s%s", row->name, row->object ? " " : "", row->object ? row->object : ""); /* fits */
    fprintf(to, "  %-*s%s\n", HELP_COLUMN - 2, name, row->summary);
}

void cli_print_help(FILE *to, enum cli_command topic)
{
    if (topic != CLI_HELP) {
        fprintf(to, "Usage: %s\n\n%s", cli_command_table[topic].usage, cli_command_table[topic].description);
        print_flags(to, topic);
        if (takes_settings(topic)) {
            fprintf(to, "\nOptions of the file and of --set%s, explained in CONFIGURATION.md:\n",
                    cli_command_table[topic].options ? " that matter here" : "");
            config_doc_write_list(to, cli_command_table[topic].options);
        }
        return;
    }
    fputs("Usage: millrace COMMAND [FLAGS]\n\nConnects devices to Apache Kafka and Kafka to devices.\n\nCommands:\n", to);
    for (int i = 0; i < CLI_COMMANDS; i++)
        if (cli_command_table[i].name)
            print_command(to, &cli_command_table[i]);
    fprintf(to, "\nFlags:\n  %-*s%s\n  %-*s%s\n", HELP_COLUMN - 2, "-h, --help", "this text; after a command: its own",
            HELP_COLUMN - 2, "-V, --version", "the version");
    fputs("\nTo try it out: millrace serve --dev\n", to);
}

void cli_print_version(FILE *to)
{
    fputs("millrace " MILLRACE_VERSION "\n", to);
}
