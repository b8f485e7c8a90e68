#include "config/bind.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "config/option.h"
#include "config/report.h"
#include "config/secret.h"
#include "config/setter.h"

enum { PATH_TEXT_BYTES = 160 };

/* A value and where it stands; on the stack of the walk, linked to the places around it. */
struct place {
    const struct place *up; /* NULL: the whole file */
    const struct tree_node *node;
    int element; /* in a list, else -1 */
};

struct binder {
    const struct bind_job *job;
    struct option_index index;
    const char *whole; /* the configuration itself */
};

static void bind_section(struct binder *b, int parent, const struct place *at, char *base);

static size_t write_path(const struct place *at, char *out, size_t size)
{
    size_t n = at->up ? write_path(at->up, out, size) : 0;
    int more = 0;

    if (!at->up || n >= size)
        return n;
    if (at->element >= 0)
        more = snprintf(out + n, size - n, "[%d]", at->element);
    else
        more = snprintf(out + n, size - n, "%s%.*s", n ? "." : "", STR_ARG(report_excerpt(at->node->key)));
    return n + (size_t)more;
}

static const char *path_of(const struct place *at, char *out)
{
    out[0] = '\0';
    (void)write_path(at, out, PATH_TEXT_BYTES);
    return out;
}

static void fail(struct binder *b, const struct place *at, const char *format, ...) PRINTF_LIKE(3, 4);

static void fail(struct binder *b, const struct place *at, const char *format, ...)
{
    char path[PATH_TEXT_BYTES], text[sizeof((struct errinfo *)0)->text];
    bool is_setting = at->node->line == 0;
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    report_error(b->job->errors, is_setting ? BIND_COMMAND_LINE : b->job->file, at->node->line, "%s: %s", path_of(at, path),
                 text);
}

/* The host of an address is a part of its text; in a snapshot it ends with a NUL too. */
static void own_host(struct binder *b, const struct option *o, void *at)
{
    struct config_address address;

    if (o->type != OPTION_ADDRESS)
        return;
    memcpy(&address, at, sizeof address);
    address.host = arena_copy(b->job->arena, MEM_CONFIG, address.host);
    memcpy(at, &address, sizeof address);
}

static void set_defaults(struct binder *b, int parent, char *base)
{
    for (int row = b->index.first_child[parent]; row != OPTION_NONE; row = b->index.next_sibling[row]) {
        const struct option *o = &option_table[row];

        if (o->type == OPTION_SECTION) {
            set_defaults(b, row, base);
        } else {
            setter_write_default(o, base + o->offset);
            own_host(b, o, base + o->offset);
        }
    }
}

static bool expect(struct binder *b, const struct place *at, enum tree_kind kind)
{
    static const char *const names[] = {[TREE_SCALAR] = "a single value", [TREE_LIST] = "a list", [TREE_MAP] = "a map"};

    if (at->node->kind == kind)
        return true;
    fail(b, at, "expected %s, found %s", names[kind], names[at->node->kind]);
    return false;
}

static bool is_reference(const struct option *o, const struct place *at)
{
    return (o->flags & OPTION_SECRET) && secret_is_reference(at->node->text);
}

static bool is_left_alone(const struct binder *b, const struct option *o, const struct place *at)
{
    return b->job->skips_secrets && o->type == OPTION_TEXT && is_reference(o, at);
}

/* The text of a scalar in the snapshot's memory, a secret read from where it is kept. */
static bool take_text(struct binder *b, const struct option *o, const struct place *at, struct str *out_text)
{
    const struct bind_job *job = b->job;
    struct str text = at->node->text;
    struct errinfo ei = {0};

    if (!is_reference(o, at) || job->skips_secrets) {
        *out_text = arena_copy(job->arena, MEM_CONFIG, text);
        return true;
    }
    if (secret_read(job->arena, text, job->file, out_text, &ei) == E_OK)
        return true;
    fail(b, at, "%.*s: %s", STR_ARG(report_excerpt(text)), ei.text);
    return false;
}

static void bind_scalar(struct binder *b, const struct option *o, const struct place *at, void *to)
{
    struct setter_reason why;
    struct str text;

    if (!expect(b, at, TREE_SCALAR) || !take_text(b, o, at, &text))
        return;
    if (is_left_alone(b, o, at))
        memcpy(to, &text, sizeof text); /* its length says nothing of the secret's */
    else if (setter_write(o, text, to, &why))
        own_host(b, o, to);
    else if (o->flags & OPTION_SECRET)
        fail(b, at, "%s", why.text);
    else
        fail(b, at, "\"%.*s\": %s", STR_ARG(report_excerpt(text)), why.text);
}

static bool check_count(struct binder *b, const struct option *o, const struct place *at)
{
    if (at->node->count <= (uint64_t)o->max)
        return true;
    fail(b, at, "too many: %u, at most %" PRId64, at->node->count, o->max);
    return false;
}

static void bind_strings(struct binder *b, const struct option *o, const struct place *at, void *to)
{
    bool is_one = at->node->kind == TREE_SCALAR;
    struct config_strings strings = {.count = is_one ? 1 : at->node->count};
    struct option each = {.path = o->path,
                          .type = OPTION_TEXT,
                          .min = 1,
                          .max = o->characters == OPTION_ANY ? BIND_MAX_FILE_BYTES : BIND_MAX_NAME_BYTES,
                          .characters = o->characters};
    const struct tree_node *node = at->node->first;

    if (!is_one && (!expect(b, at, TREE_LIST) || !check_count(b, o, at)))
        return;
    strings.items = arena_alloc(b->job->arena, MEM_CONFIG, strings.count * sizeof *strings.items);
    for (size_t i = 0; i < strings.count; i++) {
        strings.items[i] = STR("");
        if (is_one) {
            bind_scalar(b, &each, at, &strings.items[i]);
        } else {
            bind_scalar(b, &each, &(struct place){.up = at, .node = node, .element = (int)i}, &strings.items[i]);
            node = node->next;
        }
    }
    memcpy(to, &strings, sizeof strings);
}

static void bind_property(struct binder *b, const struct option *o, const struct place *at,
                          struct config_property *out_property)
{
    struct setter_reason why;
    int ignored;

    *out_property = (struct config_property){arena_copy(b->job->arena, MEM_CONFIG, at->node->key), STR("")};
    if (at->node->key.n == 0 || at->node->key.n > BIND_MAX_NAME_BYTES) {
        fail(b, at, "a name must have 1 to %d bytes", BIND_MAX_NAME_BYTES);
    } else if (tree_is_null(at->node)) {
        fail(b, at, "a value is missing");
    } else if (expect(b, at, TREE_SCALAR) && take_text(b, o, at, &out_property->value)) {
        if (o->choices && !setter_find_choice(o, out_property->value, &ignored, &why))
            fail(b, at, "\"%.*s\": %s", STR_ARG(report_excerpt(out_property->value)), why.text);
        else if (!o->choices && out_property->value.n > (size_t)o->max)
            fail(b, at, "is too long (at most %" PRId64 " bytes)", o->max);
    }
}

static void bind_properties(struct binder *b, const struct option *o, const struct place *at, void *to)
{
    struct config_properties properties = {.count = at->node->count};
    const struct tree_node *node = at->node->first;

    if (!expect(b, at, TREE_MAP))
        return;
    properties.items = arena_alloc(b->job->arena, MEM_CONFIG, properties.count * sizeof *properties.items);
    for (size_t i = 0; i < properties.count; i++, node = node->next)
        bind_property(b, o, &(struct place){.up = at, .node = node, .element = -1}, &properties.items[i]);
    memcpy(to, &properties, sizeof properties);
}

static void check_name(struct binder *b, const struct option *o, const struct place *at)
{
    struct str name = at->node->key;

    if (name.n == 0 || name.n > BIND_MAX_NAME_BYTES)
        fail(b, at, "a name must have 1 to %d bytes", BIND_MAX_NAME_BYTES);
    else if (!option_has_only(o->characters, name))
        fail(b, at, "a name may only have %s", option_characters_name(o->characters));
}

static void bind_element(struct binder *b, int row, const struct place *at, char *element)
{
    struct option_element *head = (struct option_element *)(void *)element;
    char path[PATH_TEXT_BYTES];

    head->line = at->node->line;
    if (option_table[row].type == OPTION_MAP) {
        head->id = arena_copy(b->job->arena, MEM_CONFIG, at->node->key);
        check_name(b, &option_table[row], at);
    } else {
        head->id = arena_copy(b->job->arena, MEM_CONFIG, str_from(path_of(at, path)));
    }
    set_defaults(b, row, element);
    bind_section(b, row, at, element);
}

static void bind_elements(struct binder *b, int row, const struct place *at, char *to)
{
    const struct option *o = &option_table[row];
    const struct tree_node *node = at->node->first;
    size_t count = at->node->count;
    char *items;

    if (!expect(b, at, o->type == OPTION_MAP ? TREE_MAP : TREE_LIST) || !check_count(b, o, at))
        return;
    items = arena_alloc(b->job->arena, MEM_CONFIG, count * o->element_bytes);
    for (size_t i = 0; i < count; i++, node = node->next) {
        struct place inner = {.up = at, .node = node, .element = o->type == OPTION_LIST ? (int)i : -1};

        bind_element(b, row, &inner, items + i * o->element_bytes);
    }
    memcpy(to, &items, sizeof items);
    memcpy(to + sizeof items, &count, sizeof count);
}

static void bind_value(struct binder *b, int row, const struct place *at, char *base)
{
    const struct option *o = &option_table[row];

    if (tree_is_null(at->node))
        return; /* as if the key were not there */
    if (base == b->whole)
        b->job->lines[row] = at->node->line;
    switch (o->type) {
    case OPTION_SECTION:
        bind_section(b, row, at, base);
        break;
    case OPTION_LIST:
    case OPTION_MAP:
        bind_elements(b, row, at, base + o->offset);
        break;
    case OPTION_PROPERTIES:
        bind_properties(b, o, at, base + o->offset);
        break;
    case OPTION_STRINGS:
        bind_strings(b, o, at, base + o->offset);
        break;
    default:
        bind_scalar(b, o, at, base + o->offset);
    }
}

static void report_unknown(struct binder *b, int parent, const struct place *at)
{
    int near = option_find_nearest(&b->index, parent, at->node->key);

    if (near == OPTION_NONE)
        fail(b, at, "unknown option");
    else
        fail(b, at, "unknown option (did you mean %.*s?)", STR_ARG(b->index.key[near]));
}

static void bind_section(struct binder *b, int parent, const struct place *at, char *base)
{
    const struct tree_node *section = at->node;

    if (!tree_is_null(section) && !expect(b, at, TREE_MAP))
        return;
    for (const struct tree_node *node = section->first; node; node = node->next) {
        struct place inner = {.up = at, .node = node, .element = -1};
        int row = option_find(&b->index, parent, node->key);

        if (row == OPTION_NONE)
            report_unknown(b, parent, &inner);
        else
            bind_value(b, row, &inner, base);
    }
    for (int row = b->index.first_child[parent]; row != OPTION_NONE; row = b->index.next_sibling[row])
        if ((option_table[row].flags & OPTION_REQUIRED) && tree_is_null(tree_find(section, b->index.key[row])))
            fail(b, at, "%.*s is missing", STR_ARG(b->index.key[row]));
}

void bind_config(const struct bind_job *job, const struct tree_node *root, struct config *out_config)
{
    struct binder b = {.job = job, .whole = (const char *)out_config};
    struct place whole = {.node = root, .element = -1};

    option_index_init(&b.index);
    set_defaults(&b, option_root(), (char *)out_config);
    if (root->kind == TREE_MAP)
        bind_section(&b, option_root(), &whole, (char *)out_config);
    else
        report_error(job->errors, job->file, root->line, "expected a map of options, as in \"kafka: {...}\"");
}
