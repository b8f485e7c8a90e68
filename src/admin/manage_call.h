/* manage_call: one request to the management interface on its way. Only for admin/manage*. */
#pragma once

#include "admin/manage.h"
#include "base/moment.h"
#include "http/http_exchange.h"
#include "loop/loop.h"
#include "registry/hash_pool.h"
#include "registry/registry_search.h"
#include "registry/schema.h"
#include "registry/uuid.h"
#include "table/table.h"

enum {
    MANAGE_TAG_BYTES = REGISTRY_VERSION_MAX_BYTES + 3,
    MANAGE_MAX_OPERATIONS = 32,
    MANAGE_USER_BYTES = 128,
    MANAGE_MAX_LINES_BYTES = 4 << 20
};

struct manage_call;

/* What a request's body is. */
enum manage_body {
    MANAGE_BODY_NONE,
    MANAGE_BODY_TENANT,
    MANAGE_BODY_DEVICE,
    MANAGE_BODY_CREDENTIALS,
    MANAGE_BODY_LINES,
    MANAGE_BODIES
};

/* Which parameters an operation has besides those of its path. */
enum {
    MANAGE_IF_MATCH = 1u << 0,
    MANAGE_PAGES = 1u << 1,
    MANAGE_GATEWAYS = 1u << 2, /* isGateway */
    MANAGE_CHUNK = 1u << 3,    /* after, limit, secrets */
    MANAGE_OPEN = 1u << 4,     /* for everybody */
};

struct manage_operation {
    enum http_method method;
    const char *path; /* as in OpenAPI: /v1/tenants/{tenantId} */
    const char *name, *tag, *summary;
    bool is_write;
    enum manage_body body;
    unsigned parameters;
    uint16_t success;
    const uint16_t *failures; /* ended by 0; 400, 401, 403 and 503 are understood */
    void (*run)(struct manage_call *c);
    enum registry_op op; /* of writes */
};

extern const struct manage_operation manage_operations[];
extern const size_t manage_operation_count;

/* A route's context. */
struct manage_endpoint {
    struct manage *manage;
    const struct manage_operation *operation;
};

struct manage {
    struct manage_options options;
    struct http_route routes[MANAGE_MAX_OPERATIONS];
    struct manage_endpoint endpoints[MANAGE_MAX_OPERATIONS];
    char *patterns[MANAGE_MAX_OPERATIONS];
    char *openapi; /* the document's text */
};

struct manage_call {
    struct manage *m;
    struct http_exchange *x;
    const struct manage_operation *operation;
    char user[MANAGE_USER_BYTES + 1]; /* who calls */
    bool may_write;
    char tenant[SCHEMA_MAX_ID_BYTES + 1], device[SCHEMA_MAX_ID_BYTES + 1];
    char if_match[REGISTRY_VERSION_MAX_BYTES + 1], at[MOMENT_BYTES], version[UUID_BYTES];
    struct registry_request request;
    json_t *document;
    struct document_fault fault;
    struct table_write write;
    struct buf text; /* of the request to the table */
    struct hash_job job;
    struct registry_search search;
    struct task task;
};

/* Ends a call: answers and frees it. */
void manage_call_fail(struct manage_call *c, uint16_t status, const char *text);
void manage_call_refuse(struct manage_call *c); /* by its fault */
void manage_call_respond(struct manage_call *c, uint16_t status, json_t *body,
                         struct str version); /* takes body (NULL: none) */
void manage_call_respond_lines(struct manage_call *c, struct str body, struct str next);

/* Sends c->request to the table; c->write.mail has been given its on_mail. Ends the call and returns false when it cannot. */
bool manage_call_ask(struct manage_call *c);

/* The status of an answer for what the table says of a write. */
uint16_t manage_call_status(err result);

/* The value of a query parameter, decoded, in memory that the caller frees (MEM_HTTP). `*index` walks parameters of the same name, from 0. False: there is
 * none, or the fault says what is wrong with it. */
bool manage_call_query(struct manage_call *c, const char *name, size_t index, struct str *out_value);

/* A number between 0 and `max`, `otherwise` when it is not given. False: the fault says why. */
bool manage_call_number(struct manage_call *c, const char *name, uint64_t least, uint64_t max, uint64_t otherwise,
                        uint64_t *out);

/* The operations. */
void manage_write_run(struct manage_call *c);
void manage_read_tenant(struct manage_call *c);
void manage_read_device(struct manage_call *c);
void manage_read_credentials(struct manage_call *c);
void manage_search_run(struct manage_call *c);
void manage_export_run(struct manage_call *c);
void manage_import_run(struct manage_call *c);
void manage_openapi_run(struct manage_call *c);

/* The OpenAPI document's text; the caller frees it by free(). */
char *manage_openapi_write(void);
