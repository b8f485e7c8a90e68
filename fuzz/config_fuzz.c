/* The configuration: YAML up to the first NUL byte, then a setting of the command line on each line. References to secrets are
 * left alone, so that no input names a file. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_SETTINGS = 8 };

/* Cuts `text` into lines and returns how many there are, at most MAX_SETTINGS. */
static size_t split_lines(char *text, struct config_setting *out_settings)
{
    size_t n = 0;
    char *rest = text;

    for (char *line = strsep(&rest, "\n"); line && n < MAX_SETTINGS; line = strsep(&rest, "\n"))
        if (*line)
            out_settings[n++].text = line;
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct config_errors errors;
    struct config_setting settings[MAX_SETTINGS];
    char *copy = mem_copy_text(MEM_TEST, (const char *)data, size);
    size_t yaml_bytes = strnlen(copy, size);
    struct config_source source = {
        .text = {copy, yaml_bytes}, .name = "fuzz.yaml", .settings = settings, .skips_secrets = true};
    struct config *config;
    err e;

    if (yaml_bytes < size)
        source.setting_count = split_lines(copy + yaml_bytes + 1, settings);
    e = config_load(&source, &config, &errors);
    ASSERT((e == E_OK) == (errors.count == 0));
    if (e == E_OK)
        config_unref(config);
    mem_free(MEM_TEST, copy);
    ASSERT(mem_used(MEM_CONFIG) == 0);
    return 0;
}
