#include "main/talk.h"

#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/jsonw.h"
#include "base/utf8.h"
#include "config/value.h"
#include "main/kafka_options.h"

enum { PATH_BYTES = 4096, ADDRESS_BYTES = 256 };

/* Where the server of --dev has written the address of its Kafka. */
static err read_bootstrap(const struct config *config, char to[ADDRESS_BYTES])
{
    char path[PATH_BYTES];
    FILE *f;

    snprintf(path, sizeof path, "%.*s/kafka.bootstrap", STR_ARG(config->data_dir));
    f = fopen(path, "re");
    if (!f || !fgets(to, ADDRESS_BYTES, f)) {
        fprintf(stderr, "millrace: cannot read %s (%s): is `millrace serve --dev` running here, or is --data another folder?\n",
                path, f ? "empty" : strerror(errno));
        if (f)
            fclose(f);
        return E_IO;
    }
    fclose(f);
    to[strcspn(to, "\n")] = '\0';
    return E_OK;
}

err talk_open(const struct cli *cli, struct kafka_client **out_client)
{
    static struct config_errors errors; /* larger than a stack frame should be */
    struct kafka_settings settings;
    struct arena scratch = {0};
    struct errinfo ei = {0};
    char bootstrap[ADDRESS_BYTES];
    struct config *config;
    err e = cli_load_config(cli, &config, &errors);

    if (e != E_OK) {
        cli_print_errors(stderr, &errors);
        return e;
    }
    kafka_options_make(&scratch, config, &settings);
    if (settings.is_embedded) {
        e = read_bootstrap(config, bootstrap);
        settings.bootstrap = str_from(bootstrap);
        settings.is_embedded = false;
    }
    if (e == E_OK) {
        e = kafka_client_open(&settings, out_client, &ei);
        if (e != E_OK)
            fprintf(stderr, "millrace: %s\n", ei.text);
    }
    arena_free(&scratch, MEM_CONFIG);
    config_unref(config);
    return e;
}

bool talk_duration(const char *flag, const char *text, int64_t by_default_ms, int64_t *out_ms)
{
    *out_ms = by_default_ms;
    if (!text || (value_to_duration(str_from(text), out_ms) && *out_ms >= 0 && *out_ms <= INT32_MAX))
        return true;
    fprintf(stderr, "millrace: %s is a time, as in 30s, not %s\n", flag, text);
    return false;
}

bool talk_is_json(const struct cli *cli, bool *out_is_good)
{
    const char *format = cli->talk.output ? cli->talk.output : "text";
    bool is_json = strcmp(format, "json") == 0;

    *out_is_good = is_json || strcmp(format, "text") == 0;
    if (!*out_is_good)
        fprintf(stderr, "millrace: --output is text or json, not %s\n", format);
    return is_json;
}

struct str talk_header(const struct kafka_client_record *record, const char *name)
{
    for (size_t i = 0; i < record->n_headers; i++)
        if (str_equal(record->headers[i].name, str_from(name)))
            return record->headers[i].value;
    return (struct str){0};
}

void talk_print_json(struct str text)
{
    struct buf out = {0};

    if (jsonw_string(&out, MEM_CONFIG, text) == E_OK)
        printf("%.*s", STR_ARG(buf_str(&out)));
    buf_free(&out, MEM_CONFIG);
}

void talk_print_payload(struct str payload)
{
    if (payload.n && !utf8_is_valid(payload))
        printf("(%zu bytes)", payload.n);
    else
        printf("%.*s", STR_ARG(payload));
}
