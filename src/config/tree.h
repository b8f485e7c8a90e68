/* tree: YAML text as a tree of nodes with their lines. One document, no anchors, aliases, tags or merge keys: what a file
 * says is what is written there. Depth, number of nodes and length are bounded, duplicate keys are errors. Main thread. */
#pragma once

#include "base/arena.h"
#include "config/config.h"

enum {
    TREE_MAX_DEPTH = 16,
    TREE_MAX_NODES = 2 * 1000 * 1000,
};

enum tree_kind { TREE_SCALAR, TREE_LIST, TREE_MAP };

struct tree_node {
    struct tree_node *next;         /* in the list or map it belongs to */
    struct tree_node *first, *last; /* of a list or map, in the order of the file */
    struct str key;                 /* in a map */
    struct str text;                /* of a scalar */
    unsigned count;                 /* of children */
    unsigned line;                  /* where the key stands, else where the value begins; 0: from the command line */
    unsigned char kind;             /* enum tree_kind */
    bool is_quoted;                 /* a scalar in quotes, so that "" and "null" are texts */
};

/* Reads `text` into nodes that live in `a`; an empty text is an empty map. E_INVAL, with entries in `errors`, when it is
 * not the YAML described above; E_LIMIT when a bound was passed, told in `errors` too. Duplicate keys are told as well,
 * but do not end the reading, so that one run finds the other errors of the file. */
MUST_USE err tree_parse(struct arena *a, struct str text, const char *file, struct tree_node **out_root,
                        struct config_errors *errors);

/* A new node in `a`, and its place at the end of a list or map. */
struct tree_node *tree_add(struct arena *a, enum tree_kind kind, unsigned line);
void tree_append(struct tree_node *parent, struct tree_node *child);

/* The child with this key, or NULL. Linear. */
struct tree_node *tree_find(const struct tree_node *map, struct str key);

/* Whether the value was left out: no node, or an unquoted empty scalar, `~` or `null`. */
bool tree_is_null(const struct tree_node *node);
