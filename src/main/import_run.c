#include "main/import_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "main/import_hono.h"
#include "main/import_mosquitto.h"
#include "main/manage_ask.h"
#include "main/manage_input.h"
#include "registry/tenant_document.h"

enum {
    PAGE_BYTES = 3 << 20, /* what is sent at a time; the interface takes 4 MiB and tells of as many lines */
    PAGE_LINES = 5000,
    PATH_BYTES = 512,
};

/* read = the sum of the others */
struct counts {
    size_t read, created, updated, unchanged, skipped, failed;
};

struct run {
    const struct cli *cli;
    struct manage_ask ask;
    struct import_list list;
    struct import_acl_counts acl;
    struct counts tenants, devices;
    struct buf page;
    const struct import_device *on_page[PAGE_LINES];
    size_t n_on_page, n_sent;
    bool is_acl; /* there was such a file */
};

/* How a step ended. */
enum step { GO_ON, STOP };

static bool is_json(const struct run *r)
{
    return r->cli->manage.output && strcmp(r->cli->manage.output, "json") == 0;
}

static bool is_dry(const struct run *r)
{
    return r->cli->manage.is_dry;
}

static enum step stop(const char *text)
{
    fprintf(stderr, "millrace: %s\n", text);
    return STOP;
}

static void print_note(void *context, enum import_kind kind, struct import_place place, const char *text)
{
    (void)context;
    (void)kind;
    if (place.line)
        fprintf(stderr, "%s:%u: %s\n", place.file, place.line, text);
    else
        fprintf(stderr, "%s: %s\n", place.file, text);
}

static void PRINTF_LIKE(2, 3) print_at(struct import_place place, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args); /* what does not fit is cut */
    va_end(args);
    print_note(NULL, IMPORT_LOST, place, text);
}

/* --- what is read --- */

static enum step read_file(const char *path, struct buf *text)
{
    struct errinfo ei = {0};

    return manage_input_read(path, text, &ei) == E_OK ? GO_ON : stop(ei.text);
}

static enum step read_mosquitto(struct run *r)
{
    const struct cli_manage *m = &r->cli->manage;
    struct str tenant = str_from(m->tenant);
    enum step step = GO_ON;
    struct buf text = {0};

    for (unsigned i = 1; i < m->n_words && step == GO_ON; i++) {
        step = read_file(m->words[i], &text);
        if (step == GO_ON)
            import_mosquitto_read_passwords(&r->list, tenant, m->words[i], buf_str(&text));
        manage_input_wipe(&text);
    }
    if (step == GO_ON && m->acl) {
        r->is_acl = true;
        step = read_file(m->acl, &text);
        if (step == GO_ON)
            import_mosquitto_read_acl(&r->list, tenant, m->acl, buf_str(&text), &r->acl);
        manage_input_wipe(&text);
    }
    return step;
}

static enum step read_hono(struct run *r)
{
    const struct cli_manage *m = &r->cli->manage;
    enum step step = GO_ON;

    for (unsigned i = 1; i < m->n_words && step == GO_ON; i++) {
        struct errinfo ei = {0};
        struct buf text = {0};

        step = read_file(m->words[i], &text);
        if (step == GO_ON && import_hono_read(&r->list, m->words[i], buf_str(&text), &ei) != E_OK)
            step = stop(ei.text);
        manage_input_wipe(&text);
    }
    if (step == GO_ON)
        import_hono_check(&r->list);
    return step;
}

/* --- asking --- */

/* E_OK: there is an answer that is one of this interface; what is no yes and no `but` is told, and ends it all. */
static enum step ask(struct run *r, const struct manage_ask_request *request, uint16_t but)
{
    struct errinfo ei = {0};

    if (manage_ask_send(&r->ask, request, &ei) != E_OK)
        return stop(ei.text);
    if (r->ask.status >= 300 && r->ask.status != but && (r->ask.status < 400 || r->ask.status == 401 || r->ask.status >= 500)) {
        fprintf(stderr, "millrace: %u: %.*s\n", r->ask.status, STR_ARG(buf_str(&r->ask.body)));
        return STOP;
    }
    return GO_ON;
}

static json_t *answer_of(const struct run *r)
{
    struct str body = buf_str(&r->ask.body);

    return body.n ? json_loadb(body.p, body.n, 0, NULL) : NULL;
}

/* --- tenants --- */

static void fail_tenant(struct run *r, const struct import_tenant *ten, struct str text, struct str field)
{
    r->tenants.failed++;
    print_at(ten->place, "tenant %s: %.*s%s%.*s", ten->id, STR_ARG(text), field.n ? " at " : "", STR_ARG(field));
}

/* Whether the registry shows what was to be imported; ids that it has given to CAs itself do not count. */
static bool is_same_tenant(const struct import_tenant *ten, const json_t *normal, const json_t *shown)
{
    json_t *left = json_deep_copy(normal), *right = json_deep_copy(shown);
    const json_t *cas = json_object_get(ten->document, "trusted-ca");
    bool is_same;

    for (size_t i = 0; i < json_array_size(cas); i++)
        if (!json_object_get(json_array_get(cas, i), "id")) {
            (void)json_object_del(json_array_get(json_object_get(left, "trusted-ca"), i), "id"); /* it is there */
            (void)json_object_del(json_array_get(json_object_get(right, "trusted-ca"), i), "id");
        }
    is_same = json_equal(left, right);
    json_decref(left);
    json_decref(right);
    return is_same;
}

static enum step write_tenant(struct run *r, const struct import_tenant *ten, const char *path, bool is_new)
{
    char *body = json_dumps(ten->document, JSON_COMPACT), tag[sizeof r->ask.tag];
    struct manage_ask_request request = {
        .method = is_new ? HTTP_METHOD_POST : HTTP_METHOD_PUT, .path = path, .body = str_from(body)};
    enum step step;

    memcpy(tag, r->ask.tag, sizeof tag);
    request.if_match = is_new ? NULL : tag;
    step = ask(r, &request, 0);
    free(body);
    if (step == STOP)
        return STOP;
    if (r->ask.status < 300) {
        ++*(is_new ? &r->tenants.created : &r->tenants.updated);
    } else {
        json_t *answer = answer_of(r);

        fail_tenant(r, ten, document_get_text(answer, "error"), document_get_text(answer, "field"));
        json_decref(answer);
    }
    return GO_ON;
}

/* With what is shown of the tenant as the last answer, or that it is not there. */
static enum step settle_tenant(struct run *r, const struct import_tenant *ten, const char *path, const json_t *normal)
{
    bool is_new = r->ask.status == 404;
    json_t *shown = is_new ? NULL : answer_of(r);
    bool is_same = shown && is_same_tenant(ten, normal, shown);

    json_decref(shown);
    if (is_same) {
        r->tenants.unchanged++;
    } else if (!is_new && !r->cli->manage.is_update) {
        r->tenants.skipped++;
        print_at(ten->place, "tenant %s is there and not the same: left alone", ten->id);
    } else if (is_dry(r)) {
        ++*(is_new ? &r->tenants.created : &r->tenants.updated);
    } else {
        return write_tenant(r, ten, path, is_new);
    }
    return GO_ON;
}

/* Brings the tenant in, if the files have it, and says whether its devices have one. */
static enum step import_tenant(struct run *r, const struct import_tenant *ten, bool *out_is_there)
{
    struct document_fault fault = {0};
    char path[PATH_BYTES];
    struct manage_ask_request request = {.method = HTTP_METHOD_GET, .path = path};
    json_t *normal;
    enum step step;

    *out_is_there = false;
    if (schema_check_tenant_id(str_from(ten->id), &fault) != E_OK) {
        if (ten->document)
            fail_tenant(r, ten, str_from(fault.text), STR(""));
        else
            fprintf(stderr, "millrace: tenant %s: %s\n", ten->id, fault.text);
        return GO_ON;
    }
    (void)snprintf(path, sizeof path, "/v1/tenants/%s", ten->id); /* fits */
    step = ask(r, &request, 404);
    if (step == STOP)
        return STOP;
    if (r->ask.status != 404 && r->ask.status >= 300)
        return stop(r->ask.status == 403 ? "this user may not see the tenant" : "the answer is not understood");
    if (!ten->document) {
        *out_is_there = r->ask.status < 300;
        if (!*out_is_there)
            fprintf(stderr, "millrace: there is no tenant %s: millrace tenant create %s makes it\n", ten->id, ten->id);
        return GO_ON;
    }
    normal = json_deep_copy(ten->document);
    *out_is_there = r->ask.status < 300;
    if (tenant_document_normalise(normal, &fault) != E_OK) {
        fail_tenant(r, ten, str_from(fault.text), str_from(fault.field));
    } else {
        size_t n_failed = r->tenants.failed;

        step = settle_tenant(r, ten, path, normal);
        *out_is_there |= r->tenants.failed == n_failed;
    }
    json_decref(normal);
    return step;
}

/* --- devices --- */

static void add_line(struct run *r, const struct import_device *d)
{
    json_t *id = json_string(d->id);
    char *text = json_dumps(id, JSON_ENCODE_ANY);

    ASSERT(text);
    ERR_IGNORE(buf_printf(&r->page, MEM_HTTP, "{\"id\":%s,\"device\":%s", text, d->device ? d->device : "{}")); /* seen below */
    if (d->credentials)
        ERR_IGNORE(buf_printf(&r->page, MEM_HTTP, ",\"credentials\":[%s]", d->credentials));
    ERR_IGNORE(buf_append(&r->page, MEM_HTTP, STR("}\n")));
    free(text);
    json_decref(id);
    r->on_page[r->n_on_page++] = d;
}

static const struct import_device *device_of(const struct run *r, int64_t line)
{
    return line >= 1 && line <= (int64_t)r->n_on_page ? r->on_page[line - 1] : NULL;
}

static void print_answer(const struct run *r, const json_t *answer)
{
    const json_t *errors = json_object_get(answer, "errors"), *left = json_object_get(answer, "left-alone");

    for (size_t i = 0; i < json_array_size(errors); i++) {
        const json_t *error = json_array_get(errors, i);
        const struct import_device *d = device_of(r, document_get_integer(error, "line", 0));
        struct str text = document_get_text(error, "error"), field = document_get_text(error, "field");

        if (d)
            print_at(d->place, "%s/%s: %.*s%s%.*s", d->tenant->id, d->id, STR_ARG(text), field.n ? " at " : "", STR_ARG(field));
    }
    for (size_t i = 0; i < json_array_size(left); i++) {
        const struct import_device *d = device_of(r, (int64_t)json_integer_value(json_array_get(left, i)));

        if (d)
            print_at(d->place, "%s/%s is there and not the same: left alone", d->tenant->id, d->id);
    }
}

static enum step send_page(struct run *r, const struct import_tenant *ten)
{
    char path[PATH_BYTES];
    struct manage_ask_request request = {
        .method = HTTP_METHOD_POST, .path = path, .body = buf_str(&r->page), .content_type = "application/x-ndjson"};
    struct counts *c = &r->devices;
    json_t *answer;

    (void)snprintf(path, sizeof path, "/v1/import/%s?existing=%s&dry-run=%s", ten->id,
                   r->cli->manage.is_update ? "update" : "keep", is_dry(r) ? "true" : "false"); /* fits */
    if (ask(r, &request, 0) == STOP)
        return STOP;
    answer = answer_of(r);
    if (r->ask.status != 200 || !answer) {
        fprintf(stderr, "millrace: %u: %.*s\n", r->ask.status, STR_ARG(document_get_text(answer, "error")));
        json_decref(answer);
        return STOP;
    }
    c->created += (size_t)document_get_integer(answer, "created", 0);
    c->updated += (size_t)document_get_integer(answer, "updated", 0);
    c->unchanged += (size_t)document_get_integer(answer, "unchanged", 0);
    c->skipped += (size_t)document_get_integer(answer, "existing", 0);
    c->failed += (size_t)document_get_integer(answer, "failed", 0);
    print_answer(r, answer);
    json_decref(answer);
    r->n_sent += r->n_on_page;
    if (r->list.n_devices > PAGE_LINES)
        fprintf(stderr, "%zu of %zu devices\n", r->n_sent, r->list.n_devices);
    buf_consume(&r->page, buf_size(&r->page));
    r->n_on_page = 0;
    return GO_ON;
}

static enum step import_devices(struct run *r, const struct import_tenant *ten, bool is_there)
{
    enum step step = GO_ON;

    for (const struct import_device *d = ten->first; d && step == GO_ON; d = d->next) {
        if (!is_there || d->is_orphan) {
            r->devices.failed++;
            continue;
        }
        add_line(r, d);
        if (r->n_on_page == PAGE_LINES || buf_size(&r->page) >= PAGE_BYTES)
            step = send_page(r, ten);
    }
    if (step == GO_ON && r->n_on_page)
        step = send_page(r, ten);
    return step;
}

/* --- the whole --- */

static void print_counts(const char *what, const struct counts *c)
{
    printf("%s: %zu read = %zu created + %zu updated + %zu unchanged + %zu skipped + %zu failed\n", what, c->read, c->created,
           c->updated, c->unchanged, c->skipped, c->failed);
}

static void print_json_counts(const char *what, const struct counts *c)
{
    printf("\"%s\":{\"read\":%zu,\"created\":%zu,\"updated\":%zu,\"unchanged\":%zu,\"skipped\":%zu,\"failed\":%zu}", what,
           c->read, c->created, c->updated, c->unchanged, c->skipped, c->failed);
}

static void print_sums(const struct run *r)
{
    size_t n_lost_lines = r->acl.n_lines - r->acl.n_held - r->acl.n_gateway;

    if (is_json(r)) {
        printf("{\"dry-run\":%s,", is_dry(r) ? "true" : "false");
        print_json_counts("tenants", &r->tenants);
        putchar(',');
        print_json_counts("devices", &r->devices);
        if (r->is_acl)
            printf(",\"acl\":{\"lines\":%zu,\"held\":%zu,\"via\":%zu,\"lost\":%zu}", r->acl.n_lines, r->acl.n_held,
                   r->acl.n_gateway, n_lost_lines);
        printf(",\"lost\":%zu}\n", r->list.n_lost);
        return;
    }
    if (r->tenants.read)
        print_counts("tenants", &r->tenants);
    print_counts("devices", &r->devices);
    if (r->is_acl)
        printf("access: %zu lines = %zu hold for every device + %zu became via + %zu not carried over\n", r->acl.n_lines,
               r->acl.n_held, r->acl.n_gateway, n_lost_lines);
    if (is_dry(r))
        puts("nothing was changed (--dry-run)");
}

static enum step import_all(struct run *r)
{
    enum step step = GO_ON;

    r->tenants = (struct counts){.read = r->list.n_tenants + r->list.n_skipped_tenants + r->list.n_failed_tenants,
                                 .skipped = r->list.n_skipped_tenants,
                                 .failed = r->list.n_failed_tenants};
    r->devices = (struct counts){.read = r->list.n_devices + r->list.n_skipped_devices + r->list.n_failed_devices,
                                 .skipped = r->list.n_skipped_devices,
                                 .failed = r->list.n_failed_devices};
    for (const struct import_tenant *ten = r->list.tenants; ten && step == GO_ON; ten = ten->next) {
        bool is_there;

        step = import_tenant(r, ten, &is_there);
        if (step == GO_ON)
            step = import_devices(r, ten, is_there);
    }
    return step;
}

static const struct {
    const char *name;
    enum step (*read)(struct run *r);
} sources[] = {{"mosquitto", read_mosquitto}, {"hono", read_hono}};

static enum step read_source(struct run *r)
{
    size_t i = 0;

    while (i + 1 < ARRAY_LEN(sources) && strcmp(r->cli->manage.words[0], sources[i].name) != 0)
        i++;
    return sources[i].read(r); /* the command line has seen to it that it is one of them */
}

int import_run(const struct cli *cli)
{
    static struct run r; /* larger than a stack frame should be */
    const struct manage_ask_options whom = manage_input_whom(cli);
    struct errinfo ei = {0};
    enum step step;
    int status = 2;

    r = (struct run){.cli = cli, .list = {.tell = print_note, .only_tenant = cli->manage.tenant}};
    step = read_source(&r);
    if (step == GO_ON && manage_ask_open(&r.ask, &whom, &ei) != E_OK)
        step = stop(ei.text);
    if (step == GO_ON)
        step = import_all(&r);
    if (step == GO_ON) {
        print_sums(&r);
        status = r.tenants.failed || r.devices.failed || r.list.n_lost ? 1 : 0;
    } else if (r.ask.is_open)
        fputs("millrace: what was done until here is there; begun again, it goes on\n", stderr);
    manage_ask_close(&r.ask);
    manage_input_wipe(&r.page);
    import_list_fini(&r.list);
    return status;
}
