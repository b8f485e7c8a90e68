#include "main/check_config.h"

#include <stdlib.h>

#include "config/config_doc.h"

int check_config_run(const struct cli *cli)
{
    struct config *config;
    struct config_errors errors;

    if (cli->prints_docs) {
        config_doc_write_manual(stdout);
        return EXIT_SUCCESS;
    }
    if (cli_load_config(cli, &config, &errors) != E_OK) {
        cli_print_errors(stderr, &errors);
        return EXIT_FAILURE;
    }
    config_unref(config);
    puts("OK");
    return EXIT_SUCCESS;
}
