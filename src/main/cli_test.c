#include "main/cli.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"
#include "config/config_doc.h"
#include "main/cli_flag.h"

enum { MAX_ARGUMENTS = 12, TEXT_BYTES = 64 << 10 };

static const char *man_page_path;
static struct config_errors errors;

/* cli_parse() with the name of the program put before `words`, which end with NULL. */
static err parse(const char *const *words, struct cli *out_cli, struct errinfo *ei)
{
    char *argv[MAX_ARGUMENTS + 1] = {"millrace"};
    int argc = 1;

    for (; *words; words++)
        memcpy(&argv[argc++], words, sizeof *words); /* getopt's heritage: argv is not const */
    return cli_parse(argc, argv, out_cli, ei);
}

static void commands_and_flags_are_recognised(void **state)
{
    static const struct {
        const char *words[MAX_ARGUMENTS];
        enum cli_command command;
        size_t settings;
    } rows[] = {
        {{"--help"}, CLI_HELP, 0},
        {{"-h"}, CLI_HELP, 0},
        {{"--version"}, CLI_VERSION, 0},
        {{"serve", "--help"}, CLI_HELP, 0},
        {{"check", "-h"}, CLI_HELP, 0},
        {{"serve", "--dev"}, CLI_SERVE, 0},
        {{"serve", "-c", "x.yaml", "--set", "workers=2", "--set=log.level=debug"}, CLI_SERVE, 2},
        {{"serve", "--kafka", "k:9092", "--mqtt", "127.0.0.1:0"}, CLI_SERVE, 3},
        {{"check", "--config=x.yaml", "--no-secrets"}, CLI_CHECK, 0},
        {{"check", "--print-docs"}, CLI_CHECK, 0},
        {{"check", "--print-schema"}, CLI_CHECK, 0},
        {{"fanout"}, CLI_FANOUT, 0},
        {{"fanout", "--config-dir", "x", "--listen=a:1", "--admin", "b:2", "--data", "d"}, CLI_FANOUT, 4},
        {{"fanout", "write-config", "--from", "x"}, CLI_FANOUT_WRITE, 0},
        {{"fanout", "write-config", "--config-dir=x"}, CLI_FANOUT_WRITE, 1},
        {{"fanout", "write-config", "--help"}, CLI_HELP, 0},
        {{"fanout", "parked"}, CLI_FANOUT_PARKED, 0},
        {{"fanout", "parked", "discard", "ns/c", "uid", "--api", "http://a:1"}, CLI_FANOUT_PARKED, 0},
        {{"fanout", "--help"}, CLI_HELP, 0},
        {{"import", "mosquitto", "--tenant", "t", "passwd"}, CLI_IMPORT, 0},
        {{"import", "mosquitto", "--tenant=t", "--acl", "acl", "--dry-run"}, CLI_IMPORT, 0},
        {{"import", "hono", "a", "b", "--update", "-"}, CLI_IMPORT, 0},
        {{"import", "--help"}, CLI_HELP, 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct errinfo ei = {0};
        struct cli cli;

        if (parse(rows[i].words, &cli, &ei) != E_OK)
            fail_msg("row %zu: %s", i, ei.text);
        assert_int_equal(cli.command, rows[i].command);
        assert_int_equal(cli.setting_count, rows[i].settings);
        cli_fini(&cli);
    }
    assert_int_equal(mem_used(MEM_CONFIG), 0);
}

static void what_is_wrong_is_told_with_the_nearest_word(void **state)
{
    static const struct {
        const char *words[MAX_ARGUMENTS];
        const char *says;
    } rows[] = {
        {{NULL}, "a command is missing"},
        {{"sevre"}, "unknown command sevre (did you mean serve?)"},
        {{"--dev"}, "unknown flag --dev"},
        {{"serve"}, "which configuration?"},
        {{"serve", "--deb"}, "unknown flag --deb (did you mean --dev?)"},
        {{"serve", "--no-secrets"}, "unknown flag --no-secrets"},
        {{"serve", "x.yaml"}, "unexpected argument x.yaml"},
        {{"serve", "-c"}, "-c needs a value: FILE"},
        {{"serve", "--dev=1"}, "--dev takes no value"},
        {{"serve", "--dev", "-c", "x"}, "exclude each other"},
        {{"import"}, "mosquitto or hono"},
        {{"import", "emqx", "x"}, "mosquitto or hono"},
        {{"import", "mosquitto", "x"}, "into which tenant?"},
        {{"import", "mosquitto", "--tenant", "t"}, "which files?"},
        {{"import", "hono"}, "which files?"},
        {{"import", "hono", "x", "--acl", "y"}, "--acl is a file of mosquitto"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct errinfo ei = {0};
        struct cli cli;

        assert_int_equal(parse(rows[i].words, &cli, &ei), E_INVAL);
        if (!strstr(ei.text, rows[i].says))
            fail_msg("wanted: %s\n  got: %s", rows[i].says, ei.text);
        cli_fini(&cli);
    }
}

static struct config *must_load(const char *const *words)
{
    struct config *config = NULL;
    struct errinfo ei = {0};
    struct cli cli;

    if (parse(words, &cli, &ei) != E_OK)
        fail_msg("%s", ei.text);
    if (cli_load_config(&cli, &config, &errors) != E_OK)
        fail_msg("%s: %s", errors.items[0].file, errors.items[0].text);
    cli_fini(&cli);
    return config;
}

static void words_that_are_no_flags_are_kept_where_there_is_room(void **state)
{
    char *good[] = {"millrace", "device", "list", "acme", "-o", "json"}, *full[] = {"millrace", "tenant", "get", "a", "b"},
         *none[] = {"millrace", "credentials"}, *wrong[] = {"millrace", "device", "list", "acme", "--retain"};
    struct errinfo ei = {0};
    struct cli cli;

    (void)state;
    assert_int_equal(cli_parse((int)ARRAY_LEN(good), good, &cli, &ei), E_OK);
    assert_int_equal(cli.command, CLI_DEVICE);
    assert_int_equal(cli.manage.n_words, 2);
    assert_string_equal(cli.manage.words[1], "acme");
    assert_string_equal(cli.manage.output, "json");
    cli_fini(&cli);
    assert_int_equal(cli_parse((int)ARRAY_LEN(full), full, &cli, &ei), E_INVAL);
    assert_non_null(strstr(ei.text, "unexpected argument b"));
    assert_int_equal(cli_parse((int)ARRAY_LEN(none), none, &cli, &ei), E_INVAL);
    assert_non_null(strstr(ei.text, "credentials what?"));
    assert_int_equal(cli_parse((int)ARRAY_LEN(wrong), wrong, &cli, &ei), E_INVAL);
    assert_non_null(strstr(ei.text, "unknown flag --retain"));
}

static void dev_needs_nothing_else(void **state)
{
    static const char *const words[] = {"serve", "--dev", NULL};
    struct config *config = must_load(words);
    const struct config_tenant *ten = &config->tenants[0];

    (void)state;
    assert_true(config->kafka.is_embedded);
    assert_string_equal(config->listeners[0].mqtt.text.p, "127.0.0.1:1883");
    assert_string_equal(config->listeners[1].http.text.p, "127.0.0.1:8080");
    assert_string_equal(config->admin_listen.text.p, "127.0.0.1:8081");
    assert_true(config->listeners[0].is_anonymous && config->listeners[0].is_hono);
    assert_string_equal(ten->id.p, "demo");
    assert_string_equal(ten->devices[0].auth_id.p, "sensor-1");
    assert_string_equal(ten->devices[0].password.p, "demo-secret");
    assert_string_equal(ten->devices[1].auth_id.p, "gateway-1");
    assert_string_equal(ten->devices[2].via.items[0].p, "gateway-1");
    assert_int_equal(ten->devices[2].password.n, 0);
    config_unref(config);
}

static void flags_stand_for_options_and_the_last_counts(void **state)
{
    static const char *const words[] = {
        "serve",       "--dev",         "--kafka",           "k:9092",         "--mqtt", "[::1]:0", "--set", "workers=3",
        "--workers=4", "--data=/tmp/x", "--log-level=debug", "--http=[::1]:0", NULL};
    struct config *config = must_load(words);

    (void)state;
    assert_false(config->kafka.is_embedded);
    assert_string_equal(config->kafka.bootstrap.p, "k:9092");
    assert_string_equal(config->listeners[0].mqtt.host.p, "::1");
    assert_string_equal(config->listeners[0].tenant.p, "demo");
    assert_string_equal(config->listeners[1].http.host.p, "::1");
    assert_int_equal(config->workers, 4);
    assert_string_equal(config->data_dir.p, "/tmp/x");
    assert_int_equal(config->log_levels[LOG_MAIN], LOG_LEVEL_DEBUG);
    config_unref(config);
}

static void too_many_settings_are_a_limit(void **state)
{
    char *argv[2 + CLI_MAX_SETTINGS + 2] = {"millrace", "serve"};
    struct errinfo ei = {0};
    struct cli cli;

    (void)state;
    for (size_t i = 2; i < ARRAY_LEN(argv); i++)
        argv[i] = "--workers=1";
    assert_int_equal(cli_parse((int)ARRAY_LEN(argv), argv, &cli, &ei), E_LIMIT);
    cli_fini(&cli);
    assert_int_equal(mem_used(MEM_CONFIG), 0);
}

static const char *help_of(enum cli_command topic, char *out)
{
    FILE *to = fmemopen(out, TEXT_BYTES, "w");

    assert_non_null(to);
    cli_print_help(to, topic);
    assert_int_equal(fclose(to), 0);
    return out;
}

/* The man page writes every dash of a flag as `\-`. */
static void in_man_form(const char *flag, char *out)
{
    for (; *flag; flag++) {
        if (*flag == '-')
            *out++ = '\\';
        *out++ = *flag;
    }
    *out = '\0';
}

/* Not as the beginning of a longer one. */
static bool tells_flag(const char *text, const char *flag)
{
    size_t n = strlen(flag);

    for (; (text = strstr(text, flag)); text += n)
        if (text[n] != '-' && !(text[n] >= 'a' && text[n] <= 'z'))
            return true;
    return false;
}

/* By any of the rows with its name that are shown. */
static bool takes_flag(int command, const char *name)
{
    for (size_t i = 0; i < cli_flag_count; i++)
        if (!cli_flag_table[i].is_hidden && strcmp(cli_flag_table[i].name, name) == 0 &&
            cli_flag_table[i].commands & 1u << command)
            return true;
    return false;
}

static void help_and_man_page_name_every_command_and_flag(void **state)
{
    static char man[TEXT_BYTES], help[TEXT_BYTES];
    FILE *file = man_page_path ? fopen(man_page_path, "r") : NULL;

    (void)state;
    if (!file)
        skip(); /* run by hand, without the path of the page */
    man[fread(man, 1, sizeof man - 1, file)] = '\0';
    assert_int_equal(fclose(file), 0);
    for (int i = 0; i < CLI_COMMANDS; i++) {
        if (!cli_command_table[i].name)
            continue;
        assert_non_null(strstr(help_of(CLI_HELP, help), cli_command_table[i].name));
        assert_non_null(strstr(man, cli_command_table[i].name));
    }
    for (size_t i = 0; i < cli_flag_count; i++) {
        const struct cli_flag_row *flag = &cli_flag_table[i];
        char written[64];

        in_man_form(flag->name, written);
        if (!flag->is_hidden && !strstr(man, written))
            fail_msg("docs/millrace.1 does not tell about %s", flag->name);
        for (int k = CLI_SERVE; k < CLI_COMMANDS; k++)
            if (tells_flag(help_of((enum cli_command)k, help), flag->name) != takes_flag(k, flag->name))
                fail_msg("the help of %s is wrong about %s", cli_command_table[k].name, flag->name);
    }
}

static void help_lists_the_options_that_matter(void **state)
{
    static const struct {
        enum cli_command command;
        const char *there, *not_there;
    } rows[] = {
        {CLI_SERVE, "tenants.", NULL},
        {CLI_CHECK, "tenants.", NULL},
        {CLI_FANOUT, "fanout.grace ", "tenants"},
        {CLI_FANOUT, "  workers ", "kafka."},
        {CLI_COMMAND_SEND, "kafka.bootstrap ", "fanout."},
        {CLI_EVENTS, "kafka.topic_prefix ", "tenants"},
    };
    static char help[TEXT_BYTES];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        help_of(rows[i].command, help);
        assert_non_null(strstr(help, rows[i].there));
        assert_true(!rows[i].not_there || !strstr(strstr(help, "Options of"), rows[i].not_there));
    }
}

static void every_name_that_options_go_by_is_there(void **state)
{
    static char options[TEXT_BYTES];
    char path[64];

    (void)state;
    for (int i = 0; i < CLI_COMMANDS; i++) {
        struct str rest = str_from(cli_command_table[i].options ? cli_command_table[i].options : "");
        bool has_more = rest.n > 0;

        while (has_more) {
            struct str one = str_take(&rest, ' ', &has_more);
            FILE *to = fmemopen(options, sizeof options, "w");

            assert_non_null(to);
            options[0] = '\0';
            snprintf(path, sizeof path, "%.*s", STR_ARG(one));
            config_doc_write_list(to, path);
            assert_int_equal(fclose(to), 0);
            if (!options[0])
                fail_msg("there is no option %s", path);
        }
    }
}

static void errors_are_printed_with_file_and_line(void **state)
{
    struct config_errors two = {.count = 2, .omitted = 3};
    char text[256];
    FILE *to = fmemopen(text, sizeof text, "w");

    (void)state;
    (void)errinfo_set(&two.items[0], E_INVAL, "workers: bad");
    two.items[0].file = "a.yaml";
    two.items[0].line = 7;
    (void)errinfo_set(&two.items[1], E_INVAL, "limits: bad");
    two.items[1].file = "command line";
    cli_print_errors(to, &two);
    assert_int_equal(fclose(to), 0);
    assert_string_equal(text, "a.yaml:7: workers: bad\ncommand line: limits: bad\nand 3 more\n");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_and_flags_are_recognised),
        cmocka_unit_test(what_is_wrong_is_told_with_the_nearest_word),
        cmocka_unit_test(words_that_are_no_flags_are_kept_where_there_is_room),
        cmocka_unit_test(dev_needs_nothing_else),
        cmocka_unit_test(flags_stand_for_options_and_the_last_counts),
        cmocka_unit_test(too_many_settings_are_a_limit),
        cmocka_unit_test(help_and_man_page_name_every_command_and_flag),
        cmocka_unit_test(help_lists_the_options_that_matter),
        cmocka_unit_test(every_name_that_options_go_by_is_there),
        cmocka_unit_test(errors_are_printed_with_file_and_line),
    };

    man_page_path = argc > 1 ? argv[1] : NULL;
    return cmocka_run_group_tests_name("cli", tests, NULL, NULL);
}
