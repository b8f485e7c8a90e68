#include "broker/topic_tree.h"

#include "base/check.h"
#include "base/siphash.h"

struct edge {
    const struct topic_node *parent;
    struct str level;
};

static uint64_t edge_hash(const struct edge *e)
{
    return siphash_pair((struct str){(const char *)&e->parent, sizeof e->parent}, e->level);
}

static struct str level_of(const struct topic_node *node)
{
    return (struct str){node->level, node->level_bytes};
}

static bool edge_equal(const void *entry, const void *key)
{
    const struct topic_node *node = entry;
    const struct edge *e = key;

    return node->parent == e->parent && str_equal(level_of(node), e->level);
}

static struct topic_node *child_of(const struct topic_tree *tree, const struct topic_node *parent, struct str level)
{
    struct edge e = {parent, level};

    return parent->first_child ? map_find(&tree->edges, edge_hash(&e), &e, edge_equal) : NULL;
}

static struct topic_node *node_new(struct topic_node *parent, struct str level)
{
    struct topic_node *node = mem_try_alloc(MEM_BROKER, sizeof *node + level.n);

    if (!node)
        return NULL;
    *node = (struct topic_node){.parent = parent, .level_bytes = (uint16_t)level.n};
    if (level.n)
        memcpy(node->level, level.p, level.n);
    return node;
}

/* Where a parent keeps its shortcut to a wildcard child; NULL for other levels. */
static struct topic_node **shortcut(struct topic_node *parent, struct str level)
{
    if (level.n != 1 || (level.p[0] != '+' && level.p[0] != '#'))
        return NULL;
    return level.p[0] == '+' ? &parent->plus : &parent->hash;
}

static struct topic_node *add_child(struct topic_tree *tree, struct topic_node *parent, struct str level)
{
    struct topic_node *node = node_new(parent, level);
    struct topic_node **wildcard = shortcut(parent, level);
    struct edge e = {parent, level};

    if (!node)
        return NULL;
    map_add(&tree->edges, MEM_BROKER, edge_hash(&e), node);
    node->next_sibling = parent->first_child;
    if (parent->first_child)
        parent->first_child->previous_sibling = node;
    parent->first_child = node;
    if (wildcard)
        *wildcard = node;
    tree->n_nodes++;
    return node;
}

static void remove_child(struct topic_tree *tree, struct topic_node *node)
{
    struct topic_node *parent = node->parent;
    struct topic_node **wildcard = shortcut(parent, level_of(node));
    struct edge e = {parent, level_of(node)};

    ASSERT(map_remove(&tree->edges, edge_hash(&e), node));
    if (node->previous_sibling)
        node->previous_sibling->next_sibling = node->next_sibling;
    else
        parent->first_child = node->next_sibling;
    if (node->next_sibling)
        node->next_sibling->previous_sibling = node->previous_sibling;
    if (wildcard)
        *wildcard = NULL;
    tree->n_nodes--;
    mem_free(MEM_BROKER, node);
}

void topic_tree_prune(struct topic_tree *tree, struct topic_node *node)
{
    while (node != tree->root && !node->value && !node->first_child) {
        struct topic_node *parent = node->parent;

        remove_child(tree, node);
        node = parent;
    }
}

struct topic_node *topic_tree_insert(struct topic_tree *tree, struct str tenant, struct str topic)
{
    struct topic_node *node;
    bool more = true;
    struct str level = tenant;

    if (!tree->root && !(tree->root = node_new(NULL, (struct str){0})))
        return NULL;
    node = tree->root;
    for (;;) {
        struct topic_node *child = child_of(tree, node, level);

        if (!child)
            child = add_child(tree, node, level);
        if (!child) {
            topic_tree_prune(tree, node);
            return NULL;
        }
        node = child;
        if (!more)
            return node;
        level = str_take(&topic, '/', &more);
    }
}

struct topic_node *topic_tree_find(const struct topic_tree *tree, struct str tenant, struct str topic)
{
    struct topic_node *node = tree->root ? child_of(tree, tree->root, tenant) : NULL;
    bool more = true;

    while (node && more)
        node = child_of(tree, node, str_take(&topic, '/', &more));
    return node;
}

struct walk {
    const struct topic_tree *tree;
    topic_visit visit;
    void *context;
};

static void visit(const struct walk *w, struct topic_node *node)
{
    if (node && node->value)
        w->visit(w->context, node);
}

/* `rest` are the levels of the name below `node`; without `more` there are none and the name ends here. The depth is the
 * number of levels, which the configuration bounds. */
static void match_name(const struct walk *w, struct topic_node *node, struct str rest, bool more, bool wildcards_allowed)
{
    struct topic_node *child;
    struct str level;

    if (wildcards_allowed)
        visit(w, node->hash); /* `a/#` matches `a` as well */
    if (!more) {
        visit(w, node);
        return;
    }
    level = str_take(&rest, '/', &more);
    child = child_of(w->tree, node, level);
    if (child)
        match_name(w, child, rest, more, true);
    if (node->plus && wildcards_allowed)
        match_name(w, node->plus, rest, more, true);
}

void topic_tree_match_name(const struct topic_tree *tree, struct str tenant, struct str topic, topic_visit on_node,
                           void *context)
{
    struct walk w = {tree, on_node, context};
    struct topic_node *node = tree->root ? child_of(tree, tree->root, tenant) : NULL;

    if (node)
        match_name(&w, node, topic, true, topic.p[0] != '$'); /* [MQTT-4.7.2-1] */
}

static bool is_hidden(const struct topic_node *node, bool at_top)
{
    return at_top && node->level_bytes && node->level[0] == '$';
}

static void visit_all(const struct walk *w, struct topic_node *node, bool at_top)
{
    visit(w, node);
    for (struct topic_node *child = node->first_child; child; child = child->next_sibling)
        if (!is_hidden(child, at_top))
            visit_all(w, child, false);
}

static void match_filter(const struct walk *w, struct topic_node *node, struct str rest, bool more, bool at_top)
{
    struct topic_node *child;
    struct str level;

    if (!more) {
        visit(w, node);
        return;
    }
    level = str_take(&rest, '/', &more);
    if (str_equal(level, STR("#"))) {
        visit_all(w, node, at_top);
    } else if (str_equal(level, STR("+"))) {
        for (child = node->first_child; child; child = child->next_sibling)
            if (!is_hidden(child, at_top))
                match_filter(w, child, rest, more, false);
    } else {
        child = child_of(w->tree, node, level);
        if (child)
            match_filter(w, child, rest, more, false);
    }
}

void topic_tree_match_filter(const struct topic_tree *tree, struct str tenant, struct str filter, topic_visit on_node,
                             void *context)
{
    struct walk w = {tree, on_node, context};
    struct topic_node *node = tree->root ? child_of(tree, tree->root, tenant) : NULL;

    if (node)
        match_filter(&w, node, filter, true, true);
}

void topic_tree_free(struct topic_tree *tree)
{
    uint32_t cursor = 0;
    struct topic_node *node;

    while ((node = map_next(&tree->edges, &cursor)))
        mem_free(MEM_BROKER, node);
    map_free(&tree->edges, MEM_BROKER);
    mem_free(MEM_BROKER, tree->root);
    *tree = (struct topic_tree){0};
}
