#include "main/check_config.h"

#include <stdio.h>
#include <stdlib.h>

#include "config/config_doc.h"
#include "fanout/fanout_schema.h"
#include "main/fanout_check.h"
#include "main/kafka_acls.h"
#include "main/kafka_options.h"
#include "main/revocation_options.h"
#include "main/rule_options.h"
#include "main/tls_options.h"
#include "main/to_mqtt_options.h"
#include "registry/revocation_list.h"

static void print_loop(void *context, const char *text)
{
    (void)context;
    fprintf(stderr, "warning: rules that may feed each other: %s\n", text);
}

static void warn_of_loops(const struct config *config, const char *file, const struct rule_table *table,
                          struct config_errors *errors)
{
    struct to_mqtt_rules *back;

    if (to_mqtt_options_make(config, file, &back, errors) != E_OK)
        return; /* cannot be: they were found good */
    (void)to_mqtt_options_find_loops(config, back, table, print_loop, NULL);
    to_mqtt_rules_unref(back);
}

static err check_tls(const struct config *config, const char *file, struct config_errors *errors)
{
    struct revocation_lists *lists = NULL;
    struct generation_tls tls;
    err e = tls_options_make(config, file, NULL, NULL, &tls, errors);

    if (e == E_OK) {
        generation_free_tls(&tls);
        e = revocation_options_load(config, file, &lists, errors);
        revocation_list_unref(lists);
    }
    return e;
}

/* A fan-out alone has none. */
static bool has_kafka(const struct config *config)
{
    return config->kafka.bootstrap.n || config->kafka.is_embedded;
}

/* With `acls` the permissions that the configuration needs are printed there, if it is good. */
static err load(const struct cli *cli, FILE *acls, struct config_errors *errors)
{
    struct rule_table *rules = NULL;
    struct config *config;
    err e = cli_load_config(cli, &config, errors);

    if (e != E_OK)
        return e;
    e = rule_options_make(config, cli_source_name(cli), &rules, errors);
    if (e == E_OK)
        warn_of_loops(config, cli_source_name(cli), rules, errors);
    if (e == E_OK && acls)
        kafka_acls_print(acls, config, rules);
    rule_table_unref(rules);
    if (e == E_OK && !cli->skips_secrets) /* on another machine the files need not be there */
        e = check_tls(config, cli_source_name(cli), errors);
    if (e == E_OK && !cli->skips_secrets)
        e = fanout_check(config, errors);
    if (e != E_OK) {
        config_unref(config);
        return e;
    }
    /* With references in place of secrets librdkafka would look at the wrong values. */
    if (!cli->skips_secrets && has_kafka(config))
        e = kafka_options_check(config, &errors->items[0]);
    if (e != E_OK) {
        errors->count = 1;
        errors->items[0].file = cli_source_name(cli);
    }
    config_unref(config);
    return e;
}

int check_config_run(const struct cli *cli)
{
    struct config_errors errors;

    if (cli->prints_schema) {
        fanout_schema_write(stdout);
        return EXIT_SUCCESS;
    }
    if (cli->prints_docs) {
        config_doc_write_manual(stdout);
        return EXIT_SUCCESS;
    }
    if (load(cli, cli->prints_acls ? stdout : NULL, &errors) != E_OK) {
        cli_print_errors(stderr, &errors);
        return EXIT_FAILURE;
    }
    if (!cli->prints_acls)
        puts("OK");
    return EXIT_SUCCESS;
}
