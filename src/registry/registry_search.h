/* registry_search: finds tenants or devices by what is in them, as Hono's management interface does: filters (all must match), an order, a page. A search
 * of many is done in steps, so that the thread can do something else in between. One thread.
 *
 *   filter  {"field": "/ext/x", "op": "eq", "value": ...}: op is eq (the default), neq, gt, gte, lt, lte, in. A field is a JSON pointer into what is
 *           shown, `id` included. In texts `*` stands for any characters and `?` for one. Of a list one element must match.
 *   sort    {"field": "/ext/x", "direction": "asc"}: what is absent comes first, then truths, numbers, texts; what is equal in the order of the ids */
#pragma once

#include "registry/document.h"
#include "table/table.h"

enum {
    REGISTRY_SEARCH_FILTERS = 10,
    REGISTRY_SEARCH_SORTS = 5,
    REGISTRY_SEARCH_PAGE_DEFAULT = 30,
    REGISTRY_SEARCH_PAGE_MAX = 200,
    REGISTRY_SEARCH_OFFSET_MAX = 1000000, /* pages */
    REGISTRY_SEARCH_SORTED_MAX = 20000,   /* results before the end of the page, when they are sorted */
    REGISTRY_SEARCH_STEP = 200,           /* states looked at in a step: about a millisecond */
};

enum registry_search_gateways { REGISTRY_SEARCH_ANY, REGISTRY_SEARCH_GATEWAYS, REGISTRY_SEARCH_NO_GATEWAYS };

struct registry_search_hit;

/* All-zero is a search for everything; page_size 0 is the default. */
struct registry_search {
    json_t *filters[REGISTRY_SEARCH_FILTERS];
    size_t n_filters;
    json_t *sorts[REGISTRY_SEARCH_SORTS];
    size_t n_sorts;
    uint64_t page_size, page_offset;
    enum registry_search_gateways gateways;

    /* The rest is its own. */
    struct table_reader reader;
    struct str tenant; /* whose devices; empty: the tenants */
    char tenant_text[256];
    char after[512];
    size_t after_n;
    uint64_t total;
    struct registry_search_hit *hits;
    size_t n_hits, capacity;
};

/* Adds a filter, an order. E_INVAL: 400 in `fault`. */
MUST_USE err registry_search_add_filter(struct registry_search *search, struct str json, struct document_fault *fault);
MUST_USE err registry_search_add_sort(struct registry_search *search, struct str json, struct document_fault *fault);

/* Begins to search the devices of a tenant; empty: the tenants. E_INVAL: 400, the page is too far away. E_*: of table_reader_open(). */
MUST_USE err registry_search_begin(struct registry_search *search, struct table *table, struct str tenant,
                                   struct document_fault *fault);

/* Looks at some more; false at the end. */
bool registry_search_step(struct registry_search *search);

/* What was found: {"total": n, "result": [...]}; NULL: nothing is on this page. The caller owns it. */
json_t *registry_search_result(struct registry_search *search);

/* Ends it, at any time. */
void registry_search_end(struct registry_search *search);

/* Whether a text matches a pattern with `*` and `?` (bytes of UTF-8 that belong together count as one). */
bool registry_search_matches(struct str pattern, struct str text);
