#include "config/option.h"

#include "base/check.h"
#include "config/nearest.h"

static const char *const type_names[OPTION_TYPES] = {
    [OPTION_SECTION] = "section",
    [OPTION_LIST] = "list",
    [OPTION_MAP] = "map",
    [OPTION_PROPERTIES] = "names with values",
    [OPTION_STRINGS] = "text or list of texts",
    [OPTION_BOOL] = "true or false",
    [OPTION_NUMBER] = "number",
    [OPTION_SIZE] = "size",
    [OPTION_DURATION] = "duration",
    [OPTION_TEXT] = "text",
    [OPTION_ADDRESS] = "HOST:PORT",
    [OPTION_CHOICE] = "choice",
};

/* A path without the mark of a list, map or properties at its end. */
static struct str without_mark(struct str path)
{
    if (path.n > 2 && (memcmp(path.p + path.n - 2, "[]", 2) == 0 || memcmp(path.p + path.n - 2, ".*", 2) == 0))
        path.n -= 2;
    return path;
}

/* Splits into what stands before the last dot, empty at the top, and the key after it. */
static struct str parent_path(struct str path, struct str *out_key)
{
    struct str rest = without_mark(path);
    size_t at = rest.n;

    while (at > 0 && rest.p[at - 1] != '.')
        at--;
    *out_key = str_from_offset(rest, at);
    return (struct str){rest.p, at ? at - 1 : 0};
}

static int row_at(struct str path)
{
    if (path.n == 0)
        return option_root();
    for (size_t i = 0; i < option_count; i++)
        if (str_equal(str_from(option_table[i].path), path))
            return (int)i;
    return OPTION_NONE;
}

void option_index_init(struct option_index *index)
{
    ASSERT(option_count <= OPTION_MAX);
    for (size_t i = 0; i <= option_count; i++)
        index->first_child[i] = OPTION_NONE;
    for (size_t i = option_count; i-- > 0;) { /* backwards, so that siblings keep the order of the table */
        int parent = row_at(parent_path(str_from(option_table[i].path), &index->key[i]));

        ASSERT(parent != OPTION_NONE);
        index->next_sibling[i] = index->first_child[parent];
        index->first_child[parent] = (short)i;
    }
}

int option_find(const struct option_index *index, int parent, struct str key)
{
    int row = index->first_child[parent];

    while (row != OPTION_NONE && !str_equal(index->key[row], key))
        row = index->next_sibling[row];
    return row;
}

int option_find_nearest(const struct option_index *index, int parent, struct str key)
{
    struct nearest n = {.word = key};

    for (int row = index->first_child[parent]; row != OPTION_NONE; row = index->next_sibling[row])
        nearest_offer(&n, index->key[row]);
    return option_find(index, parent, nearest_result(&n));
}

bool option_has_only(enum option_characters characters, struct str text)
{
    for (size_t i = 0; i < text.n && characters != OPTION_ANY; i++) {
        char c = text.p[i];
        bool is_plain =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';

        if (!is_plain && !(characters == OPTION_DEVICE && (c == ':' || c == '=')))
            return false;
    }
    return true;
}

const char *option_characters_name(enum option_characters characters)
{
    static const char *const names[] = {
        [OPTION_ANY] = "any characters",
        [OPTION_TOPIC] = "letters, digits, '.', '_' and '-'",
        [OPTION_DEVICE] = "letters, digits, '.', '_', '-', ':' and '='",
    };

    return names[characters];
}

const char *option_type_name(enum option_type type)
{
    return type_names[type];
}

const struct option *option_at(struct str path)
{
    int row = path.n ? row_at(path) : OPTION_NONE;

    return row == OPTION_NONE ? NULL : &option_table[row];
}
