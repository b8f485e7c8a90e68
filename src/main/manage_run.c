#include "main/manage_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "main/manage_ask.h"
#include "main/manage_input.h"
#include "registry/document.h"

enum {
    PATH_BYTES = 3500,
    PAGE_BYTES = 1 << 20, /* of an import: what is sent at a time */
    PAGE_LINES = 1000,
    COLUMN = 28,
};

/* One run. */
struct run {
    const struct cli *cli;
    struct manage_ask ask;
    struct buf input; /* the body, or the lines to import */
    const struct verb *verb;
};

struct verb {
    enum cli_command command;
    const char *name;
    enum http_method method;
    const char *path;         /* before the ids */
    unsigned n_least, n_most; /* ids */
    bool has_body;
    int (*run)(struct run *r);
};

static int fail(const struct errinfo *ei)
{
    fprintf(stderr, "millrace: %s\n", ei->text);
    return 2;
}

static bool is_json(const struct run *r)
{
    return r->cli->manage.output && strcmp(r->cli->manage.output, "json") == 0;
}

/* --- what is read --- */

static err read_input(struct run *r, struct errinfo *ei)
{
    if (r->cli->manage.body)
        return buf_append(&r->input, MEM_HTTP, str_from(r->cli->manage.body));
    return r->cli->from ? manage_input_read(r->cli->from, &r->input, ei) : E_OK;
}

/* Percent-encodes what is not safe in a path or query. */
static void append_encoded(char *to, size_t size, const char *text)
{
    size_t n = strlen(to);

    for (; *text && n + 4 < size; text++) {
        if (strchr("-_.~", *text) || (*text >= '0' && *text <= '9') || ((*text | 0x20) >= 'a' && (*text | 0x20) <= 'z'))
            to[n++] = *text;
        else
            n += (size_t)snprintf(to + n, size - n, "%%%02X", (unsigned)(unsigned char)*text);
    }
    to[n] = '\0';
}

static void append_plain(char *to, size_t size, const char *text)
{
    size_t n = strlen(to);

    (void)snprintf(to + n, size - n, "%s", text); /* what does not fit makes a path that nobody has */
}

static void make_path(const struct run *r, const char *begin, char *path)
{
    path[0] = '\0';
    append_plain(path, PATH_BYTES, begin);
    for (unsigned i = 1; i < r->cli->manage.n_words; i++) {
        append_plain(path, PATH_BYTES, "/");
        append_encoded(path, PATH_BYTES, r->cli->manage.words[i]);
    }
}

/* --- what is printed --- */

static json_t *answer_of(const struct run *r)
{
    struct str body = buf_str(&r->ask.body);

    return body.n ? json_loadb(body.p, body.n, JSON_DECODE_ANY, NULL) : NULL;
}

static void print_value(const json_t *value)
{
    char *text = json_dumps(value, JSON_INDENT(2) | JSON_ENCODE_ANY);

    puts(text ? text : "");
    free(text);
}

/* 1, when the registry has refused. */
static int check_status(const struct run *r)
{
    json_t *answer;
    struct str error, field;

    if (r->ask.status < 300)
        return 0;
    answer = answer_of(r);
    error = document_get_text(answer, "error");
    field = document_get_text(answer, "field");
    fprintf(stderr, "millrace: %u: %.*s%s%.*s\n", r->ask.status, STR_ARG(error), field.n ? " at " : "", STR_ARG(field));
    json_decref(answer);
    return 1;
}

static void print_texts(const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        printf("%s%s", i ? "," : "", json_string_value(json_array_get(list, i)));
}

static void print_row(const json_t *row)
{
    printf("%-*s %-8s ", COLUMN, json_string_value(json_object_get(row, "id")),
           document_get_bool(row, "enabled", true) ? "yes" : "no");
    print_texts(json_object_get(row, "via"));
    if (json_object_get(row, "alias"))
        printf("%s", json_string_value(json_object_get(row, "alias")));
    putchar('\n');
}

static void print_table(const json_t *answer, const char *last)
{
    const json_t *rows = json_object_get(answer, "result");

    printf("%-*s %-8s %s\n", COLUMN, "ID", "ENABLED", last);
    for (size_t i = 0; i < json_array_size(rows); i++)
        print_row(json_array_get(rows, i));
    printf("%zu of %lld\n", json_array_size(rows), (long long)document_get_integer(answer, "total", 0));
}

static void print_credentials(const json_t *answer)
{
    printf("%-16s %-*s %-8s %s\n", "TYPE", COLUMN, "AUTH-ID", "ENABLED", "SECRETS");
    for (size_t i = 0; i < json_array_size(answer); i++) {
        const json_t *entry = json_array_get(answer, i), *secrets = json_object_get(entry, "secrets");

        printf("%-16s %-*s %-8s ", json_string_value(json_object_get(entry, "type")), COLUMN,
               json_string_value(json_object_get(entry, "auth-id")), document_get_bool(entry, "enabled", true) ? "yes" : "no");
        for (size_t k = 0; k < json_array_size(secrets); k++)
            printf("%s%s", k ? "," : "", json_string_value(json_object_get(json_array_get(secrets, k), "id")));
        putchar('\n');
    }
}

/* --- verbs --- */

static int send_and_check(struct run *r, const char *path, struct str body)
{
    struct manage_ask_request request = {
        .method = r->verb->method, .path = path, .body = body, .if_match = r->cli->manage.if_match};
    struct errinfo ei = {0};

    return manage_ask_send(&r->ask, &request, &ei) == E_OK ? check_status(r) : fail(&ei);
}

static int run_change(struct run *r)
{
    char path[PATH_BYTES];
    json_t *answer;
    int status;

    make_path(r, r->verb->path, path);
    status = send_and_check(r, path, buf_str(&r->input));
    if (status)
        return status;
    answer = answer_of(r);
    if (is_json(r) && answer)
        print_value(answer);
    else if (answer)
        puts(json_string_value(json_object_get(answer, "id")));
    if (!is_json(r) && r->ask.tag[0])
        fprintf(stderr, "version %s\n", r->ask.tag);
    json_decref(answer);
    return 0;
}

/* Credentials are removed by putting none in their place. */
static int run_clear(struct run *r)
{
    char path[PATH_BYTES];

    make_path(r, r->verb->path, path);
    return send_and_check(r, path, STR("[]"));
}

static int run_get(struct run *r)
{
    char path[PATH_BYTES];
    json_t *answer;
    int status;

    make_path(r, r->verb->path, path);
    status = send_and_check(r, path, (struct str){0});
    if (status)
        return status;
    answer = answer_of(r);
    if (json_is_array(answer) && !is_json(r))
        print_credentials(answer);
    else
        print_value(answer);
    if (!is_json(r) && r->ask.tag[0])
        fprintf(stderr, "version %s\n", r->ask.tag);
    json_decref(answer);
    return 0;
}

static void append_parameter(char *path, const char *name, const char *value)
{
    if (!value)
        return;
    append_plain(path, PATH_BYTES, strchr(path, '?') ? "&" : "?");
    append_plain(path, PATH_BYTES, name);
    append_plain(path, PATH_BYTES, "=");
    append_encoded(path, PATH_BYTES, value);
}

static int run_list(struct run *r)
{
    const struct cli_manage *m = &r->cli->manage;
    char path[PATH_BYTES];
    json_t *answer;
    int status;

    make_path(r, r->verb->path, path);
    append_parameter(path, "filterJson", m->filter);
    append_parameter(path, "sortJson", m->sort);
    append_parameter(path, "pageSize", m->page_size);
    append_parameter(path, "pageOffset", m->page);
    status = send_and_check(r, path, (struct str){0});
    if (status)
        return status;
    answer = answer_of(r);
    if (is_json(r))
        print_value(answer);
    else
        print_table(answer, r->verb->command == CLI_TENANT ? "ALIAS" : "VIA");
    json_decref(answer);
    return 0;
}

/* The next lines, as many as go at a time. */
static struct str take_page(struct str *rest, size_t *out_lines)
{
    struct str page = {rest->p, 0};

    *out_lines = 0;
    while (rest->n && *out_lines < PAGE_LINES) {
        const char *end = memchr(rest->p, '\n', rest->n);
        size_t n = end ? (size_t)(end - rest->p) + 1 : rest->n;

        if (page.n && page.n + n > PAGE_BYTES)
            break;
        page.n += n;
        ++*out_lines;
        *rest = str_from_offset(*rest, n);
    }
    return page;
}

static void print_errors(const json_t *answer, size_t first_line)
{
    const json_t *errors = json_object_get(answer, "errors");

    for (size_t i = 0; i < json_array_size(errors); i++) {
        const json_t *error = json_array_get(errors, i);
        struct str field = document_get_text(error, "field");

        fprintf(stderr, "line %lld: %s%s%.*s\n", (long long)first_line + (long long)document_get_integer(error, "line", 1) - 1,
                document_get_text(error, "error").p, field.n ? " at " : "", STR_ARG(field));
    }
}

/* Page by page; what is there already is left alone, so whoever was interrupted begins again. */
static int run_import(struct run *r)
{
    struct str rest = buf_str(&r->input);
    long long created = 0, existing = 0, failed = 0;
    size_t line = 1, n_lines;
    char path[PATH_BYTES];

    make_path(r, r->verb->path, path);
    while (rest.n) {
        struct str page = take_page(&rest, &n_lines);
        struct manage_ask_request request = {
            .method = HTTP_METHOD_POST, .path = path, .body = page, .content_type = "application/x-ndjson"};
        struct errinfo ei = {0};
        json_t *answer;

        if (manage_ask_send(&r->ask, &request, &ei) != E_OK)
            return fail(&ei);
        if (check_status(r))
            return 1;
        answer = answer_of(r);
        created += document_get_integer(answer, "created", 0);
        existing += document_get_integer(answer, "existing", 0) + document_get_integer(answer, "unchanged", 0);
        failed += document_get_integer(answer, "failed", 0);
        print_errors(answer, line);
        json_decref(answer);
        line += n_lines;
        fprintf(stderr, "%zu lines: %lld created, %lld there before, %lld failed\n", line - 1, created, existing, failed);
    }
    return failed ? 1 : 0;
}

static int run_export(struct run *r)
{
    char path[PATH_BYTES], after[256] = "";

    do {
        int status;

        make_path(r, r->verb->path, path);
        append_parameter(path, "after", after[0] ? after : NULL);
        append_parameter(path, "secrets", r->cli->manage.has_secrets ? "true" : NULL);
        status = send_and_check(r, path, (struct str){0});
        if (status)
            return status;
        fwrite(buf_str(&r->ask.body).p, 1, buf_size(&r->ask.body), stdout);
        memcpy(after, r->ask.next, sizeof after);
    } while (after[0]);
    return 0;
}

static const struct verb verbs[] = {
    {CLI_TENANT, "create", HTTP_METHOD_POST, "/v1/tenants", 0, 1, true, run_change},
    {CLI_TENANT, "get", HTTP_METHOD_GET, "/v1/tenants", 1, 1, false, run_get},
    {CLI_TENANT, "update", HTTP_METHOD_PUT, "/v1/tenants", 1, 1, true, run_change},
    {CLI_TENANT, "delete", HTTP_METHOD_DELETE, "/v1/tenants", 1, 1, false, run_change},
    {CLI_TENANT, "list", HTTP_METHOD_GET, "/v1/tenants", 0, 0, false, run_list},
    {CLI_DEVICE, "create", HTTP_METHOD_POST, "/v1/devices", 1, 2, true, run_change},
    {CLI_DEVICE, "get", HTTP_METHOD_GET, "/v1/devices", 2, 2, false, run_get},
    {CLI_DEVICE, "update", HTTP_METHOD_PUT, "/v1/devices", 2, 2, true, run_change},
    {CLI_DEVICE, "delete", HTTP_METHOD_DELETE, "/v1/devices", 2, 2, false, run_change},
    {CLI_DEVICE, "list", HTTP_METHOD_GET, "/v1/devices", 1, 1, false, run_list},
    {CLI_DEVICE, "import", HTTP_METHOD_POST, "/v1/import", 1, 1, true, run_import},
    {CLI_DEVICE, "export", HTTP_METHOD_GET, "/v1/export", 1, 1, false, run_export},
    {CLI_CREDENTIALS, "get", HTTP_METHOD_GET, "/v1/credentials", 2, 2, false, run_get},
    {CLI_CREDENTIALS, "update", HTTP_METHOD_PUT, "/v1/credentials", 2, 2, true, run_change},
    {CLI_CREDENTIALS, "delete", HTTP_METHOD_PUT, "/v1/credentials", 2, 2, false, run_clear},
};

static const struct verb *find_verb(const struct cli *cli)
{
    unsigned n_ids = cli->manage.n_words ? cli->manage.n_words - 1 : 0;

    for (size_t i = 0; i < ARRAY_LEN(verbs) && cli->manage.n_words; i++)
        if (verbs[i].command == cli->command && strcmp(verbs[i].name, cli->manage.words[0]) == 0 && n_ids >= verbs[i].n_least &&
            n_ids <= verbs[i].n_most)
            return &verbs[i];
    return NULL;
}

int manage_run(const struct cli *cli)
{
    static struct run r; /* larger than a stack frame should be */
    const struct manage_ask_options whom = manage_input_whom(cli);
    struct errinfo ei = {0};
    int status;

    r = (struct run){.cli = cli, .verb = find_verb(cli)};
    if (!r.verb) {
        fprintf(stderr, "millrace: which of what? See millrace %s --help\n",
                cli->command == CLI_TENANT   ? "tenant"
                : cli->command == CLI_DEVICE ? "device"
                                             : "credentials");
        return 2;
    }
    if ((r.verb->has_body && read_input(&r, &ei) != E_OK) || manage_ask_open(&r.ask, &whom, &ei) != E_OK) {
        manage_input_wipe(&r.input);
        return fail(&ei);
    }
    status = r.verb->run(&r);
    manage_ask_close(&r.ask);
    manage_input_wipe(&r.input);
    return status;
}
