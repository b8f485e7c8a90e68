#include "store/store_pages.h"

#include "base/check.h"
#include "base/mem.h"

/* The layout of LMDB 0.9 on machines with 64 bits, in their own byte order (lmdb.h promises it for a machine and version). */
enum {
    MAGIC = 0xBEEFC0DE,
    VERSION = 1,
    HEADER_BYTES = 16,
    NODE_BYTES = 8,
    DEPTH_MAX = 32,
    PAGE_MIN = 512,
    PAGE_MAX = 65536,
    IS_BRANCH = 0x01,
    IS_LEAF = 0x02,
    IS_OVERFLOW = 0x04,
    IS_META = 0x08,
    NODE_IS_BIG = 0x01,
    NODE_IS_TREE = 0x02,
    NODE_IS_DUPLICATES = 0x04,
};

struct header {
    uint64_t number;
    uint16_t pad, flags;
    union {
        struct {
            uint16_t lower, upper;
        };
        uint32_t n_pages; /* of an overflow page */
    };
};

struct tree {
    uint32_t pad;
    uint16_t flags, depth;
    uint64_t branches, leaves, overflows, entries, root;
};

struct meta {
    uint32_t magic, version;
    uint64_t address, map_bytes;
    struct tree free, main;
    uint64_t last_page, transaction;
};

static_assert(sizeof(struct header) == HEADER_BYTES && sizeof(struct tree) == 48 && sizeof(struct meta) == 136,
              "as LMDB lays them out");

struct node {
    uint16_t low, high, flags, key_bytes;
};

struct walk {
    struct str file;
    size_t page_bytes;
    uint64_t n_pages; /* that the file has, and the meta page counts */
    uint8_t *seen;    /* a bit a page */
    const char *fault;
};

static const uint64_t no_page = UINT64_MAX;

static bool fail(struct walk *w, const char *fault)
{
    if (!w->fault)
        w->fault = fault;
    return false;
}

static void read_at(const struct walk *w, uint64_t offset, void *out, size_t n)
{
    memcpy(out, w->file.p + offset, n);
}

/* Whether `n` pages from `number` on are within the file, and nobody else's. */
static bool claim(struct walk *w, uint64_t number, uint64_t n)
{
    if (number < 2 || n == 0 || number >= w->n_pages || n > w->n_pages - number)
        return fail(w, "it ends before a page that it needs");
    for (uint64_t i = number; i < number + n; i++) {
        if (w->seen[i / 8] & 1u << i % 8)
            return fail(w, "two of its pages are the same one");
        w->seen[i / 8] |= (uint8_t)(1u << i % 8);
    }
    return true;
}

static bool check_big(struct walk *w, uint64_t at, uint64_t n)
{
    struct header h;
    uint64_t number;

    read_at(w, at, &number, sizeof number);
    if (number < 2 || number >= w->n_pages)
        return fail(w, "it ends before a value that it needs");
    read_at(w, number * w->page_bytes, &h, sizeof h);
    if (h.number != number || !(h.flags & IS_OVERFLOW) || (uint64_t)h.n_pages * w->page_bytes < HEADER_BYTES + n)
        return fail(w, "the page of a large value holds something else");
    return claim(w, number, h.n_pages);
}

static bool check_tree(struct walk *w, const struct tree *t, bool holds_trees);

/* The free list: a number of pages, then the pages. */
static bool check_free(struct walk *w, uint64_t at, uint64_t n)
{
    uint64_t count;

    if (n < sizeof count)
        return fail(w, "its list of free pages is broken");
    read_at(w, at, &count, sizeof count);
    return count <= n / sizeof count - 1 || fail(w, "its list of free pages is broken");
}

enum kind { KIND_FREE, KIND_MAIN, KIND_NAMED };

static bool check_leaf_node(struct walk *w, const struct node *node, uint64_t at, uint64_t end, enum kind kind)
{
    uint64_t data = at + NODE_BYTES + node->key_bytes, n = node->low | (uint64_t)node->high << 16;
    struct tree tree;

    if (node->flags & NODE_IS_DUPLICATES)
        return fail(w, "it was not written by this program");
    if (data + (node->flags & NODE_IS_BIG ? sizeof(uint64_t) : n) > end)
        return fail(w, "an entry reaches past its page");
    if (node->flags & NODE_IS_BIG) {
        uint64_t page;

        if (!check_big(w, data, n))
            return false;
        read_at(w, data, &page, sizeof page);
        data = page * w->page_bytes + HEADER_BYTES;
    }
    if (kind == KIND_FREE)
        return check_free(w, data, n);
    if (!(node->flags & NODE_IS_TREE))
        return true;
    if (kind != KIND_MAIN || n != sizeof tree)
        return fail(w, "it was not written by this program");
    read_at(w, data, &tree, sizeof tree);
    return tree.flags ? fail(w, "it was not written by this program") : check_tree(w, &tree, false);
}

static bool check_page(struct walk *w, uint64_t number, unsigned depth, enum kind kind);

static bool check_node(struct walk *w, const struct header *h, uint64_t page, uint16_t offset, unsigned depth, enum kind kind)
{
    struct node node;

    if (offset < h->upper || (size_t)offset + NODE_BYTES > w->page_bytes)
        return fail(w, "an entry lies outside of its page");
    read_at(w, page + offset, &node, sizeof node);
    if ((size_t)offset + NODE_BYTES + node.key_bytes > w->page_bytes)
        return fail(w, "a key reaches past its page");
    if (h->flags & IS_LEAF)
        return check_leaf_node(w, &node, page + offset, page + w->page_bytes, kind);
    return check_page(w, node.low | (uint64_t)node.high << 16 | (uint64_t)node.flags << 32, depth - 1, kind);
}

static bool check_page(struct walk *w, uint64_t number, unsigned depth, enum kind kind)
{
    uint64_t page = number * w->page_bytes;
    struct header h;
    size_t n;

    if (!claim(w, number, 1))
        return false;
    read_at(w, page, &h, sizeof h);
    if (h.number != number || (h.flags & (IS_BRANCH | IS_LEAF)) != (depth > 1 ? IS_BRANCH : IS_LEAF))
        return fail(w, "a page holds something else than it should");
    if (h.lower < HEADER_BYTES || h.lower > h.upper || h.upper > w->page_bytes)
        return fail(w, "the head of a page is broken");
    n = (size_t)(h.lower - HEADER_BYTES) / 2;
    if (n < (depth > 1 ? 2 : 1))
        return fail(w, "a page is empty");
    for (size_t i = 0; i < n; i++) {
        uint16_t offset;

        read_at(w, page + HEADER_BYTES + 2 * i, &offset, sizeof offset);
        if (!check_node(w, &h, page, offset, depth, kind))
            return false;
    }
    return true;
}

static bool check_tree_as(struct walk *w, const struct tree *t, enum kind kind)
{
    if (t->root == no_page)
        return true;
    if (t->depth == 0 || t->depth > DEPTH_MAX)
        return fail(w, "the head of a database is broken");
    return check_page(w, t->root, t->depth, kind);
}

static bool check_tree(struct walk *w, const struct tree *t, bool holds_trees)
{
    return check_tree_as(w, t, holds_trees ? KIND_MAIN : KIND_NAMED);
}

static bool read_meta(struct walk *w, uint64_t number, struct meta *out)
{
    struct header h;

    if ((number + 1) * w->page_bytes > w->file.n)
        return fail(w, "it ends within its head");
    read_at(w, number * w->page_bytes, &h, sizeof h);
    read_at(w, number * w->page_bytes + HEADER_BYTES, out, sizeof *out);
    if (!(h.flags & IS_META) || out->magic != MAGIC)
        return fail(w, "it is not a file of LMDB");
    if (out->version != VERSION)
        return fail(w, "it is of another version of LMDB");
    return true;
}

/* The newer of the two heads. A file whose page size differs from what its first head says has no second one there. */
static bool read_head(struct walk *w, struct meta *out)
{
    struct meta first, second;

    w->page_bytes = PAGE_MIN;
    if (!read_meta(w, 0, &first))
        return false;
    w->page_bytes = first.free.pad;
    if (w->page_bytes < PAGE_MIN || w->page_bytes > PAGE_MAX || w->page_bytes & (w->page_bytes - 1))
        return fail(w, "its page size is none");
    if (!read_meta(w, 1, &second))
        return false;
    *out = second.transaction > first.transaction ? second : first;
    return true;
}

const char *store_pages_fault(struct str file)
{
    struct walk w = {.file = file};
    struct meta meta;

    if (!read_head(&w, &meta))
        return w.fault;
    w.n_pages = file.n / w.page_bytes;
    if (meta.last_page < w.n_pages)
        w.n_pages = meta.last_page + 1;
    w.seen = mem_alloc_zero(MEM_STORE, w.n_pages / 8 + 1);
    if (check_tree_as(&w, &meta.free, KIND_FREE))
        (void)check_tree(&w, &meta.main, true);
    mem_free(MEM_STORE, w.seen);
    return w.fault;
}
