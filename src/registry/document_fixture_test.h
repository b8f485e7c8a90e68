/* document_fixture: tables of documents and what is said of them. For tests. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "registry/document.h"

/* `field` NULL: the document is good. */
struct document_case {
    const char *json, *field, *text;
};

typedef err (*document_check)(json_t *value, struct document_fault *fault);

static inline void document_check_cases(const struct document_case *rows, size_t n, document_check check)
{
    for (size_t i = 0; i < n; i++) {
        struct document_fault fault = {0};
        json_t *value = NULL;
        err e = document_parse(str_from(rows[i].json), false, &value, &fault);

        if (e == E_OK)
            e = check(value, &fault);
        if ((e == E_OK) != !rows[i].field || (rows[i].field && strcmp(fault.field, rows[i].field) != 0) ||
            (rows[i].text && !strstr(fault.text, rows[i].text)))
            fail_msg("row %zu: %s\nfield \"%s\": %s", i, rows[i].json, fault.field, fault.text);
        assert_int_equal(fault.status, e == E_OK ? 0 : 400);
        json_decref(value);
    }
}

/* The document as it is stored, compact and with sorted members; the caller frees it. */
static inline char *document_normal_form(const char *json, document_check check)
{
    struct document_fault fault = {0};
    json_t *value = NULL;
    char *text;

    assert_int_equal(document_parse(str_from(json), false, &value, &fault), E_OK);
    if (check(value, &fault) != E_OK)
        fail_msg("%s: \"%s\": %s", json, fault.field, fault.text);
    text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(value);
    return text;
}
