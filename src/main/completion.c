#include "main/completion.h"

#include <string.h>

#include "base/check.h"
#include "main/cli_flag.h"

/* What can stand for a flag's value, by what the table calls it; for any other nothing is offered. */
static const struct {
    const char *value;
    const char *words; /* NULL: files, or folders */
    bool is_folder;
} values[] = {
    {"FILE", NULL, false},   {"DIR", NULL, true}, {"FORMAT", "text json", false}, {"LEVEL", "error warn info debug", false},
    {"QOS", "0 1 2", false},
};

enum { N_VALUES = ARRAY_LEN(values) };

/* The row of a flag's value; N_VALUES: there is none. */
static size_t find_value(const struct cli_flag_row *flag)
{
    size_t i = 0;

    while (i < N_VALUES && (!flag->value || strcmp(values[i].value, flag->value) != 0))
        i++;
    return i;
}

static bool is_shown(const struct cli_flag_row *flag, int command)
{
    return !flag->is_hidden && flag->commands & 1u << command;
}

/* Whether the command is the first of its name, which alone is named in lists. */
static bool is_first(int command)
{
    for (int i = 0; i < command; i++)
        if (cli_command_table[i].name && strcmp(cli_command_table[i].name, cli_command_table[command].name) == 0)
            return false;
    return cli_command_table[command].name != NULL;
}

static void write_names(FILE *to)
{
    for (int i = 0; i < CLI_COMMANDS; i++)
        if (is_first(i))
            fprintf(to, "%s ", cli_command_table[i].name);
}

/* The second words of all commands of a name. */
static void write_seconds(FILE *to, const char *name)
{
    for (int i = 0; i < CLI_COMMANDS; i++) {
        const struct cli_command_row *row = &cli_command_table[i];

        if (!row->name || strcmp(row->name, name) != 0)
            continue;
        if (row->object)
            fprintf(to, "%s ", row->object);
        for (const char *const *verb = row->verbs; verb && *verb; verb++)
            fprintf(to, "%s ", *verb);
    }
}

static bool has_seconds(const char *name)
{
    bool has = false;

    for (int i = 0; i < CLI_COMMANDS; i++)
        if (cli_command_table[i].name && strcmp(cli_command_table[i].name, name) == 0)
            has |= cli_command_table[i].object || cli_command_table[i].verbs;
    return has;
}

/* Writes `text` with a backslash before each of `special`, and single quotes as a quoted text of shells has them. */
static void write_quoted(FILE *to, const char *text, const char *special)
{
    for (; *text; text++) {
        if (*text == '\'') {
            fputs("'\\''", to);
            continue;
        }
        if (strchr(special, *text))
            fputc('\\', to);
        fputc(*text, to);
    }
}

/* --- bash --- */

static const char bash_begin[] =
    "# Completion of millrace for bash: source <(millrace completion bash)\n"
    "_millrace() {\n"
    "    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} seconds='' flags='' files='' i word\n"
    "    COMPREPLY=()\n"
    "    if [[ $current == = ]]; then\n"
    "        current=''\n"
    "    elif [[ $before == = ]]; then\n"
    "        before=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "    fi\n"
    "    if ((COMP_CWORD == 1)); then\n"
    "        COMPREPLY=($(compgen -W '";

static const char bash_values[] = "--help --version' -- \"$current\"))\n"
                                  "        return\n"
                                  "    fi\n"
                                  "    case $before in\n";

static const char bash_commands[] = "    esac\n"
                                    "    case ${COMP_WORDS[1]} in\n";

/* A flag that takes a value is the end of it; what stands behind a second word goes by that. */
static const char bash_end[] = "    esac\n"
                               "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
                               "        for word in $seconds; do\n"
                               "            [[ ${COMP_WORDS[i]} != \"$word\" ]] || seconds=''\n"
                               "        done\n"
                               "    done\n"
                               "    if [[ $current == -* ]]; then\n"
                               "        COMPREPLY=($(compgen -W \"$flags\" -- \"$current\"))\n"
                               "    elif [[ $seconds ]]; then\n"
                               "        COMPREPLY=($(compgen -W \"$seconds\" -- \"$current\"))\n"
                               "    elif [[ $files ]]; then\n"
                               "        compopt -o filenames 2>/dev/null\n"
                               "        mapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n"
                               "    fi\n"
                               "}\n"
                               "complete -F _millrace millrace\n";

/* `|` between the names of all flags with a value; of one row of `values`, or of all that have none (N_VALUES). False: there are none. */
static bool write_flags_of_value(FILE *to, size_t value)
{
    bool has_one = false;

    for (size_t i = 0; i < cli_flag_count; i++) {
        const struct cli_flag_row *flag = &cli_flag_table[i];
        bool is_twice = false;

        for (size_t k = 0; k < i; k++)
            is_twice |= strcmp(cli_flag_table[k].name, flag->name) == 0;
        if (flag->is_hidden || is_twice || !flag->value || find_value(flag) != value)
            continue;
        fprintf(to, "%s%s", has_one ? " | " : "    ", flag->name);
        if (flag->letter)
            fprintf(to, " | -%c", flag->letter);
        has_one = true;
    }
    return has_one;
}

static void write_bash_value(FILE *to, size_t value)
{
    if (!write_flags_of_value(to, value))
        return;
    fputs(")\n", to);
    if (value < N_VALUES && values[value].words)
        fprintf(to, "        COMPREPLY=($(compgen -W '%s' -- \"$current\"))\n", values[value].words);
    else if (value < N_VALUES)
        fprintf(to,
                "        compopt -o filenames 2>/dev/null\n"
                "        mapfile -t COMPREPLY < <(compgen -%c -- \"$current\")\n",
                values[value].is_folder ? 'd' : 'f');
    fputs("        return ;;\n", to);
}

static void write_bash_flags(FILE *to, int command)
{
    fputs("flags='", to);
    for (size_t i = 0; i < cli_flag_count; i++)
        if (is_shown(&cli_flag_table[i], command)) {
            fprintf(to, "%s ", cli_flag_table[i].name);
            if (cli_flag_table[i].letter)
                fprintf(to, "-%c ", cli_flag_table[i].letter);
        }
    fputc('\'', to);
}

static void write_bash_command(FILE *to, int command)
{
    fprintf(to, "    %s)\n        seconds='", cli_command_table[command].name);
    write_seconds(to, cli_command_table[command].name);
    fprintf(to, "' files=%s ", cli_command_table[command].takes_files ? "yes" : "''");
    write_bash_flags(to, command);
    fputc('\n', to);
    for (int i = 0; i < CLI_COMMANDS; i++) /* others of the name, by their object */
        if (i != command && cli_command_table[i].name &&
            strcmp(cli_command_table[i].name, cli_command_table[command].name) == 0) {
            fprintf(to, "        [[ ${COMP_WORDS[2]} != %s ]] || ", cli_command_table[i].object);
            write_bash_flags(to, i);
            fputc('\n', to);
        }
    fputs("        ;;\n", to);
}

static void write_bash(FILE *to)
{
    fputs(bash_begin, to);
    write_names(to);
    fputs(bash_values, to);
    for (size_t i = 0; i <= N_VALUES; i++)
        write_bash_value(to, i);
    fputs(bash_commands, to);
    for (int i = 0; i < CLI_COMMANDS; i++)
        if (is_first(i))
            write_bash_command(to, i);
    fputs(bash_end, to);
}

/* --- zsh --- */

static void write_zsh_flag(FILE *to, const struct cli_flag_row *flag, const char *name)
{
    size_t value = find_value(flag);

    fputs(" \\\n        '", to);
    if (flag->letter)
        fprintf(to, "(%s -%c)", flag->name, flag->letter);
    fprintf(to, "%s[", name);
    write_quoted(to, flag->help, "[]:\\");
    fputc(']', to);
    if (flag->value) {
        fputc(':', to);
        write_quoted(to, flag->value, ":\\");
        fputc(':', to);
    }
    if (value < N_VALUES && values[value].words)
        fprintf(to, "(%s)", values[value].words);
    else if (value < N_VALUES)
        fputs(values[value].is_folder ? "_files -/" : "_files", to);
    fputc('\'', to);
}

static void write_zsh_arguments(FILE *to, int command, bool is_behind_second)
{
    fputs("_arguments", to);
    for (size_t i = 0; i < cli_flag_count; i++) {
        const struct cli_flag_row *flag = &cli_flag_table[i];
        const char letter[] = {'-', flag->letter, '\0'};

        if (!is_shown(flag, command))
            continue;
        write_zsh_flag(to, flag, flag->name);
        if (flag->letter)
            write_zsh_flag(to, flag, letter);
    }
    if (has_seconds(cli_command_table[command].name) && !is_behind_second) {
        fputs(" \\\n        '1: :(", to);
        write_seconds(to, cli_command_table[command].name);
        fputs(")'", to);
    }
    if (cli_command_table[command].takes_files)
        fputs(" \\\n        '*:file:_files'", to);
    fputc('\n', to);
}

static void write_zsh_command(FILE *to, int command)
{
    const char *name = cli_command_table[command].name;
    bool has_others = false;

    fprintf(to, "    %s)\n      ", name);
    for (int i = 0; i < CLI_COMMANDS; i++)
        if (i != command && cli_command_table[i].name && strcmp(cli_command_table[i].name, name) == 0) {
            fprintf(to, "%sif [[ $words[2] == %s && CURRENT -gt 2 ]]; then\n        shift words; (( CURRENT-- ))\n        ",
                    has_others ? "el" : "", cli_command_table[i].object);
            write_zsh_arguments(to, i, true);
            fputs("      ", to);
            has_others = true;
        }
    if (has_others)
        fputs("else\n        ", to);
    write_zsh_arguments(to, command, false);
    fputs(has_others ? "      fi ;;\n" : "      ;;\n", to);
}

static void write_zsh(FILE *to)
{
    fputs("#compdef millrace\n"
          "# Completion of millrace for zsh: a file _millrace in a folder of $fpath, or source <(millrace completion zsh)\n"
          "_millrace() {\n"
          "  local -a commands\n"
          "  commands=(",
          to);
    for (int i = 0; i < CLI_COMMANDS; i++)
        if (is_first(i)) {
            fprintf(to, "\n    '%s:", cli_command_table[i].name);
            write_quoted(to, cli_command_table[i].summary, ":\\");
            fputc('\'', to);
        }
    fputs(")\n"
          "  if (( CURRENT == 2 )); then\n"
          "    _describe command commands\n"
          "    return\n"
          "  fi\n"
          "  shift words; (( CURRENT-- ))\n"
          "  case $words[1] in\n",
          to);
    for (int i = 0; i < CLI_COMMANDS; i++)
        if (is_first(i))
            write_zsh_command(to, i);
    fputs("  esac\n"
          "}\n"
          "if [[ $funcstack[1] == _millrace ]]; then _millrace; else compdef _millrace millrace; fi\n",
          to);
}

/* --- fish --- */

static void write_fish_flag(FILE *to, const struct cli_flag_row *flag, int command)
{
    const struct cli_command_row *row = &cli_command_table[command];
    size_t value = find_value(flag);

    fprintf(to, "complete -c millrace -n '__millrace_in %s %s' -l %s", row->name, row->object ? row->object : "",
            flag->name + 2);
    if (flag->letter)
        fprintf(to, " -s %c", flag->letter);
    if (flag->value)
        fputs(value < N_VALUES && !values[value].words && !values[value].is_folder ? " -rF" : " -x", to);
    if (value < N_VALUES && values[value].words)
        fprintf(to, " -a '%s'", values[value].words);
    else if (value < N_VALUES && values[value].is_folder)
        fputs(" -a '(__fish_complete_directories)'", to);
    fputs(" -d '", to);
    write_quoted(to, flag->help, "\\");
    fputs("'\n", to);
}

static void write_fish_command(FILE *to, int command)
{
    const struct cli_command_row *row = &cli_command_table[command];

    if (is_first(command)) {
        fprintf(to, "complete -c millrace -n __millrace_first -a %s -d '", row->name);
        write_quoted(to, row->summary, "\\");
        fputs("'\n", to);
        fprintf(to, "complete -c millrace -n '__millrace_second %s' -a '", row->name);
        write_seconds(to, row->name);
        fputs("'\n", to);
    }
    if (row->takes_files)
        fprintf(to, "complete -c millrace -n '__millrace_in %s; and not __millrace_second %s' -F\n", row->name, row->name);
    for (size_t i = 0; i < cli_flag_count; i++)
        if (is_shown(&cli_flag_table[i], command))
            write_fish_flag(to, &cli_flag_table[i], command);
}

static void write_fish(FILE *to)
{
    fputs("# Completion of millrace for fish: millrace completion fish | source\n"
          "function __millrace_first\n"
          "    test (count (commandline -opc)) -eq 1\n"
          "end\n"
          "function __millrace_second\n"
          "    set -l words (commandline -opc)\n"
          "    test (count $words) -eq 2; and test \"$words[2]\" = $argv[1]\n"
          "end\n"
          "function __millrace_in\n"
          "    set -l words (commandline -opc)\n"
          "    test \"$words[2]\" = $argv[1]; or return 1\n"
          "    test (count $argv) -eq 1; or test \"$words[3]\" = $argv[2]\n"
          "end\n"
          "complete -c millrace -f\n"
          "complete -c millrace -n __millrace_first -l help -s h -d 'all commands'\n"
          "complete -c millrace -n __millrace_first -l version -s V -d 'the version'\n",
          to);
    for (int i = 0; i < CLI_COMMANDS; i++)
        if (cli_command_table[i].name)
            write_fish_command(to, i);
}

static const struct {
    const char *name;
    void (*write)(FILE *to);
} shells[] = {{"bash", write_bash}, {"zsh", write_zsh}, {"fish", write_fish}};

bool completion_write(FILE *to, const char *shell)
{
    for (size_t i = 0; i < ARRAY_LEN(shells); i++)
        if (strcmp(shells[i].name, shell) == 0) {
            shells[i].write(to);
            return true;
        }
    return false;
}

int completion_run(const struct cli *cli)
{
    if (completion_write(stdout, cli->manage.words[0]))
        return 0;
    fprintf(stderr, "millrace: completion for which shell? bash, zsh or fish\n");
    return 2;
}
