/* schema: what the members of the registry's documents may be, as tables. The check of a request and the OpenAPI document are made
 * of the same rows. Rules between members are beside the tables (tenant_document.h ...). Constants; any thread. */
#pragma once

#include <stddef.h>

#include "registry/document.h"

enum schema_type {
    SCHEMA_BOOL,
    SCHEMA_INTEGER, /* min to max */
    SCHEMA_TEXT,    /* of a form, min to max bytes; or one of `choices` */
    SCHEMA_TEXTS,   /* one such text or a list of at most SCHEMA_MAX_TEXTS; each once */
    SCHEMA_OBJECT,  /* with the members of `of` */
    SCHEMA_LIST,    /* min to max of those */
    SCHEMA_MAP,     /* free names with texts, or one of `choices` */
    SCHEMA_SCALARS, /* free names with texts, numbers and truths */
    SCHEMA_FREE,    /* an object; nobody looks into it */
    SCHEMA_TYPES,
};

/* What a text is made of. */
enum schema_form {
    SCHEMA_ANY,
    SCHEMA_TENANT_ID,
    SCHEMA_DEVICE_ID, /* and names of groups and adapters */
    SCHEMA_ALIAS,
    SCHEMA_TIME,
    SCHEMA_BASE64,
    SCHEMA_DN,
    SCHEMA_URI,
    SCHEMA_FORMS,
};

enum {
    SCHEMA_REQUIRED = 1u << 0,
    SCHEMA_WRITE_ONLY = 1u << 1, /* a secret: never shown */
    SCHEMA_READ_ONLY = 1u << 2,  /* taken from nobody: left out of a request that has it */
};

enum { SCHEMA_MAX_TEXTS = 100, SCHEMA_MAX_ID_BYTES = 200, SCHEMA_MAX_TEXT_BYTES = 8192 };

struct schema;

struct schema_member {
    const char *name;
    enum schema_type type;
    unsigned flags;
    enum schema_form form;
    int64_t min, max;           /* max 0: of a text 1,024, of a list 100, of a number none but the type's */
    const char *const *choices; /* ended by NULL */
    const struct schema *of;
    const char *help;
};

struct schema {
    const char *name; /* as in the OpenAPI document */
    const struct schema_member *members;
    size_t count;
};

/* Checks `object` against the schema: its type, unknown, missing and wrong members. Members that are read-only are removed. E_INVAL:
 * 400 and the place in `fault`. */
MUST_USE err schema_check(const struct schema *schema, json_t *object, const struct document_place *place,
                          struct document_fault *fault);

/* Whether a text has the form, and no more than `max` bytes. */
bool schema_fits(enum schema_form form, struct str text, size_t max);

/* The largest value or size that a row allows, with its default for 0. */
int64_t schema_max(const struct schema_member *member);

/* The form in words, as a regular expression (ECMA 262) and as OpenAPI's `format`; the latter two may be NULL. */
const char *schema_form_words(enum schema_form form);
const char *schema_form_pattern(enum schema_form form);
const char *schema_form_format(enum schema_form form);

/* Checks the id of a tenant or a device as a path or a reference has it. E_INVAL: 400. */
MUST_USE err schema_check_tenant_id(struct str id, struct document_fault *fault);
MUST_USE err schema_check_device_id(struct str id, struct document_fault *fault);
