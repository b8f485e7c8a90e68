/* table_fixture: a table without a log or a disk: what stands in for table/ in the registry's tests, by the same functions. A write is decided at
 * once, its mail is posted to the writer's mailbox. One thread; include it in one file of a test. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/mem.h"
#include "loop/mailbox.h"
#include "table/table.h"

struct table_fixture_entry {
    struct str key, value;
    uint64_t offset;
};

struct table {
    struct table_fixture_entry *entries; /* in the order of their keys */
    size_t count;
    uint64_t next_offset;
    struct str *graves; /* what decisions still may look at */
    size_t n_graves;
    const struct table_ops *ops;
    void *context;
    unsigned n_reading; /* readers that are open and do not rest */
    unsigned n_changes;
    err next_result; /* of writes, instead of being decided; E_OK: they are */
    bool is_closed;  /* whoever reads or writes now fails the test */
};

struct table_txn {
    struct table *table;
};

static inline int table_fixture_compare(struct str a, struct str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n ? memcmp(a.p, b.p, n) : 0;

    return order ? order : (a.n > b.n) - (a.n < b.n);
}

static inline struct str table_fixture_copy(struct str s)
{
    char *p = malloc(s.n + 1);

    assert_non_null(p);
    memcpy(p, s.n ? s.p : "", s.n);
    return (struct str){p, s.n};
}

/* The first entry that is not below `key`. */
static inline size_t table_fixture_find(const struct table *t, struct str key, bool *out_found)
{
    size_t i = 0;

    while (i < t->count && table_fixture_compare(t->entries[i].key, key) < 0)
        i++;
    *out_found = i < t->count && table_fixture_compare(t->entries[i].key, key) == 0;
    return i;
}

static inline void table_fixture_bury(struct table *t, struct str s)
{
    t->graves = realloc(t->graves, (t->n_graves + 1) * sizeof *t->graves);
    t->graves[t->n_graves++] = s;
}

static inline bool table_fixture_get(const struct table *t, struct str key, struct table_item *out)
{
    bool found;
    size_t i = table_fixture_find(t, key, &found);

    if (found)
        *out = (struct table_item){t->entries[i].key, t->entries[i].value, t->entries[i].offset};
    return found;
}

static inline bool table_fixture_next(const struct table *t, struct str prefix, struct str after, struct table_item *out)
{
    for (size_t i = 0; i < t->count; i++) {
        if (!str_starts_with(t->entries[i].key, prefix) || (after.n && table_fixture_compare(t->entries[i].key, after) <= 0))
            continue;
        *out = (struct table_item){t->entries[i].key, t->entries[i].value, t->entries[i].offset};
        return true;
    }
    return false;
}

bool table_txn_get(struct table_txn *txn, struct str key, struct str *out_value)
{
    struct table_item item;

    if (!table_fixture_get(txn->table, key, &item))
        return false;
    *out_value = item.value;
    return true;
}

err table_txn_put(struct table_txn *txn, struct str key, struct str value)
{
    struct table *t = txn->table;
    bool found;
    size_t i = table_fixture_find(t, key, &found);

    assert_true(key.n > 0 && key.n <= TABLE_KEY_MAX);
    if (value.n > TABLE_VALUE_MAX)
        return E_LIMIT;
    if (found) {
        table_fixture_bury(t, t->entries[i].value);
    } else {
        t->entries = realloc(t->entries, (t->count + 1) * sizeof *t->entries);
        memmove(&t->entries[i + 1], &t->entries[i], (t->count - i) * sizeof *t->entries);
        t->count++;
        t->entries[i].key = table_fixture_copy(key);
    }
    t->entries[i].value = table_fixture_copy(value);
    t->entries[i].offset = t->next_offset++;
    t->n_changes++;
    return E_OK;
}

err table_txn_remove(struct table_txn *txn, struct str key)
{
    struct table *t = txn->table;
    bool found;
    size_t i = table_fixture_find(t, key, &found);

    if (!found)
        return E_OK;
    table_fixture_bury(t, t->entries[i].key);
    table_fixture_bury(t, t->entries[i].value);
    memmove(&t->entries[i], &t->entries[i + 1], (t->count - i - 1) * sizeof *t->entries);
    t->count--;
    t->n_changes++;
    return E_OK;
}

bool table_txn_next(struct table_txn *txn, struct str prefix, struct str after, struct table_item *out_item)
{
    return table_fixture_next(txn->table, prefix, after, out_item);
}

/* A reader that rests finds nothing, as a real one. */
void table_reader_renew(struct table_reader *r)
{
    r->table->n_reading += !r->txn;
    r->txn = r->table;
}

void table_reader_rest(struct table_reader *r)
{
    r->table->n_reading -= r->txn != NULL;
    r->txn = NULL;
}

err table_reader_open(struct table *t, struct table_reader *r)
{
    assert_false(t->is_closed);
    *r = (struct table_reader){.table = t};
    table_reader_renew(r);
    return E_OK;
}

void table_reader_close(struct table_reader *r)
{
    table_reader_rest(r);
    r->table = NULL;
}

bool table_reader_get(struct table_reader *r, struct str partition_key, struct str key, struct table_item *out_item)
{
    (void)partition_key;
    return r->txn && table_fixture_get(r->table, key, out_item);
}

bool table_reader_next(struct table_reader *r, struct str partition_key, struct str prefix, struct str after,
                       struct table_item *out_item)
{
    (void)partition_key;
    return r->txn && table_fixture_next(r->table, prefix, after, out_item);
}

static inline void table_fixture_clear(struct table *t)
{
    while (t->n_graves)
        free((void *)(uintptr_t)t->graves[--t->n_graves].p);
    free(t->graves);
    t->graves = NULL;
}

static inline void table_fixture_free(struct table *t)
{
    for (size_t i = 0; i < t->count; i++) {
        free((void *)(uintptr_t)t->entries[i].key.p);
        free((void *)(uintptr_t)t->entries[i].value.p);
    }
    free(t->entries);
    table_fixture_clear(t);
    *t = (struct table){.ops = t->ops, .context = t->context};
}

/* All or nothing: a refused one leaves what was there. */
static inline enum table_verdict table_fixture_decide(struct table *t, struct str request, struct buf *out_reply)
{
    struct table_txn txn = {t};
    struct table_fixture_entry *before = malloc((t->count + 1) * sizeof *before);
    size_t count = t->count;
    enum table_verdict verdict;

    for (size_t i = 0; i < count; i++)
        before[i] = (struct table_fixture_entry){table_fixture_copy(t->entries[i].key), table_fixture_copy(t->entries[i].value),
                                                 t->entries[i].offset};
    t->n_changes = 0;
    verdict = t->ops->decide(t->context, &txn, request, out_reply);
    if (verdict == TABLE_REFUSED) {
        struct table_fixture_entry *now = t->entries;
        size_t n = t->count;

        t->entries = before;
        t->count = count;
        before = now;
        count = n;
    }
    for (size_t i = 0; i < count; i++) {
        free((void *)(uintptr_t)before[i].key.p);
        free((void *)(uintptr_t)before[i].value.p);
    }
    free(before);
    table_fixture_clear(t);
    return verdict;
}

void table_write(struct table *t, struct table_write *write)
{
    assert_false(t->is_closed);
    write->reply = (struct buf){0};
    write->result = t->next_result;
    if (write->result == E_OK)
        write->result = table_fixture_decide(t, write->request, &write->reply) == TABLE_ACCEPTED ? E_OK : E_DENIED;
    mailbox_post(write->home, &write->mail);
}

void table_catch_up(struct table *t, struct str partition_key, uint32_t limit_ms, struct table_barrier *barrier)
{
    (void)t;
    (void)partition_key;
    (void)limit_ms;
    barrier->result = E_OK;
    mailbox_post(barrier->home, &barrier->mail);
}
