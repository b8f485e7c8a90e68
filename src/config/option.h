/* option: the table of every option of the configuration. The parser, the checks, `--set`, the help texts and
 * docs/CONFIGURATION.md come from it. Immutable, any thread.
 *
 * A path is a pattern: `listeners[]` is a list whose elements have the options `listeners[]....`; `tenants.*` is a map with
 * free names whose elements have the options `tenants.*....`; `kafka.properties.*` is a map with free names and plain
 * values. An option's offset counts from the structure of the innermost list or map, else from struct config. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "config/config.h"

/* Those up to OPTION_STRINGS are made of several values. */
enum option_type {
    OPTION_SECTION,    /* a map with the keys named in the table; stored nowhere */
    OPTION_LIST,       /* of structures, at the offset a pointer followed by a count */
    OPTION_MAP,        /* of structures by name, stored as a list; `characters` bounds the names */
    OPTION_PROPERTIES, /* free names with plain values: struct config_properties */
    OPTION_STRINGS,    /* a text or a list of texts: struct config_strings */
    OPTION_BOOL,       /* bool */
    OPTION_NUMBER,     /* int64_t or uint64_t, as sizes and durations (ms) */
    OPTION_SIZE,
    OPTION_DURATION,
    OPTION_TEXT,    /* struct str; min and max bound its bytes, `characters` what it is made of */
    OPTION_ADDRESS, /* struct config_address; empty is allowed unless OPTION_REQUIRED */
    OPTION_CHOICE,  /* int: the index of one of `choices` */
    OPTION_TYPES,
};

enum {
    OPTION_RELOADABLE = 1u << 0, /* can change without a restart */
    OPTION_SECRET = 1u << 1,     /* never printed; may be a `file:` or `env:` reference */
    OPTION_REQUIRED = 1u << 2,   /* must be given in each element */
};

/* Which characters a text or name may have. */
enum option_characters {
    OPTION_ANY,
    OPTION_TOPIC,  /* letters, digits, `.`, `_`, `-`: what Kafka allows in a topic's name, and Hono in a tenant's */
    OPTION_DEVICE, /* those, `:` and `=`: Hono's device ids */
};

struct option {
    const char *path;
    enum option_type type;
    unsigned flags;
    const char *initial; /* the default, as it would be written; NULL: empty */
    int64_t min, max;
    const char *const *choices; /* ended by NULL */
    enum option_characters characters;
    size_t offset;
    size_t element_bytes; /* of a list or map: what one element takes; it begins with struct option_element */
    const char *help;     /* sentences */
};

/* How every element of a list or map begins. */
struct option_element {
    struct str id;
    unsigned line;
};

extern const struct option option_table[];
extern const size_t option_count;

/* The tree that the paths form, computed once for each use and owned by the user: row numbers, -1 for none. The children
 * of the whole are at `first_child[option_count]`. */
enum { OPTION_MAX = 320, OPTION_NONE = -1 };

struct option_index {
    struct str key[OPTION_MAX];
    short first_child[OPTION_MAX + 1];
    short next_sibling[OPTION_MAX];
};

void option_index_init(struct option_index *index);

/* The row that stands for the whole configuration. */
static inline int option_root(void)
{
    return (int)option_count;
}

/* The child of row `parent` with this key, or OPTION_NONE. */
int option_find(const struct option_index *index, int parent, struct str key);

/* The child of `parent` with the name nearest to `key`, or OPTION_NONE. */
int option_find_nearest(const struct option_index *index, int parent, struct str key);

/* Whether `text` has only these characters. */
bool option_has_only(enum option_characters characters, struct str text);

/* The characters in words, as in "letters, digits, ...". */
const char *option_characters_name(enum option_characters characters);

/* The type in one word, as in "duration". */
const char *option_type_name(enum option_type type);

/* The option with exactly this path, as in "limits.receive_maximum"; NULL when there is none. */
const struct option *option_at(struct str path);
