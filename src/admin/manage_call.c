#include "admin/manage_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/manage_auth.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "registry/credentials_document.h"
#include "registry/device_document.h"
#include "registry/tenant_document.h"

enum { MAX_QUERY_BYTES = 8192, LOCATION_BYTES = 2 * SCHEMA_MAX_ID_BYTES + 40 };

/* --- the end of a call --- */

static void free_call(struct manage_call *c)
{
    json_decref(c->document);
    if (c->text.p)
        explicit_bzero(c->text.p, c->text.cap); /* it may have keys */
    buf_free(&c->text, MEM_REGISTRY);
    buf_free(&c->write.reply, MEM_TABLE);
    registry_search_end(&c->search);
    mem_free(MEM_HTTP, c);
}

static void respond(struct manage_call *c, const struct http_response *response)
{
    http_exchange_respond(c->x, response);
    free_call(c);
}

void manage_call_refuse(struct manage_call *c)
{
    static const struct http_header challenge[] = {
        {STR_INIT("WWW-Authenticate"), STR_INIT("Basic realm=\"millrace\", Bearer")}};
    static const struct http_header later[] = {{STR_INIT("Retry-After"), STR_INIT("2")}};
    json_t *body = json_object();
    char *text;

    document_set_text(body, "error", str_from(c->fault.text));
    if (c->fault.field[0])
        document_set_text(body, "field", str_from(c->fault.field));
    text = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    ASSERT(text);
    respond(c, &(struct http_response){
                   .status = c->fault.status,
                   .content_type = STR("application/json"),
                   .headers = c->fault.status == 401 ? challenge : later,
                   .n_headers = c->fault.status == 401 || c->fault.status == 503,
                   .body = str_from(text),
               });
    free(text);
}

void manage_call_fail(struct manage_call *c, uint16_t status, const char *text)
{
    c->fault = (struct document_fault){0};
    ERR_IGNORE(document_refuse(&c->fault, status, NULL, "%s", text)); /* it is told to the client */
    manage_call_refuse(c);
}

void manage_call_respond(struct manage_call *c, uint16_t status, json_t *body, struct str version)
{
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL, tag[MANAGE_TAG_BYTES], location[LOCATION_BYTES];
    struct http_header headers[2];
    size_t n = 0;

    ASSERT(text || !body);
    if (version.n) {
        (void)snprintf(tag, sizeof tag, "\"%.*s\"", STR_ARG(version)); /* fits: we made it */
        headers[n++] = (struct http_header){STR("ETag"), str_from(tag)};
    }
    if (status == 201) {
        (void)snprintf(location, sizeof location, c->device[0] ? "/v1/devices/%s/%s" : "/v1/tenants/%s", c->tenant, c->device);
        headers[n++] = (struct http_header){STR("Location"), str_from(location)};
    }
    respond(c, &(struct http_response){
                   .status = status,
                   .content_type = body ? STR("application/json") : (struct str){0},
                   .headers = headers,
                   .n_headers = n,
                   .body = text ? str_from(text) : (struct str){0},
               });
    free(text);
    json_decref(body);
}

void manage_call_respond_lines(struct manage_call *c, struct str body, struct str next)
{
    const struct http_header header = {STR("Millrace-Next"), next};

    respond(c, &(struct http_response){.status = 200,
                                       .content_type = STR("application/x-ndjson"),
                                       .headers = &header,
                                       .n_headers = next.n > 0,
                                       .body = body});
}

/* --- parameters --- */

/* Decodes percent signs, and `+` in a query, to UTF-8 without NUL. */
static bool decode(struct str raw, bool is_query, char *to, size_t size, size_t *out_n)
{
    size_t n = 0;

    for (size_t i = 0; i < raw.n; i++) {
        char c = raw.p[i];

        if (c == '%') {
            int high = raw.n - i > 2 ? str_hex_digit(raw.p[i + 1]) : -1, low = raw.n - i > 2 ? str_hex_digit(raw.p[i + 2]) : -1;

            if (high < 0 || low < 0)
                return false;
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+' && is_query) {
            c = ' ';
        }
        if (n == size)
            return false;
        to[n++] = c;
    }
    *out_n = n;
    return utf8_is_valid((struct str){to, n});
}

bool manage_call_query(struct manage_call *c, const char *name, size_t index, struct str *out_value)
{
    struct str query = c->x->request.query;
    bool has_more = query.n > 0;

    while (has_more) {
        struct str value = str_take(&query, '&', &has_more), key;
        char decoded[64], *to;
        bool has_value;
        size_t n;

        key = str_take(&value, '=', &has_value);
        if (!decode(key, true, decoded, sizeof decoded, &n) || !str_equal((struct str){decoded, n}, str_from(name)) ||
            index-- > 0)
            continue;
        if (value.n > MAX_QUERY_BYTES) {
            ERR_IGNORE(document_refuse(&c->fault, 400, NULL, "%s is too long", name)); /* told by the result as well */
            return false;
        }
        to = mem_alloc(MEM_HTTP, value.n + 1);
        if (!decode(value, true, to, value.n, &n)) {
            mem_free(MEM_HTTP, to);
            ERR_IGNORE(document_refuse(&c->fault, 400, NULL, "%s is not encoded as a query is", name)); /* as above */
            return false;
        }
        to[n] = '\0';
        *out_value = (struct str){to, n};
        return true;
    }
    return false;
}

bool manage_call_number(struct manage_call *c, const char *name, uint64_t least, uint64_t max, uint64_t otherwise,
                        uint64_t *out)
{
    struct str text;
    bool is_good;

    *out = otherwise;
    if (!manage_call_query(c, name, 0, &text))
        return !c->fault.status;
    is_good = str_to_u64(text, max, out) && *out >= least;
    mem_free(MEM_HTTP, (char *)(uintptr_t)text.p);
    if (!is_good)
        ERR_IGNORE(document_refuse(&c->fault, 400, NULL, "%s must be %llu to %llu", name, (unsigned long long)least,
                                   (unsigned long long)max)); /* told by the result as well */
    return is_good;
}

/* The ids of the path: the tenant, then the device. */
static err read_ids(struct manage_call *c)
{
    char *const ids[] = {c->tenant, c->device};

    for (size_t i = 0; i < c->x->n_params && i < ARRAY_LEN(ids); i++) {
        size_t n = 0;

        if (!decode(c->x->params[i], false, ids[i], SCHEMA_MAX_ID_BYTES, &n))
            return document_refuse(&c->fault, 400, NULL, "the path has an id that is none");
        ids[i][n] = '\0';
        if ((i == 0 ? schema_check_tenant_id((struct str){ids[i], n}, &c->fault)
                    : schema_check_device_id((struct str){ids[i], n}, &c->fault)) != E_OK)
            return E_INVAL;
    }
    return E_OK;
}

/* One entity tag, with or without quotes; `*` is any that is there, which is what no header means. */
static err read_if_match(struct manage_call *c)
{
    struct str value = http_message_header(&c->x->request, STR("If-Match"));

    if (!value.p || str_equal(value, STR("*")))
        return E_OK;
    if (str_starts_with(value, STR("W/")))
        value = str_from_offset(value, 2);
    if (value.n >= 2 && value.p[0] == '"' && value.p[value.n - 1] == '"')
        value = (struct str){value.p + 1, value.n - 2};
    if (value.n == 0 || value.n > REGISTRY_VERSION_MAX_BYTES || !utf8_is_valid(value) || memchr(value.p, 0, value.n))
        return document_refuse(&c->fault, 412, NULL, "another version is there");
    memcpy(c->if_match, value.p, value.n);
    c->request.if_match = (struct str){c->if_match, value.n};
    return E_OK;
}

static bool is_json(struct str type)
{
    bool has_more;
    struct str media = str_take(&type, ';', &has_more);

    while (media.n && media.p[media.n - 1] == ' ')
        media.n--;
    return str_equal_nocase(media, STR("application/json"));
}

static err normalise(struct manage_call *c)
{
    switch (c->operation->body) {
    case MANAGE_BODY_TENANT:
        return tenant_document_normalise(c->document, &c->fault);
    case MANAGE_BODY_DEVICE:
        return device_document_normalise(c->document, &c->fault);
    case MANAGE_BODY_CREDENTIALS:
        return credentials_document_normalise(c->document, c->m->options.bcrypt_max_cost, &c->fault);
    default:
        return E_OK;
    }
}

/* An empty body is an empty tenant or device when one is created. */
static err read_body(struct manage_call *c)
{
    struct str type = http_message_header(&c->x->request, STR("Content-Type"));

    if (c->operation->body == MANAGE_BODY_NONE || c->operation->body == MANAGE_BODY_LINES)
        return E_OK;
    if (c->x->request.body.n && type.p && !is_json(type))
        return document_refuse(&c->fault, 415, NULL, "the body must be application/json");
    if (document_parse(c->x->request.body, c->operation->success == 201, &c->document, &c->fault) != E_OK)
        return E_INVAL;
    return normalise(c);
}

/* --- writing --- */

uint16_t manage_call_status(err result)
{
    switch (result) {
    case E_LIMIT:
        return 413;
    default:
        return 503; /* nobody knows, or nothing has happened: try again */
    }
}

bool manage_call_ask(struct manage_call *c)
{
    if (registry_request_write(&c->request, &c->text) != E_OK) {
        manage_call_fail(c, 503, "no memory");
        return false;
    }
    c->write.home = &c->m->options.loop->mailbox;
    c->write.partition_key = STR("registry");
    c->write.request = buf_str(&c->text);
    table_write(c->m->options.table, &c->write);
    return true;
}

static void tell_change(struct manage_call *c)
{
    const struct manage_change change = {
        .op = c->request.op,
        .tenant = c->request.tenant,
        .device = c->request.device,
        .user = c->request.user,
        .at = c->request.at,
        .version = c->request.version,
        .document = c->operation->body == MANAGE_BODY_CREDENTIALS ? NULL : c->document,
    };

    if (c->m->options.on_change)
        c->m->options.on_change(c->m->options.context, &change);
}

static void finish_write(struct manage_call *c)
{
    json_t *body = NULL;

    tell_change(c);
    if (c->operation->success == 201) {
        body = json_object();
        document_set_text(body, "id", str_from(c->device[0] ? c->device : c->tenant));
    }
    manage_call_respond(c, c->operation->success, body, c->document ? c->request.version : (struct str){0});
}

static void on_written(struct mail *m)
{
    struct manage_call *c = CONTAINER_OF(m, struct manage_call, write.mail);
    struct registry_reply reply;

    if (c->write.result != E_OK && c->write.result != E_DENIED) {
        manage_call_fail(c, manage_call_status(c->write.result),
                         c->write.result == E_LIMIT ? "too large" : "temporarily unavailable");
        return;
    }
    if (registry_request_read_reply(buf_str(&c->write.reply), &reply) != E_OK ||
        (c->write.result == E_DENIED && !reply.fault.status)) {
        manage_call_fail(c, 503, "temporarily unavailable");
        return;
    }
    if (reply.fault.status) {
        c->fault = reply.fault;
        manage_call_refuse(c);
    } else if (reply.has_more) {
        buf_free(&c->write.reply, MEM_TABLE);
        table_write(c->m->options.table, &c->write);
    } else {
        finish_write(c);
    }
}

static void send_write(struct manage_call *c)
{
    c->request.document = c->document;
    c->write.mail.on_mail = on_written;
    (void)manage_call_ask(c); /* it has been answered otherwise */
}

static void hash(struct hash_job *job)
{
    struct manage_call *c = CONTAINER_OF(job, struct manage_call, job);

    ERR_IGNORE(credentials_document_hash(c->document, c->m->options.bcrypt_cost, &c->fault)); /* the fault tells */
}

static void on_hashed(struct mail *m)
{
    struct manage_call *c = CONTAINER_OF(m, struct manage_call, job.mail);

    if (c->job.is_dropped)
        manage_call_fail(c, 503, "temporarily unavailable");
    else if (c->fault.status)
        manage_call_refuse(c);
    else
        send_write(c);
}

/* A new tenant or device without an id gets one. */
static void complete(struct manage_call *c)
{
    char id[UUID_BYTES];
    bool has_device = c->operation->body == MANAGE_BODY_DEVICE;
    char *to = has_device ? c->device : c->tenant;

    if (c->operation->success == 201 && !to[0])
        memcpy(to, uuid_make(id).p, UUID_BYTES);
    c->request.op = c->operation->op;
    c->request.tenant = str_from(c->tenant);
    c->request.device = str_from(c->device);
    c->request.version = uuid_make(c->version);
    c->request.at = (struct str){c->at, moment_format((int64_t)loop_wall_ms(), c->at)};
    c->request.user = str_from(c->user);
    c->request.source = STR("api");
}

void manage_write_run(struct manage_call *c)
{
    complete(c);
    if (c->operation->body != MANAGE_BODY_CREDENTIALS || credentials_document_plain(c->document) == 0) {
        send_write(c);
        return;
    }
    c->job = (struct hash_job){.mail = {.on_mail = on_hashed}, .home = &c->m->options.loop->mailbox, .run = hash};
    if (hash_pool_submit(c->m->options.pool, &c->job) != E_OK)
        manage_call_fail(c, 503, "too many passwords wait to be hashed");
}

/* --- the beginning --- */

static err check_user(struct manage_call *c)
{
    const struct manage_options *options = &c->m->options;
    const struct config_admin_user *user;
    enum manage_auth auth;

    if (c->operation->parameters & MANAGE_OPEN)
        return E_OK;
    auth = manage_auth_check(options->users, options->user_count, &c->x->request, c->operation->is_write, str_from(c->tenant),
                             &user);
    (void)snprintf(c->user, sizeof c->user, "%s", user ? user->id.p : "anonymous"); /* a longer name is cut */
    c->may_write = !user || user->role == CONFIG_ROLE_WRITE;
    switch (auth) {
    case MANAGE_AUTH_OK:
        return E_OK;
    case MANAGE_AUTH_DENIED:
        return document_refuse(&c->fault, 403, NULL, "%s may not do this", c->user);
    default:
        return document_refuse(&c->fault, 401, NULL, "credentials are missing or wrong");
    }
}

/* Who asks comes first: a stranger learns nothing, not even what is wrong with his request. */
static void begin(struct http_exchange *x, void *context)
{
    const struct manage_endpoint *endpoint = context;
    struct manage_call *c = mem_alloc_zero(MEM_HTTP, sizeof *c);
    struct document_fault ids = {0};
    err e;

    c->m = endpoint->manage;
    c->x = x;
    c->operation = endpoint->operation;
    if (read_ids(c) != E_OK) {
        ids = c->fault;
        c->tenant[0] = '\0';
        c->fault = (struct document_fault){0};
    }
    e = check_user(c);
    if (e == E_OK && ids.status) {
        c->fault = ids;
        e = E_INVAL;
    }
    if (e == E_OK && c->operation->parameters & MANAGE_IF_MATCH)
        e = read_if_match(c);
    if (e == E_OK)
        e = read_body(c);
    if (e == E_OK)
        c->operation->run(c);
    else
        manage_call_refuse(c);
}

/* /v1/tenants/{tenantId} becomes /v1/tenants/{}. */
static char *pattern_of(const char *path)
{
    char *pattern = mem_copy_text(MEM_HTTP, path, strlen(path)), *to = pattern;
    bool is_inside = false;

    for (const char *p = path; *p; p++) {
        if (*p == '}')
            is_inside = false;
        if (!is_inside)
            *to++ = *p;
        if (*p == '{')
            is_inside = true;
    }
    *to = '\0';
    return pattern;
}

struct manage *manage_new(const struct manage_options *options)
{
    struct manage *m = mem_alloc_zero(MEM_HTTP, sizeof *m);

    ASSERT(manage_operation_count <= MANAGE_MAX_OPERATIONS);
    m->options = *options;
    for (size_t i = 0; i < manage_operation_count; i++) {
        const struct manage_operation *op = &manage_operations[i];

        m->patterns[i] = pattern_of(op->path);
        m->endpoints[i] = (struct manage_endpoint){m, op};
        m->routes[i] = (struct http_route){
            .method = op->method,
            .pattern = m->patterns[i],
            .handler = begin,
            .context = &m->endpoints[i],
            .max_body_bytes = op->body == MANAGE_BODY_LINES ? MANAGE_MAX_LINES_BYTES : DOCUMENT_MAX_BYTES,
        };
    }
    m->openapi = manage_openapi_write();
    return m;
}

const struct http_route *manage_routes(const struct manage *m, size_t *out_n)
{
    *out_n = manage_operation_count;
    return m->routes;
}

void manage_use_users(struct manage *m, const struct config_admin_user *users, size_t user_count)
{
    m->options.users = users;
    m->options.user_count = user_count;
}

void manage_free(struct manage *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < manage_operation_count; i++)
        mem_free(MEM_HTTP, m->patterns[i]);
    free(m->openapi);
    mem_free(MEM_HTTP, m);
}
