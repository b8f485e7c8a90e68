#include "table/table_view.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "table/table_key.h"
#include "table/table_record.h"

enum {
    FORM = 1,          /* of the databases; another one is emptied */
    RESET_KEYS = 5000, /* removed in one commit */
    FLAG_HASHED = 1,   /* the whole key stands before the value */
    FLAG_FOREIGN = 2,  /* the value is a record of a later version, as it is */
    HEAD_BYTES = 9,
    POSITION_BYTES = TABLE_LOG_IDENTITY_BYTES + 24,
    NAME_BYTES = 64,
};

static const char form_key[] = "form";

/* --- how far --- */

static void position_key(unsigned partition, struct table_bytes *out)
{
    *out = (struct table_bytes){.n = 0};
    table_bytes_add(out, "p", 1);
    table_bytes_add_number(out, partition, TABLE_KEY_PARTITION_BYTES);
}

static err put_position(struct table_view *v, struct store_txn *txn, unsigned partition,
                        const struct table_log_position *position)
{
    struct table_bytes key, value = {.n = 0};

    position_key(partition, &key);
    table_bytes_add(&value, position->identity, sizeof position->identity);
    table_bytes_add_number(&value, position->first_offset, 8);
    table_bytes_add_number(&value, position->next_offset, 8);
    table_bytes_add_number(&value, position->at_end_ms, 8);
    return store_put(txn, v->meta, table_bytes_str(&key), table_bytes_str(&value));
}

static void get_position(struct table_view *v, struct store_txn *txn, unsigned partition)
{
    struct table_log_position *position = &v->positions[partition];
    struct table_bytes key;
    struct str value;

    *position = (struct table_log_position){.next_offset = 0};
    position_key(partition, &key);
    if (store_get(txn, v->meta, table_bytes_str(&key), &value) != E_OK || value.n != POSITION_BYTES)
        return;
    table_bytes_take(&value, position->identity, sizeof position->identity);
    position->first_offset = table_bytes_take_number(&value, 8);
    position->next_offset = table_bytes_take_number(&value, 8);
    position->at_end_ms = table_bytes_take_number(&value, 8);
}

/* The form and the number of partitions; a view of another is nothing we could go on with. */
static void make_form(const struct table_view *v, struct table_bytes *out)
{
    *out = (struct table_bytes){.n = 0};
    table_bytes_add_number(out, FORM, 4);
    table_bytes_add_number(out, v->n_partitions, 4);
}

static err prepare(struct table_view *v, struct errinfo *ei)
{
    const struct str key = {form_key, sizeof form_key - 1};
    struct table_bytes form;
    struct store_txn txn;
    struct str found;
    err e = store_begin(v->store, &txn);

    if (e != E_OK)
        return errinfo_set(ei, e, "the view of a table cannot be opened");
    make_form(v, &form);
    e = store_get(&txn, v->meta, key, &found);
    if (e == E_NOTFOUND || (e == E_OK && !str_equal(found, table_bytes_str(&form)))) {
        e = store_clear(&txn, v->states);
        if (e == E_OK)
            e = store_clear(&txn, v->meta);
        if (e == E_OK)
            e = store_put(&txn, v->meta, key, table_bytes_str(&form));
    }
    for (unsigned p = 0; p < v->n_partitions && e == E_OK; p++)
        get_position(v, &txn, p);
    return store_commit(&txn, ei); /* with what failed before */
}

err table_view_open(struct table_view *v, struct store *store, const char *name, unsigned n_partitions, struct errinfo *ei)
{
    char meta[NAME_BYTES];
    err e;

    *v = (struct table_view){.store = store, .n_partitions = n_partitions};
    v->positions = mem_alloc_zero(MEM_TABLE, n_partitions * sizeof *v->positions);
    snprintf(meta, sizeof meta, "%s.meta", name);
    e = store_db_open(store, name, &v->states, ei);
    if (e == E_OK)
        e = store_db_open(store, meta, &v->meta, ei);
    return e == E_OK ? prepare(v, ei) : e;
}

void table_view_close(struct table_view *v)
{
    mem_free(MEM_TABLE, v->positions);
    *v = (struct table_view){.n_partitions = 0};
}

/* --- writing --- */

struct value {
    uint8_t flags;
    uint64_t offset;
    struct str key; /* when it is hashed */
    struct str rest;
};

static bool read_value(struct str bytes, struct value *out)
{
    size_t key_bytes;

    *out = (struct value){.flags = 0};
    if (bytes.n < HEAD_BYTES)
        return false;
    out->flags = (uint8_t)table_bytes_take_number(&bytes, 1);
    out->offset = table_bytes_take_number(&bytes, 8);
    if (out->flags & FLAG_HASHED) {
        if (bytes.n < 2)
            return false;
        key_bytes = (size_t)table_bytes_take_number(&bytes, 2);
        if (key_bytes > bytes.n)
            return false;
        out->key = (struct str){bytes.p, key_bytes};
        bytes = (struct str){bytes.p + key_bytes, bytes.n - key_bytes};
    }
    out->rest = bytes;
    return true;
}

static err put_value(struct table_view *v, struct store_txn *txn, struct str store_key, const struct table_log_state *state,
                     struct str rest, uint8_t flags)
{
    struct table_bytes head = {.n = 0};
    struct buf value = {0};
    size_t n = HEAD_BYTES + rest.n;
    err e;
    char *p;

    if (table_key_is_hashed(state->key)) {
        flags |= FLAG_HASHED;
        n += 2 + state->key.n;
    }
    table_bytes_add_number(&head, flags, 1);
    table_bytes_add_number(&head, state->offset, 8);
    if (flags & FLAG_HASHED)
        table_bytes_add_number(&head, state->key.n, 2);
    p = buf_reserve(&value, MEM_TABLE, n);
    if (!p)
        return E_NOMEM;
    memcpy(p, head.p, head.n);
    if (flags & FLAG_HASHED)
        memcpy(p + head.n, state->key.p, state->key.n);
    if (rest.n)
        memcpy(p + n - rest.n, rest.p, rest.n);
    buf_commit(&value, n);
    e = store_put(txn, v->states, store_key, buf_str(&value));
    buf_free(&value, MEM_TABLE);
    return e;
}

static err apply_one(struct table_view *v, struct store_txn *txn, unsigned partition, const struct table_log_state *state,
                     enum table_view_result *result)
{
    struct table_bytes key;
    struct str value;
    err e;

    *result = TABLE_VIEW_APPLIED;
    if (state->key.n == 0 || state->key.n > TABLE_KEY_MAX || state->key.p[0] == 0) {
        *result = str_equal(state->key, STR(TABLE_RECORD_MARK_KEY)) ? TABLE_VIEW_MARK : TABLE_VIEW_SKIPPED;
        return E_OK;
    }
    table_key_make(partition, state->key, &key);
    if (!state->value.p) {
        e = store_remove(txn, v->states, table_bytes_str(&key));
        return e == E_NOTFOUND ? E_OK : e;
    }
    e = table_record_read_state(state->value, &value);
    if (e == E_OK)
        return put_value(v, txn, table_bytes_str(&key), state, value, 0);
    *result = TABLE_VIEW_SKIPPED;
    return e == E_AGAIN ? put_value(v, txn, table_bytes_str(&key), state, state->value, FLAG_FOREIGN) : E_OK;
}

err table_view_apply(struct table_view *v, unsigned partition, const struct table_log_state *states, size_t n,
                     uint64_t next_offset, enum table_view_result *results, struct errinfo *ei)
{
    struct table_log_position position = v->positions[partition];
    struct store_txn txn;
    err e = store_begin(v->store, &txn);

    if (e != E_OK)
        return errinfo_set(ei, e, "the view cannot be written");
    for (size_t i = 0; i < n && e == E_OK; i++)
        e = apply_one(v, &txn, partition, &states[i], &results[i]);
    position.next_offset = next_offset;
    if (e == E_OK)
        e = put_position(v, &txn, partition, &position);
    if (e == E_NOMEM) {
        store_abort(&txn);
        return errinfo_set(ei, e, "no memory for the states of the view");
    }
    e = store_commit(&txn, ei);
    if (e == E_OK)
        v->positions[partition] = position;
    return e;
}

/* Removes some of a partition's keys, and says whether there are more. */
static err remove_some(struct table_view *v, struct store_txn *txn, unsigned partition, bool *out_more)
{
    struct store_cursor c = {0};
    struct table_bytes begin;
    unsigned n = 0;
    err e = store_cursor_open(txn, v->states, &c);

    *out_more = false;
    if (e != E_OK)
        return e;
    table_key_make(partition, (struct str){0}, &begin);
    for (e = store_cursor_seek(&c, table_bytes_str(&begin)); e == E_OK; e = store_cursor_seek(&c, table_bytes_str(&begin))) {
        if (!str_starts_with(c.key, table_bytes_str(&begin)))
            break;
        *out_more = n++ == RESET_KEYS;
        if (*out_more)
            break;
        e = store_cursor_remove(&c);
        if (e != E_OK)
            break;
    }
    store_cursor_close(&c);
    return e == E_NOTFOUND ? E_OK : e;
}

err table_view_reset(struct table_view *v, unsigned partition, const struct table_log_position *begin, struct errinfo *ei)
{
    const struct table_log_position none = {.next_offset = 0};
    bool more = true;
    err e = E_OK;

    while (more && e == E_OK) {
        struct store_txn txn;

        if (store_begin(v->store, &txn) != E_OK)
            return errinfo_set(ei, E_IO, "the view cannot be written");
        e = remove_some(v, &txn, partition, &more);
        if (e == E_OK)
            e = put_position(v, &txn, partition, more ? &none : begin);
        if (e == E_OK)
            e = store_commit(&txn, ei);
        else
            ERR_IGNORE(store_commit(&txn, ei)); /* fails as what came before did */
        if (e == E_OK)
            v->positions[partition] = more ? none : *begin;
    }
    return e;
}

err table_view_note(struct table_view *v, struct errinfo *ei)
{
    struct store_txn txn;
    err e = store_begin(v->store, &txn);

    for (unsigned p = 0; p < v->n_partitions && e == E_OK; p++)
        e = put_position(v, &txn, p, &v->positions[p]);
    return txn.lmdb ? store_commit(&txn, ei) : errinfo_set(ei, e, "the view cannot be written");
}

/* --- reading --- */

static bool find(struct store_txn *txn, const struct table_view *v, unsigned partition, struct str key, struct value *out)
{
    struct table_bytes store_key;
    struct str bytes;

    if (key.n == 0 || key.n > TABLE_KEY_MAX)
        return false;
    table_key_make(partition, key, &store_key);
    return store_get(txn, v->states, table_bytes_str(&store_key), &bytes) == E_OK && read_value(bytes, out);
}

bool table_view_is_foreign(struct store_txn *txn, const struct table_view *v, unsigned partition, struct str key)
{
    struct value value;

    if (!find(txn, v, partition, key, &value))
        return false;
    /* Two keys with one hash: the other one's is as little ours to overwrite. */
    return value.flags & FLAG_FOREIGN || (table_key_is_hashed(key) && !str_equal(value.key, key));
}

bool table_view_get(struct store_txn *txn, const struct table_view *v, unsigned partition, struct str key,
                    struct table_item *out_item)
{
    struct value value;

    if (!find(txn, v, partition, key, &value) || value.flags & FLAG_FOREIGN ||
        (table_key_is_hashed(key) && !str_equal(value.key, key)))
        return false;
    *out_item = (struct table_item){.key = key, .value = value.rest, .offset = value.offset};
    return true;
}

/* Goes on from where the cursor is until something fits. */
static bool next_fitting(struct store_cursor *c, struct str head, struct str prefix, struct str behind,
                         struct table_item *out_item)
{
    struct value value;
    struct str key;

    for (err e = E_OK; e == E_OK && str_starts_with(c->key, head); e = store_cursor_next(c)) {
        if (str_equal(c->key, behind) || !read_value(c->value, &value) || value.flags & FLAG_FOREIGN)
            continue;
        key = value.flags & FLAG_HASHED ? value.key : str_from_offset(c->key, TABLE_KEY_PARTITION_BYTES);
        if (!str_starts_with(key, prefix))
            continue;
        *out_item = (struct table_item){.key = key, .value = value.rest, .offset = value.offset};
        return true;
    }
    return false;
}

bool table_view_next(struct store_txn *txn, const struct table_view *v, unsigned partition, struct str prefix, struct str after,
                     struct table_item *out_item)
{
    const struct str short_prefix = {prefix.p, prefix.n < TABLE_KEY_PLAIN ? prefix.n : TABLE_KEY_PLAIN};
    struct table_bytes head, behind;
    struct store_cursor c = {0};
    bool found = false;

    if (after.n > TABLE_KEY_MAX || store_cursor_open(txn, v->states, &c) != E_OK)
        return false;
    table_key_make(partition, short_prefix, &head);
    table_key_make(partition, after, &behind);
    if (store_cursor_seek(&c, table_bytes_str(after.n ? &behind : &head)) == E_OK) {
        /* `after` may stand before all that begin with the prefix. */
        err e = E_OK;

        if (after.n && memcmp(behind.p, head.p, behind.n < head.n ? behind.n : head.n) < 0)
            e = store_cursor_seek(&c, table_bytes_str(&head));
        found = e == E_OK && next_fitting(&c, table_bytes_str(&head), prefix,
                                          after.n ? table_bytes_str(&behind) : (struct str){0}, out_item);
    }
    store_cursor_close(&c);
    return found;
}
