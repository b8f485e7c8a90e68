#include "main/manage_input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP_BYTES = 64 << 10, MAX_BYTES = 1 << 30 };

#define DEFAULT_API "http://127.0.0.1:8081"

static const char *given_or(const char *given, const char *variable, const char *otherwise)
{
    const char *value = given ? given : getenv(variable);

    return value && value[0] ? value : otherwise;
}

struct manage_ask_options manage_input_whom(const struct cli *cli)
{
    return (struct manage_ask_options){
        .api = given_or(cli->manage.api, "MILLRACE_API", DEFAULT_API),
        .ca = given_or(cli->manage.ca, "MILLRACE_CA", NULL),
        .user = given_or(cli->manage.user, "MILLRACE_USER", NULL),
        .token = given_or(cli->manage.token, "MILLRACE_TOKEN", NULL),
    };
}

static err read_stream(FILE *file, const char *name, struct buf *to, struct errinfo *ei)
{
    while (!feof(file)) {
        char *at = buf_size(to) < MAX_BYTES - STEP_BYTES ? buf_reserve(to, MEM_HTTP, STEP_BYTES) : NULL;

        if (!at)
            return errinfo_set(ei, E_LIMIT, "%s is too large", name);
        buf_commit(to, fread(at, 1, STEP_BYTES, file));
        if (ferror(file))
            return errinfo_set(ei, E_IO, "%s cannot be read", name);
    }
    return E_OK;
}

err manage_input_read(const char *path, struct buf *to, struct errinfo *ei)
{
    FILE *file;
    err e;

    if (strcmp(path, "-") == 0)
        return read_stream(stdin, "the input", to, ei);
    file = fopen(path, "re");
    if (!file)
        return errinfo_set(ei, E_IO, "%s cannot be read", path);
    e = read_stream(file, path, to, ei);
    fclose(file);
    return e;
}

void manage_input_wipe(struct buf *text)
{
    if (text->p)
        explicit_bzero(text->p, text->cap);
    buf_free(text, MEM_HTTP);
}
