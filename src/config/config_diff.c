#include "config/config_diff.h"

#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/siphash.h"
#include "config/option.h"

/* How every list, map and set of properties is kept; the option table's assertions hold it to that. */
struct items {
    const char *items;
    size_t count;
};

/* A value and where it stands, in both configurations; on the stack of the walk. */
struct place {
    const struct place *up; /* NULL: the whole */
    struct str key;
    int element; /* in a list, else -1 */
    unsigned line;
};

struct walk {
    struct option_index index;
    const struct config *after;
    struct config_diff *diff;
};

static void compare_section(struct walk *w, int parent, const struct place *at, const char *before, const char *after);

static size_t write_path(const struct place *at, char *out, size_t size)
{
    size_t n = at->up ? write_path(at->up, out, size) : 0;
    int more;

    if (!at->up || n >= size)
        return n;
    if (at->element >= 0)
        more = snprintf(out + n, size - n, "[%d]", at->element);
    else
        more = snprintf(out + n, size - n, "%s%.*s", n ? "." : "", STR_ARG(at->key));
    return n + (size_t)more;
}

static void note(struct walk *w, int row, const struct place *at)
{
    struct config_diff *d = w->diff;
    struct config_change change = {.line = at->line};

    (void)write_path(at, change.path, sizeof change.path); /* cut at the end of the buffer */
    if (d->n_changes++ == 0)
        d->first = change;
    if (option_table[row].flags & OPTION_RELOADABLE)
        return;
    if (d->n_fixed < CONFIG_DIFF_MAX_FIXED)
        d->fixed[d->n_fixed] = change;
    d->n_fixed++;
}

static struct items items_at(const char *at)
{
    struct items items;

    memcpy(&items, at, sizeof items);
    return items;
}

/* --- single values --- */

static bool same_text(const char *before, const char *after)
{
    struct str a, b;

    memcpy(&a, before, sizeof a);
    memcpy(&b, after, sizeof b);
    return str_equal(a, b);
}

static bool same_strings(const char *before, const char *after)
{
    struct items a = items_at(before), b = items_at(after);

    for (size_t i = 0; a.count == b.count && i < a.count; i++)
        if (!same_text(a.items + i * sizeof(struct str), b.items + i * sizeof(struct str)))
            return false;
    return a.count == b.count;
}

/* In their order: the order of a record's headers is seen by whoever reads it. */
static bool same_properties(const char *before, const char *after)
{
    struct config_properties a, b;

    memcpy(&a, before, sizeof a);
    memcpy(&b, after, sizeof b);
    for (size_t i = 0; a.count == b.count && i < a.count; i++)
        if (!str_equal(a.items[i].name, b.items[i].name) || !str_equal(a.items[i].value, b.items[i].value))
            return false;
    return a.count == b.count;
}

static bool same_address(const char *before, const char *after)
{
    return same_text(before + offsetof(struct config_address, text), after + offsetof(struct config_address, text));
}

static bool same_bool(const char *before, const char *after)
{
    return memcmp(before, after, sizeof(bool)) == 0;
}

static bool same_number(const char *before, const char *after)
{
    return memcmp(before, after, sizeof(int64_t)) == 0;
}

static bool same_choice(const char *before, const char *after)
{
    return memcmp(before, after, sizeof(int)) == 0;
}

static bool (*const is_same[OPTION_TYPES])(const char *before, const char *after) = {
    [OPTION_PROPERTIES] = same_properties,
    [OPTION_STRINGS] = same_strings,
    [OPTION_BOOL] = same_bool,
    [OPTION_NUMBER] = same_number,
    [OPTION_SIZE] = same_number,
    [OPTION_DURATION] = same_number,
    [OPTION_TEXT] = same_text,
    [OPTION_ADDRESS] = same_address,
    [OPTION_CHOICE] = same_choice,
};

/* --- elements --- */

static const struct option_element *element_at(const struct option *o, struct items list, size_t i)
{
    return (const struct option_element *)(const void *)(list.items + i * o->element_bytes);
}

static void compare_element(struct walk *w, int row, const struct place *at, const struct option_element *before,
                            const struct option_element *after)
{
    compare_section(w, row, at, (const char *)before, (const char *)after);
}

static void compare_list(struct walk *w, int row, const struct place *at, struct items before, struct items after)
{
    const struct option *o = &option_table[row];

    if (before.count != after.count)
        note(w, row, at);
    for (size_t i = 0; i < before.count && i < after.count; i++) {
        const struct option_element *element = element_at(o, after, i);
        struct place inner = {.up = at, .element = (int)i, .line = element->line};

        compare_element(w, row, &inner, element_at(o, before, i), element);
    }
}

static bool has_id(const void *entry, const void *key)
{
    return str_equal(((const struct option_element *)entry)->id, *(const struct str *)key);
}

/* Those of `before` that are found in `after` are taken out of the map; the rest has gone. */
static void compare_map(struct walk *w, int row, const struct place *at, struct items before, struct items after)
{
    const struct option *o = &option_table[row];
    struct map left = {0};
    uint32_t cursor = 0;
    struct option_element *gone;

    for (size_t i = 0; i < before.count; i++) {
        const struct option_element *element = element_at(o, before, i);

        map_add(&left, MEM_CONFIG, siphash(element->id), (void *)(uintptr_t)element);
    }
    for (size_t i = 0; i < after.count; i++) {
        const struct option_element *element = element_at(o, after, i);
        uint64_t hash = siphash(element->id);
        struct option_element *other = map_find(&left, hash, &element->id, has_id);
        struct place inner = {.up = at, .key = element->id, .element = -1, .line = element->line};

        if (!other) {
            note(w, row, &inner);
            continue;
        }
        (void)map_remove(&left, hash, other);
        compare_element(w, row, &inner, other, element);
    }
    while ((gone = map_next(&left, &cursor)))
        note(w, row, &(struct place){.up = at, .key = gone->id, .element = -1});
    map_free(&left, MEM_CONFIG);
}

static void compare_value(struct walk *w, int row, const struct place *at, const char *before, const char *after)
{
    const struct option *o = &option_table[row];

    if (o->type == OPTION_SECTION)
        compare_section(w, row, at, before, after);
    else if (o->type == OPTION_LIST)
        compare_list(w, row, at, items_at(before + o->offset), items_at(after + o->offset));
    else if (o->type == OPTION_MAP)
        compare_map(w, row, at, items_at(before + o->offset), items_at(after + o->offset));
    else if (!is_same[o->type](before + o->offset, after + o->offset))
        note(w, row, at);
}

static void compare_section(struct walk *w, int parent, const struct place *at, const char *before, const char *after)
{
    for (int row = w->index.first_child[parent]; row != OPTION_NONE; row = w->index.next_sibling[row]) {
        bool is_top = after == (const char *)w->after;
        struct place inner = {
            .up = at, .key = w->index.key[row], .element = -1, .line = is_top ? config_line(w->after, (size_t)row) : at->line};

        compare_value(w, row, &inner, before, after);
    }
}

void config_diff_make(const struct config *before, const struct config *after, struct config_diff *out_diff)
{
    struct walk w = {.after = after, .diff = out_diff};
    struct place whole = {.element = -1};

    *out_diff = (struct config_diff){0};
    option_index_init(&w.index);
    compare_section(&w, option_root(), &whole, (const char *)before, (const char *)after);
}
