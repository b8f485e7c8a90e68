#include "registry/registry_search.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/mem.h"
#include "registry/registry_key.h"
#include "registry/registry_state.h"
#include "registry/schema.h"

enum { MAX_SORT_BYTES = 256, MAX_FIELD_BYTES = 512, MAX_IN = 100 };

/* Something that was found: its id and what it is sorted by. */
struct registry_search_hit {
    char *id;
    json_t *values[REGISTRY_SEARCH_SORTS]; /* NULL: absent */
    const struct registry_search *search;
};

/* --- fields and values --- */

/* The next step of a JSON pointer, with ~0 and ~1 made what they stand for. */
static bool take_step(struct str *pointer, char *step, size_t size)
{
    bool has_more;
    struct str raw;
    size_t n = 0;

    *pointer = str_from_offset(*pointer, 1);
    raw = str_take(pointer, '/', &has_more);
    if (has_more)
        *pointer = (struct str){pointer->p - 1, pointer->n + 1};
    for (size_t i = 0; i < raw.n && n + 1 < size; i++) {
        char c = raw.p[i];

        if (c == '~' && i + 1 < raw.n && (raw.p[i + 1] == '0' || raw.p[i + 1] == '1'))
            c = raw.p[++i] == '0' ? '~' : '/';
        step[n++] = c;
    }
    step[n] = '\0';
    return n < size - 1;
}

/* What a JSON pointer leads to; NULL: nothing. */
static const json_t *find(const json_t *value, struct str pointer)
{
    char step[MAX_FIELD_BYTES];
    uint64_t index;

    while (value && pointer.n) {
        if (!take_step(&pointer, step, sizeof step))
            return NULL;
        if (json_is_array(value))
            value = str_to_u64(str_from(step), SIZE_MAX, &index) ? json_array_get(value, index) : NULL;
        else
            value = json_object_get(value, step);
    }
    return value;
}

static size_t character_bytes(struct str text)
{
    size_t n = 1;

    while (n < text.n && ((unsigned char)text.p[n] & 0xc0) == 0x80)
        n++;
    return n;
}

/* Goes back to the last `*` only, which is enough, so the time is at most the product of the lengths. */
bool registry_search_matches(struct str pattern, struct str text)
{
    struct str star = {0}, at_star = {0};

    while (text.n) {
        if (pattern.n && pattern.p[0] == '*') {
            star = pattern = str_from_offset(pattern, 1);
            at_star = text;
            if (!pattern.n)
                return true;
            star.p = pattern.p;
        } else if (pattern.n && pattern.p[0] == '?') {
            pattern = str_from_offset(pattern, 1);
            text = str_from_offset(text, character_bytes(text));
        } else if (pattern.n && pattern.p[0] == text.p[0]) {
            pattern = str_from_offset(pattern, 1);
            text = str_from_offset(text, 1);
        } else if (star.p) {
            pattern = star;
            text = at_star = str_from_offset(at_star, 1);
        } else {
            return false;
        }
    }
    while (pattern.n && pattern.p[0] == '*')
        pattern = str_from_offset(pattern, 1);
    return pattern.n == 0;
}

/* The order of kinds: absent, truths, numbers, texts; anything else as absent. */
static int kind(const json_t *value)
{
    if (json_is_boolean(value))
        return 1;
    if (json_is_number(value))
        return 2;
    return json_is_string(value) ? 3 : 0;
}

static int compare_numbers(const json_t *a, const json_t *b)
{
    if (json_is_integer(a) && json_is_integer(b))
        return (json_integer_value(a) > json_integer_value(b)) - (json_integer_value(a) < json_integer_value(b));
    return (json_number_value(a) > json_number_value(b)) - (json_number_value(a) < json_number_value(b));
}

static int compare_values(const json_t *a, const json_t *b)
{
    if (kind(a) != kind(b))
        return kind(a) - kind(b);
    switch (kind(a)) {
    case 1:
        return json_is_true(a) - json_is_true(b);
    case 2:
        return compare_numbers(a, b);
    case 3:
        return strcmp(json_string_value(a), json_string_value(b));
    default:
        return 0;
    }
}

static bool is_equal(const json_t *value, const json_t *want)
{
    if (json_is_string(value) && json_is_string(want))
        return registry_search_matches(document_text(want), document_text(value));
    if (kind(want) && kind(value))
        return compare_values(value, want) == 0;
    return json_equal(value, want);
}

/* --- filters --- */

static bool is_any_of(const json_t *value, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (is_equal(value, json_array_get(list, i)))
            return true;
    return false;
}

static bool is_ordered(const json_t *value, const json_t *want)
{
    return kind(value) == kind(want) && kind(want) >= 2;
}

static bool op_eq(const json_t *value, const json_t *want)
{
    return is_equal(value, want);
}

static bool op_gt(const json_t *value, const json_t *want)
{
    return is_ordered(value, want) && compare_values(value, want) > 0;
}

static bool op_gte(const json_t *value, const json_t *want)
{
    return is_ordered(value, want) && compare_values(value, want) >= 0;
}

static bool op_lt(const json_t *value, const json_t *want)
{
    return is_ordered(value, want) && compare_values(value, want) < 0;
}

static bool op_lte(const json_t *value, const json_t *want)
{
    return is_ordered(value, want) && compare_values(value, want) <= 0;
}

static const struct {
    const char *name;
    bool (*holds)(const json_t *value, const json_t *want);
    bool is_negative; /* none may hold */
    bool takes_list, takes_order;
} ops[] = {
    {"eq", op_eq, false, false, false},    {"neq", op_eq, true, false, false}, {"gt", op_gt, false, false, true},
    {"gte", op_gte, false, false, true},   {"lt", op_lt, false, false, true},  {"lte", op_lte, false, false, true},
    {"in", is_any_of, false, true, false},
};

static const char *const directions[] = {"asc", "desc", NULL};

static size_t find_op(const json_t *filter)
{
    struct str name = document_get_text(filter, "op");

    for (size_t i = 0; i < ARRAY_LEN(ops); i++)
        if (str_equal(name, str_from(ops[i].name)))
            return i;
    return 0;
}

static bool holds(const json_t *filter, const json_t *shown)
{
    const json_t *value = find(shown, document_get_text(filter, "field")), *want = json_object_get(filter, "value");
    size_t op = find_op(filter);
    bool is_met = value && ops[op].holds(value, want);

    for (size_t i = 0; !is_met && json_is_array(value) && i < json_array_size(value); i++)
        is_met = ops[op].holds(json_array_get(value, i), want);
    return is_met != ops[op].is_negative;
}

/* --- parameters --- */

static err check_pointer(const json_t *object, struct document_fault *fault)
{
    struct document_place here = document_member(NULL, "field");
    struct str field = document_get_text(object, "field");

    if (field.n == 0 || field.p[0] != '/' || field.n > MAX_FIELD_BYTES)
        return document_refuse(fault, 400, &here, "must be a JSON pointer, as in /ext/group");
    return E_OK;
}

static const struct schema_member sort_members[] = {
    {"field", SCHEMA_TEXT, SCHEMA_REQUIRED, .help = "A JSON pointer."},
    {"direction", SCHEMA_TEXT, .choices = directions, .help = "asc, the default, or desc."},
};
static const struct schema sort_schema = {"Sort", sort_members, ARRAY_LEN(sort_members)};

static err read_parameter(struct str json, json_t **out, struct document_fault *fault)
{
    err e = document_parse(json, false, out, fault);

    if (e == E_OK && !json_is_object(*out)) {
        json_decref(*out);
        return document_refuse(fault, 400, NULL, "must be an object");
    }
    return e;
}

static err check_filter(const json_t *filter, struct document_fault *fault)
{
    struct document_place value_place = document_member(NULL, "value"), op_place = document_member(NULL, "op");
    const json_t *value = json_object_get(filter, "value"), *op = json_object_get(filter, "op");
    const char *name;
    json_t *member;
    size_t row = find_op(filter);

    json_object_foreach((json_t *)(uintptr_t)filter, name, member)
    {
        struct document_place here = document_member(NULL, name);

        if (strcmp(name, "field") != 0 && strcmp(name, "op") != 0 && strcmp(name, "value") != 0)
            return document_refuse(fault, 400, &here, "there is no such member");
    }
    if (check_pointer(filter, fault) != E_OK)
        return E_INVAL;
    if (op && !str_equal(document_text(op), str_from(ops[row].name)))
        return document_refuse(fault, 400, &op_place, "must be one of eq, neq, gt, gte, lt, lte, in");
    if (!value)
        return document_refuse(fault, 400, &value_place, "is missing");
    if (ops[row].takes_list && (!json_is_array(value) || json_array_size(value) > MAX_IN))
        return document_refuse(fault, 400, &value_place, "must be a list of at most %d", MAX_IN);
    if (ops[row].takes_order && kind(value) < 2)
        return document_refuse(fault, 400, &value_place, "must be a number or a text");
    return E_OK;
}

err registry_search_add_filter(struct registry_search *search, struct str json, struct document_fault *fault)
{
    json_t *filter = NULL;
    err e;

    if (search->n_filters == REGISTRY_SEARCH_FILTERS)
        return document_refuse(fault, 400, NULL, "more than %d filters", REGISTRY_SEARCH_FILTERS);
    e = read_parameter(json, &filter, fault);
    if (e != E_OK)
        return e;
    search->filters[search->n_filters++] = filter;
    return check_filter(filter, fault);
}

err registry_search_add_sort(struct registry_search *search, struct str json, struct document_fault *fault)
{
    json_t *sort = NULL;
    err e;

    if (search->n_sorts == REGISTRY_SEARCH_SORTS)
        return document_refuse(fault, 400, NULL, "more than %d orders", REGISTRY_SEARCH_SORTS);
    e = read_parameter(json, &sort, fault);
    if (e != E_OK)
        return e;
    search->sorts[search->n_sorts++] = sort;
    e = schema_check(&sort_schema, sort, NULL, fault);
    return e == E_OK ? check_pointer(sort, fault) : e;
}

/* --- the search --- */

static uint64_t first_of_page(const struct registry_search *search)
{
    return search->page_offset * search->page_size;
}

static struct registry_key prefix_of(const struct registry_search *search)
{
    return search->tenant.n ? registry_key_device(search->tenant, (struct str){0}) : registry_key_tenant((struct str){0});
}

err registry_search_begin(struct registry_search *search, struct table *table, struct str tenant, struct document_fault *fault)
{
    if (!search->page_size)
        search->page_size = REGISTRY_SEARCH_PAGE_DEFAULT;
    ASSERT(search->page_size <= REGISTRY_SEARCH_PAGE_MAX && search->page_offset <= REGISTRY_SEARCH_OFFSET_MAX);
    ASSERT(tenant.n < sizeof search->tenant_text);
    if (tenant.n)
        memcpy(search->tenant_text, tenant.p, tenant.n);
    search->tenant = (struct str){search->tenant_text, tenant.n};
    if (search->n_sorts && first_of_page(search) + search->page_size > REGISTRY_SEARCH_SORTED_MAX)
        return document_refuse(fault, 400, NULL, "pageOffset: only the first %d results can be sorted; filter them",
                               REGISTRY_SEARCH_SORTED_MAX);
    return table_reader_open(table, &search->reader);
}

static void drop_hit(struct registry_search_hit *hit)
{
    mem_free(MEM_REGISTRY, hit->id);
    for (size_t i = 0; i < ARRAY_LEN(hit->values); i++)
        json_decref(hit->values[i]);
}

static int compare_hits(const void *a, const void *b)
{
    const struct registry_search_hit *x = a, *y = b;
    const struct registry_search *search = x->search;

    for (size_t i = 0; i < search->n_sorts; i++) {
        int order = compare_values(x->values[i], y->values[i]);

        if (order)
            return str_equal(document_get_text(search->sorts[i], "direction"), STR("desc")) ? -order : order;
    }
    return strcmp(x->id, y->id);
}

/* Keeps the best, as many as the page and those before it need. */
static void sort_hits(struct registry_search *search)
{
    size_t needed = first_of_page(search) + search->page_size;

    if (!search->n_sorts || !search->n_hits)
        return;
    qsort(search->hits, search->n_hits, sizeof *search->hits, compare_hits);
    while (search->n_hits > needed)
        drop_hit(&search->hits[--search->n_hits]);
}

/* A long text is sorted by its beginning. */
static json_t *sort_value(const json_t *shown, const json_t *sort)
{
    const json_t *value = find(shown, document_get_text(sort, "field"));
    struct str text = document_text(value);
    size_t n = text.n < MAX_SORT_BYTES ? text.n : MAX_SORT_BYTES;

    if (!kind(value))
        return NULL;
    if (!json_is_string(value))
        return json_copy((json_t *)(uintptr_t)value);
    while (n > 0 && n < text.n && ((unsigned char)text.p[n] & 0xc0) == 0x80)
        n--;
    return json_stringn(text.p, n);
}

static void add_hit(struct registry_search *search, struct str id, const json_t *shown)
{
    uint64_t first = first_of_page(search), at = search->total++;
    struct registry_search_hit *hit;

    if (!search->n_sorts && (at < first || at >= first + search->page_size))
        return;
    if (search->n_hits == search->capacity) {
        sort_hits(search);
        if (search->n_hits * 2 >= search->capacity) {
            size_t capacity = search->capacity ? 2 * search->capacity : 2 * REGISTRY_SEARCH_PAGE_MAX;
            struct registry_search_hit *hits = mem_alloc_zero(MEM_REGISTRY, capacity * sizeof *hits);

            if (search->n_hits)
                memcpy(hits, search->hits, search->n_hits * sizeof *hits);
            mem_free(MEM_REGISTRY, search->hits);
            search->hits = hits;
            search->capacity = capacity;
        }
    }
    hit = &search->hits[search->n_hits++];
    *hit = (struct registry_search_hit){.id = mem_copy_text(MEM_REGISTRY, id.p, id.n), .search = search};
    for (size_t i = 0; i < search->n_sorts; i++)
        hit->values[i] = sort_value(shown, search->sorts[i]);
}

static bool matches(struct registry_search *search, struct str id, const json_t *shown)
{
    for (size_t i = 0; i < search->n_filters; i++)
        if (!holds(search->filters[i], shown))
            return false;
    if (search->gateways == REGISTRY_SEARCH_ANY || !search->tenant.n)
        return true;
    return registry_state_is_gateway(&search->reader, search->tenant, id, shown) ==
           (search->gateways == REGISTRY_SEARCH_GATEWAYS);
}

static json_t *show(const json_t *state, struct str id)
{
    json_t *shown = registry_state_show(state);

    document_set_text(shown, "id", id);
    return shown;
}

static void look_at(struct registry_search *search, struct str id, struct str value)
{
    json_t *state = registry_state_read(value), *shown;

    if (!state)
        return;
    shown = show(state, id);
    if (matches(search, id, shown))
        add_hit(search, id, shown);
    json_decref(shown);
    json_decref(state);
}

bool registry_search_step(struct registry_search *search)
{
    struct registry_key prefix = prefix_of(search);
    struct table_item item;

    for (int n = 0; n < REGISTRY_SEARCH_STEP; n++) {
        if (!table_reader_next(&search->reader, REGISTRY_PARTITION_KEY, registry_key_str(&prefix),
                               (struct str){search->after, search->after_n}, &item))
            return false;
        ASSERT(item.key.n <= sizeof search->after);
        memcpy(search->after, item.key.p, item.key.n);
        search->after_n = item.key.n;
        look_at(search, str_from_offset(item.key, prefix.n), item.value);
    }
    return true;
}

json_t *registry_search_result(struct registry_search *search)
{
    json_t *list = json_array(), *result;

    ASSERT(list);
    sort_hits(search);
    for (size_t i = search->n_sorts ? first_of_page(search) : 0; i < search->n_hits; i++) {
        struct str id = str_from(search->hits[i].id);
        json_t *state = search->tenant.n ? registry_state_device(&search->reader, search->tenant, id)
                                         : registry_state_tenant(&search->reader, id);

        if (state)
            ASSERT(json_array_append_new(list, show(state, id)) == 0);
        json_decref(state);
    }
    if (json_array_size(list) == 0) {
        json_decref(list);
        return NULL;
    }
    result = json_object();
    document_set(result, "total", json_integer((json_int_t)search->total));
    document_set(result, "result", list);
    return result;
}

void registry_search_end(struct registry_search *search)
{
    if (search->reader.table)
        table_reader_close(&search->reader);
    for (size_t i = 0; i < search->n_hits; i++)
        drop_hit(&search->hits[i]);
    mem_free(MEM_REGISTRY, search->hits);
    for (size_t i = 0; i < search->n_filters; i++)
        json_decref(search->filters[i]);
    for (size_t i = 0; i < search->n_sorts; i++)
        json_decref(search->sorts[i]);
    *search = (struct registry_search){0};
}
