/* topic_tree: topic names or filters of all tenants as a tree of levels, to find what matches in the length of the topic. The
 * first edge from the root is the tenant, so no wildcard ever crosses tenants. Edges live in one hash map (the key is the
 * parent and the level's text), and each node knows its `+` and `#` children. Used for subscriptions, where stored filters
 * are matched against a name, and for retained messages, where stored names are matched against a filter.
 * One thread. Never logs. */
#pragma once

#include "base/err.h"
#include "base/map.h"
#include "base/str.h"

struct topic_node {
    void *value; /* the owner's; a node without value and children does not last */
    struct topic_node *parent;
    struct topic_node *first_child, *next_sibling, *previous_sibling;
    struct topic_node *plus, *hash; /* children with these names */
    uint16_t level_bytes;
    char level[];
};

/* All-zero is valid and empty. */
struct topic_tree {
    struct map edges;
    struct topic_node *root;
    size_t n_nodes;
};

/* The node of a topic or filter, made if it is missing. NULL when there is no memory; nothing was changed then. A node made
 * without a value must get one, or go to topic_tree_prune(). */
struct topic_node *topic_tree_insert(struct topic_tree *tree, struct str tenant, struct str topic) MUST_USE;

/* The node, or NULL. */
struct topic_node *topic_tree_find(const struct topic_tree *tree, struct str tenant, struct str topic);

/* Frees the node if it has neither value nor children, and its parents likewise. */
void topic_tree_prune(struct topic_tree *tree, struct topic_node *node);

typedef void (*topic_visit)(void *context, struct topic_node *node);

/* Visits every node with a value whose stored filter matches the name `topic` (sections 4.7.1 to 4.7.2 of MQTT 5.0). The visitor must not change
 * the tree. */
void topic_tree_match_name(const struct topic_tree *tree, struct str tenant, struct str topic, topic_visit visit,
                           void *context);

/* Visits every node with a value whose stored name matches `filter`. */
void topic_tree_match_filter(const struct topic_tree *tree, struct str tenant, struct str filter, topic_visit visit,
                             void *context);

/* Frees all nodes; values are the owner's. */
void topic_tree_free(struct topic_tree *tree);
