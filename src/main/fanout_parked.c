#include "main/fanout_parked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "main/manage_ask.h"
#include "main/manage_input.h"
#include "registry/document.h"

enum { PATH_BYTES = 1024 };

static const struct {
    const char *name;
    enum http_method method;
    const char *path_end;
    const char *member; /* of the answer */
} verbs[] = {
    {"list", HTTP_METHOD_GET, "", NULL},
    {"discard", HTTP_METHOD_DELETE, "", "discarded"},
    {"retry", HTTP_METHOD_POST, "/retry", "hastened"},
};

/* The verb the arguments name, with as many words behind it as it takes; else -1. */
static int find_verb(const struct cli_manage *m)
{
    const char *name = m->n_words ? m->words[0] : "list";

    for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
        if (strcmp(verbs[i].name, name) == 0)
            return verbs[i].member ? (m->n_words == 2 || m->n_words == 3 ? (int)i : -1) : (m->n_words <= 1 ? (int)i : -1);
    return -1;
}

/* A number, or NAMESPACE/NAME and a uid, which can stand in a path as they are. */
static void make_path(const struct cli_manage *m, const char *end, char path[PATH_BYTES])
{
    int n = snprintf(path, PATH_BYTES, "/parked%s%s%s%s%s", m->n_words > 1 ? "/" : "", m->n_words > 1 ? m->words[1] : "",
                     m->n_words > 2 ? "/" : "", m->n_words > 2 ? m->words[2] : "", end);

    if (n >= PATH_BYTES)
        strcpy(path, "/parked/0"); /* nobody has such a name, nor this number */
}

static const char *text_of(const json_t *from, const char *name)
{
    const char *text = json_string_value(json_object_get(from, name));

    return text ? text : "";
}

static void print_list(const json_t *answer)
{
    const json_t *rows = json_object_get(answer, "parked");

    printf("%-10s %-24s %-18s %-8s %-12s %s\n", "NUMBER", "CHANNEL", "SUBSCRIPTION", "ATTEMPTS", "REASON", "EVENT");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);

        printf("%-10lld %-24s %-18s %-8lld %-12s %s %s\n", (long long)document_get_integer(row, "number", 0),
               text_of(row, "channel"), text_of(row, "subscription"), (long long)document_get_integer(row, "attempts", 0),
               text_of(json_object_get(row, "why"), "millracereason"), text_of(row, "source"), text_of(row, "id"));
    }
    printf("%zu of %lld\n", json_array_size(rows), (long long)document_get_integer(answer, "events", 0));
}

static void print_json(const json_t *answer)
{
    char *text = json_dumps(answer, JSON_INDENT(2));

    puts(text ? text : "");
    free(text);
}

/* What came back. Returns the exit status. */
static int print_answer(const struct manage_ask *ask, const char *member, bool is_json)
{
    struct str body = buf_str(&ask->body);
    json_t *answer = body.n ? json_loadb(body.p, body.n, 0, NULL) : NULL;
    long long n_left = (long long)document_get_integer(answer, "under_way", 0);
    int status = 0;

    if (ask->status >= 300) {
        fprintf(stderr, "millrace: %u: %s\n", ask->status, text_of(answer, "error"));
        status = 1;
    } else if (is_json) {
        print_json(answer);
    } else if (!member) {
        print_list(answer);
    } else {
        printf("%lld %s\n", (long long)document_get_integer(answer, member, 0), member);
        if (n_left)
            fprintf(stderr, "%lld on their way to their subscriber were left alone\n", n_left);
    }
    json_decref(answer);
    return status;
}

int fanout_parked_run(const struct cli *cli)
{
    static struct manage_ask ask; /* larger than a stack frame should be */
    const struct manage_ask_options whom = manage_input_whom(cli);
    const char *output = cli->manage.output;
    struct manage_ask_request request = {0};
    struct errinfo ei = {0};
    char path[PATH_BYTES];
    int verb = find_verb(&cli->manage), status = 2;
    err e;

    if (verb < 0) {
        fprintf(stderr, "millrace: list, or discard or retry which? NUMBER, or NAMESPACE/NAME UID\n");
        return 2;
    }
    make_path(&cli->manage, verbs[verb].path_end, path);
    request.method = verbs[verb].method;
    request.path = path;
    e = manage_ask_open(&ask, &whom, &ei);
    if (e == E_OK)
        e = manage_ask_send(&ask, &request, &ei);
    if (e == E_OK)
        status = print_answer(&ask, verbs[verb].member, output && strcmp(output, "json") == 0);
    else
        fprintf(stderr, "millrace: %s\n", ei.text);
    manage_ask_close(&ask);
    return status;
}
