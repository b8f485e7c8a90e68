/* The OpenAPI 3.0 document of the management interface, made of its operations and of the registry's schemas. */
#include <stdio.h>
#include <stdlib.h>

#include "admin/manage_call.h"
#include "base/check.h"
#include "registry/credentials_document.h"
#include "registry/device_document.h"
#include "registry/tenant_document.h"

enum { REFERENCE_BYTES = 100 };

static json_t *text(const char *value)
{
    return json_string(value);
}

static json_t *reference(const char *kind, const char *name)
{
    char path[REFERENCE_BYTES];
    json_t *object = json_object();

    (void)snprintf(path, sizeof path, "#/components/%s/%s", kind, name); /* fits */
    document_set(object, "$ref", text(path));
    return object;
}

static json_t *typed(const char *type)
{
    json_t *object = json_object();

    document_set(object, "type", text(type));
    return object;
}

/* --- schemas --- */

static json_t *text_schema(const struct schema_member *member)
{
    json_t *schema = typed("string"), *choices;

    if (member->choices) {
        choices = json_array();
        for (size_t i = 0; member->choices[i]; i++)
            ASSERT(json_array_append_new(choices, text(member->choices[i])) == 0);
        document_set(schema, "enum", choices);
        return schema;
    }
    if (member->min)
        document_set(schema, "minLength", json_integer(member->min));
    document_set(schema, "maxLength", json_integer(schema_max(member)));
    if (schema_form_pattern(member->form))
        document_set(schema, "pattern", text(schema_form_pattern(member->form)));
    if (schema_form_format(member->form))
        document_set(schema, "format", text(schema_form_format(member->form)));
    return schema;
}

static json_t *list_schema(json_t *items, int64_t min, int64_t max, bool is_unique)
{
    json_t *schema = typed("array");

    document_set(schema, "items", items);
    if (min)
        document_set(schema, "minItems", json_integer(min));
    document_set(schema, "maxItems", json_integer(max));
    if (is_unique)
        document_set(schema, "uniqueItems", json_true());
    return schema;
}

static json_t *any_of(json_t *first, json_t *second)
{
    json_t *schema = json_object(), *list = json_array();

    ASSERT(json_array_append_new(list, first) == 0 && (!second || json_array_append_new(list, second) == 0));
    document_set(schema, "anyOf", list);
    return schema;
}

static json_t *map_schema(const struct schema_member *member)
{
    json_t *schema = typed("object"), *kinds;

    if (member->type == SCHEMA_FREE)
        return schema;
    document_set(schema, "maxProperties", json_integer(schema_max(member)));
    if (member->type == SCHEMA_MAP) {
        struct schema_member value = {.type = SCHEMA_TEXT, .form = member->form, .choices = member->choices};

        document_set(schema, "additionalProperties", text_schema(&value));
        return schema;
    }
    kinds = any_of(typed("string"), typed("number"));
    ASSERT(json_array_append_new(json_object_get(kinds, "anyOf"), typed("boolean")) == 0);
    document_set(schema, "additionalProperties", kinds);
    return schema;
}

static json_t *integer_schema(const struct schema_member *member)
{
    json_t *schema = typed("integer");

    document_set(schema, "format", text("int64"));
    document_set(schema, "minimum", json_integer(member->min));
    document_set(schema, "maximum", json_integer(schema_max(member)));
    return schema;
}

static json_t *member_schema(const struct schema_member *member)
{
    json_t *schema;

    switch (member->type) {
    case SCHEMA_BOOL:
        schema = typed("boolean");
        break;
    case SCHEMA_INTEGER:
        schema = integer_schema(member);
        break;
    case SCHEMA_TEXT:
        schema = text_schema(member);
        break;
    case SCHEMA_TEXTS:
        schema = any_of(text_schema(member), list_schema(text_schema(member), 0, SCHEMA_MAX_TEXTS, true));
        break;
    case SCHEMA_OBJECT:
        return reference("schemas", member->of->name);
    case SCHEMA_LIST:
        schema = list_schema(reference("schemas", member->of->name), member->min, schema_max(member), false);
        break;
    default:
        schema = map_schema(member);
        break;
    }
    if (member->help)
        document_set(schema, "description", text(member->help));
    if (member->flags & SCHEMA_WRITE_ONLY)
        document_set(schema, "writeOnly", json_true());
    if (member->flags & SCHEMA_READ_ONLY)
        document_set(schema, "readOnly", json_true());
    return schema;
}

static void add_schema(json_t *schemas, const struct schema *schema)
{
    json_t *object, *members, *required;

    if (json_object_get(schemas, schema->name))
        return;
    object = typed("object");
    members = json_object();
    required = json_array();
    document_set(schemas, schema->name, object);
    document_set(object, "properties", members);
    document_set(object, "additionalProperties", json_false());
    for (size_t i = 0; i < schema->count; i++) {
        const struct schema_member *member = &schema->members[i];

        document_set(members, member->name, member_schema(member));
        if (member->flags & SCHEMA_REQUIRED)
            ASSERT(json_array_append_new(required, text(member->name)) == 0);
        if (member->of)
            add_schema(schemas, member->of);
    }
    if (json_array_size(required))
        document_set(object, "required", required);
    else
        json_decref(required);
}

static void add_credentials(json_t *schemas)
{
    json_t *any = json_object(), *list = json_array();

    for (int i = 0; i < CREDENTIALS_TYPES; i++) {
        const struct schema *schema = credentials_document_schema((enum credentials_type)i);

        add_schema(schemas, schema);
        ASSERT(json_array_append_new(list, reference("schemas", schema->name)) == 0);
    }
    document_set(any, "anyOf", list);
    document_set(schemas, "CredentialsSet", list_schema(any, 0, CREDENTIALS_MAX, false));
}

/* {"type": "object", "required": [...]} with one text member each. */
static json_t *texts_object(const char *first, const char *second, bool is_second_required)
{
    json_t *object = typed("object"), *members = json_object(), *required = json_array();

    document_set(members, first, typed("string"));
    ASSERT(json_array_append_new(required, text(first)) == 0);
    if (second)
        document_set(members, second, typed("string"));
    if (second && is_second_required)
        ASSERT(json_array_append_new(required, text(second)) == 0);
    document_set(object, "properties", members);
    document_set(object, "required", required);
    return object;
}

static json_t *results_schema(void)
{
    json_t *object = typed("object"), *members = json_object();

    document_set(members, "total", typed("integer"));
    document_set(members, "result", list_schema(typed("object"), 1, REGISTRY_SEARCH_PAGE_MAX, false));
    document_set(object, "properties", members);
    return object;
}

static json_t *make_schemas(void)
{
    json_t *schemas = json_object();

    add_schema(schemas, &tenant_schema);
    add_schema(schemas, &device_schema);
    add_credentials(schemas);
    document_set(schemas, "Error", texts_object("error", "field", false));
    document_set(schemas, "Created", texts_object("id", NULL, false));
    document_set(schemas, "Results", results_schema());
    return schemas;
}

/* --- operations --- */

static json_t *parameter(const char *in, const char *name, json_t *schema, const char *description)
{
    json_t *object = json_object();

    document_set(object, "name", text(name));
    document_set(object, "in", text(in));
    if (*in == 'p')
        document_set(object, "required", json_true());
    document_set(object, "schema", schema);
    document_set(object, "description", text(description));
    return object;
}

static json_t *number_schema(int64_t min, int64_t max, int64_t initial)
{
    json_t *schema = typed("integer");

    document_set(schema, "minimum", json_integer(min));
    document_set(schema, "maximum", json_integer(max));
    document_set(schema, "default", json_integer(initial));
    return schema;
}

static void add(json_t *list, json_t *value)
{
    ASSERT(json_array_append_new(list, value) == 0);
}

static json_t *id_schema(enum schema_form form)
{
    static const struct schema_member tenant = {
        .type = SCHEMA_TEXT, .form = SCHEMA_TENANT_ID, .min = 1, .max = SCHEMA_MAX_ID_BYTES};
    static const struct schema_member device = {
        .type = SCHEMA_TEXT, .form = SCHEMA_DEVICE_ID, .min = 1, .max = SCHEMA_MAX_ID_BYTES};

    return text_schema(form == SCHEMA_TENANT_ID ? &tenant : &device);
}

static json_t *parameters_of(const struct manage_operation *op)
{
    json_t *list = json_array();

    if (strstr(op->path, "{tenantId}"))
        add(list, parameter("path", "tenantId", id_schema(SCHEMA_TENANT_ID), "The tenant's id."));
    if (strstr(op->path, "{deviceId}"))
        add(list, parameter("path", "deviceId", id_schema(SCHEMA_DEVICE_ID), "The device's id."));
    if (op->parameters & MANAGE_IF_MATCH)
        add(list, parameter("header", "If-Match", typed("string"), "The version (ETag) that must be there."));
    if (op->parameters & MANAGE_PAGES) {
        add(list, parameter("query", "pageSize", number_schema(1, REGISTRY_SEARCH_PAGE_MAX, REGISTRY_SEARCH_PAGE_DEFAULT),
                            "How many results a page has."));
        add(list, parameter("query", "pageOffset", number_schema(0, REGISTRY_SEARCH_OFFSET_MAX, 0), "Which page, from 0."));
        add(list, parameter("query", "filterJson", list_schema(typed("string"), 0, REGISTRY_SEARCH_FILTERS, false),
                            "{\"field\": POINTER, \"op\": eq|neq|gt|gte|lt|lte|in, \"value\": ...}; all must match."));
        add(list, parameter("query", "sortJson", list_schema(typed("string"), 0, REGISTRY_SEARCH_SORTS, false),
                            "{\"field\": POINTER, \"direction\": asc|desc}"));
    }
    if (op->parameters & MANAGE_GATEWAYS)
        add(list, parameter("query", "isGateway", typed("boolean"), "Only gateways, or only other devices."));
    return list;
}

static json_t *content_of(json_t *schema)
{
    json_t *content = json_object(), *media = json_object();

    document_set(media, "schema", schema);
    document_set(content, "application/json", media);
    return content;
}

static json_t *header_of(const char *description)
{
    json_t *header = json_object();

    document_set(header, "description", text(description));
    document_set(header, "schema", typed("string"));
    return header;
}

static const char *const body_schemas[MANAGE_BODIES] = {
    [MANAGE_BODY_TENANT] = "Tenant",
    [MANAGE_BODY_DEVICE] = "Device",
    [MANAGE_BODY_CREDENTIALS] = "CredentialsSet",
};

/* What a GET shows. */
static json_t *shown_schema(const struct manage_operation *op)
{
    if (op->parameters & MANAGE_PAGES)
        return reference("schemas", "Results");
    if (op->parameters & MANAGE_OPEN)
        return typed("object");
    if (op->run == manage_read_tenant)
        return reference("schemas", "Tenant");
    return reference("schemas", op->run == manage_read_device ? "Device" : "CredentialsSet");
}

static json_t *success_of(const struct manage_operation *op)
{
    json_t *response = json_object(), *headers = json_object();

    document_set(response, "description",
                 text(op->success == 201   ? "It is registered."
                      : op->success == 204 ? "It is done."
                                           : "Found."));
    if (op->success == 201)
        document_set(headers, "Location", header_of("The path of what was registered."));
    if (op->body != MANAGE_BODY_NONE || (op->success == 200 && !(op->parameters & (MANAGE_PAGES | MANAGE_OPEN))))
        document_set(headers, "ETag", header_of("The version."));
    document_set(response, "headers", headers);
    if (op->success == 201)
        document_set(response, "content", content_of(reference("schemas", "Created")));
    if (op->success == 200)
        document_set(response, "content", content_of(shown_schema(op)));
    return response;
}

static const struct {
    uint16_t status;
    const char *description;
} failures[] = {
    {400, "The request says something that cannot be."},
    {401, "Credentials are missing or wrong."},
    {403, "The user may not do this, or a limit is reached."},
    {404, "There is no such thing, or nothing matches."},
    {409, "Something else has this id, alias, log-in or CA."},
    {412, "Another version is there."},
    {413, "The body is too large."},
    {415, "The body is not JSON."},
    {503, "The registry cannot tell now."},
};

static bool can_fail(const struct manage_operation *op, uint16_t status)
{
    if (status == 400 || status == 401 || status == 403 || status == 503)
        return true;
    for (size_t i = 0; op->failures[i]; i++)
        if (op->failures[i] == status)
            return true;
    return false;
}

static json_t *responses_of(const struct manage_operation *op)
{
    json_t *responses = json_object();
    char status[8];

    (void)snprintf(status, sizeof status, "%u", op->success); /* fits */
    document_set(responses, status, success_of(op));
    for (size_t i = 0; i < ARRAY_LEN(failures); i++) {
        json_t *response;

        if (!can_fail(op, failures[i].status))
            continue;
        response = json_object();
        document_set(response, "description", text(failures[i].description));
        document_set(response, "content", content_of(reference("schemas", "Error")));
        (void)snprintf(status, sizeof status, "%u", failures[i].status); /* fits */
        document_set(responses, status, response);
    }
    return responses;
}

static json_t *operation(const struct manage_operation *op)
{
    json_t *object = json_object(), *tags = json_array(), *body;

    add(tags, text(op->tag));
    document_set(object, "operationId", text(op->name));
    document_set(object, "tags", tags);
    document_set(object, "summary", text(op->summary));
    document_set(object, "parameters", parameters_of(op));
    if (body_schemas[op->body]) {
        body = json_object();
        document_set(body, "content", content_of(reference("schemas", body_schemas[op->body])));
        document_set(body, "required", json_boolean(op->success != 201));
        document_set(object, "requestBody", body);
    }
    document_set(object, "responses", responses_of(op));
    if (op->parameters & MANAGE_OPEN)
        document_set(object, "security", json_array());
    return object;
}

static json_t *make_paths(void)
{
    static const char *const verbs[HTTP_METHODS] = {
        [HTTP_METHOD_GET] = "get", [HTTP_METHOD_POST] = "post", [HTTP_METHOD_PUT] = "put", [HTTP_METHOD_DELETE] = "delete"};
    json_t *paths = json_object();

    for (size_t i = 0; i < manage_operation_count; i++) {
        const struct manage_operation *op = &manage_operations[i];
        json_t *path = json_object_get(paths, op->path);

        if (op->body == MANAGE_BODY_LINES || op->parameters & MANAGE_CHUNK)
            continue; /* not JSON: docs/REGISTRY.md */
        if (!path) {
            path = json_object();
            document_set(paths, op->path, path);
        }
        document_set(path, verbs[op->method], operation(op));
    }
    return paths;
}

static json_t *make_security(const char *scheme)
{
    json_t *object = typed("http");

    document_set(object, "scheme", text(scheme));
    return object;
}

char *manage_openapi_write(void)
{
    json_t *document = json_object(), *info = json_object(), *components = json_object(), *schemes = json_object(),
           *security = json_array();
    static const char *const names[] = {"BasicAuth", "BearerAuth"};
    char *written;

    document_set(info, "title", text("Millrace device registry"));
    document_set(info, "description",
                 text("Manages tenants, devices and credentials, as Eclipse Hono's device registry does."));
    document_set(info, "version", text(MILLRACE_VERSION));
    document_set(schemes, names[0], make_security("basic"));
    document_set(schemes, names[1], make_security("bearer"));
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        json_t *one = json_object();

        document_set(one, names[i], json_array());
        add(security, one);
    }
    add(security, json_object()); /* on loopback, without users */
    document_set(components, "schemas", make_schemas());
    document_set(components, "securitySchemes", schemes);
    document_set(document, "openapi", text("3.0.3"));
    document_set(document, "info", info);
    document_set(document, "paths", make_paths());
    document_set(document, "components", components);
    document_set(document, "security", security);
    written = json_dumps(document, JSON_COMPACT);
    ASSERT(written);
    json_decref(document);
    return written;
}

void manage_openapi_run(struct manage_call *c)
{
    json_t *document = json_loads(c->m->openapi, 0, NULL);

    ASSERT(document);
    manage_call_respond(c, 200, document, (struct str){0});
}
