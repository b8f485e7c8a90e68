#include "table/table_log_disk.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"
#include "table/table_key.h"

enum {
    FORM = 1,
    NAME_BYTES = 64,
    REMOVALS_KEPT = 1000, /* in all partitions together */
    PRUNED_AT_ONCE = 2,   /* for each new removal */
    READ_BYTES = 1 << 20, /* at once */
    FLAG_REMOVED = 1,
    ENTRY_HEAD_BYTES = 3,
};

/* --- keys and entries --- */

static void offset_key(unsigned partition, uint64_t offset, struct table_bytes *out)
{
    *out = (struct table_bytes){.n = 0};
    table_bytes_add_number(out, partition, TABLE_KEY_PARTITION_BYTES);
    table_bytes_add_number(out, offset, 8);
}

static void partition_key(unsigned partition, struct table_bytes *out)
{
    *out = (struct table_bytes){.n = 0};
    table_bytes_add(out, "p", 1);
    table_bytes_add_number(out, partition, TABLE_KEY_PARTITION_BYTES);
}

static bool read_entry(struct str bytes, struct table_log_state *out)
{
    bool is_removed;
    size_t key_bytes;

    if (bytes.n < ENTRY_HEAD_BYTES)
        return false;
    is_removed = table_bytes_take_number(&bytes, 1) & FLAG_REMOVED;
    key_bytes = (size_t)table_bytes_take_number(&bytes, 2);
    if (key_bytes > bytes.n)
        return false;
    out->key = (struct str){bytes.p, key_bytes};
    out->value = is_removed ? (struct str){0} : (struct str){bytes.p + key_bytes, bytes.n - key_bytes};
    return true;
}

static err put_entry(struct table_log_disk *d, struct store_txn *txn, struct str offset, const struct table_log_state *state)
{
    struct table_bytes head = {.n = 0};
    struct buf entry = {0};
    err e;

    table_bytes_add_number(&head, state->value.p ? 0 : FLAG_REMOVED, 1);
    table_bytes_add_number(&head, state->key.n, 2);
    e = buf_append(&entry, MEM_TABLE, table_bytes_str(&head));
    if (e == E_OK)
        e = buf_append(&entry, MEM_TABLE, state->key);
    if (e == E_OK)
        e = buf_append(&entry, MEM_TABLE, state->value);
    if (e == E_OK)
        e = store_put(txn, d->states, offset, buf_str(&entry));
    buf_free(&entry, MEM_TABLE);
    return e;
}

/* Takes out what the log has of a key so far. */
static err remove_before(struct table_log_disk *d, struct store_txn *txn, unsigned partition, struct str store_key)
{
    struct table_bytes before;
    struct str found;
    err e = store_get(txn, d->keys, store_key, &found);

    if (e != E_OK || found.n != 8)
        return e == E_NOTFOUND ? E_OK : e;
    offset_key(partition, table_bytes_take_number(&found, 8), &before);
    e = store_remove(txn, d->states, table_bytes_str(&before));
    if (e == E_OK || e == E_NOTFOUND)
        e = store_remove(txn, d->removals, table_bytes_str(&before));
    return e == E_NOTFOUND ? E_OK : e;
}

static err put_state(struct table_log_disk *d, struct store_txn *txn, struct table_log_disk_partition *p, uint64_t offset,
                     const struct table_log_state *state)
{
    struct table_bytes at, key, number = {.n = 0};
    err e;

    offset_key(p->number, offset, &at);
    table_key_make(p->number, state->key, &key);
    table_bytes_add_number(&number, offset, 8);
    e = remove_before(d, txn, p->number, table_bytes_str(&key));
    if (e == E_OK)
        e = put_entry(d, txn, table_bytes_str(&at), state);
    if (e == E_OK)
        e = store_put(txn, d->keys, table_bytes_str(&key), table_bytes_str(&number));
    if (e == E_OK && !state->value.p)
        e = store_put(txn, d->removals, table_bytes_str(&at), (struct str){0});
    return e;
}

/* Forgets the oldest removal of the partition that the view has; `*pruned` is then past it. */
static err prune_one(struct table_log_disk *d, struct store_txn *txn, const struct table_log_disk_partition *p,
                     uint64_t read_offset, uint64_t *pruned)
{
    struct store_cursor c = {0};
    struct table_bytes begin, store_key;
    struct table_log_state state = {.offset = 0};
    struct str at, entry;
    char copy[16];
    err e;

    offset_key(p->number, 0, &begin);
    e = store_cursor_open(txn, d->removals, &c);
    if (e == E_OK)
        e = store_cursor_seek(&c, table_bytes_str(&begin));
    if (e != E_OK || c.key.n > sizeof copy || memcmp(c.key.p, begin.p, TABLE_KEY_PARTITION_BYTES) != 0) {
        store_cursor_close(&c);
        return e == E_NOTFOUND ? E_OK : e;
    }
    at = (struct str){memcpy(copy, c.key.p, c.key.n), c.key.n};
    store_cursor_close(&c);
    state.offset = table_bytes_take_number(&(struct str){copy + TABLE_KEY_PARTITION_BYTES, 8}, 8);
    if (state.offset >= read_offset)
        return E_OK;
    e = store_get(txn, d->states, at, &entry);
    if (e == E_OK && read_entry(entry, &state)) {
        table_key_make(p->number, state.key, &store_key);
        e = store_remove(txn, d->keys, table_bytes_str(&store_key));
        if (e == E_OK)
            e = store_remove(txn, d->states, at);
    }
    if (e == E_OK || e == E_NOTFOUND)
        e = store_remove(txn, d->removals, at);
    *pruned = state.offset + 1;
    return e == E_NOTFOUND ? E_OK : e;
}

static err put_partition(struct table_log_disk *d, struct store_txn *txn, const struct table_log_disk_partition *p,
                         uint64_t next, uint64_t pruned)
{
    struct table_bytes key, value = {.n = 0};

    partition_key(p->number, &key);
    table_bytes_add_number(&value, next, 8);
    table_bytes_add_number(&value, pruned, 8);
    return store_put(txn, d->meta, table_bytes_str(&key), table_bytes_str(&value));
}

err table_log_disk_add(struct table_log_disk *d, unsigned partition, const struct table_log_batch *batch, uint64_t read_offset,
                       struct errinfo *ei)
{
    struct table_log_disk_partition *p = &d->partitions[partition];
    uint64_t next = p->next_offset, pruned = p->pruned_offset;
    size_t n_removals = 0;
    struct store_txn txn;
    err e, committed;

    if (batch->n_states == 0)
        return E_OK;
    e = store_begin(d->store, &txn);
    if (e != E_OK)
        return errinfo_set(ei, e, "the log cannot be written");
    for (size_t i = 0; i < batch->n_states && e == E_OK; i++) {
        e = put_state(d, &txn, p, next++, &batch->states[i]);
        n_removals += batch->states[i].value.p == NULL;
    }
    for (size_t i = 0; i < n_removals * PRUNED_AT_ONCE && e == E_OK && store_count(&txn, d->removals) > REMOVALS_KEPT; i++)
        e = prune_one(d, &txn, p, read_offset, &pruned);
    if (e == E_OK)
        e = put_partition(d, &txn, p, next, pruned);
    if (e != E_OK && txn.failed == 0) { /* no failure of the store's own */
        store_abort(&txn);
        return errinfo_set(ei, e, "the log cannot be written: %s", err_name(e));
    }
    committed = store_commit(&txn, ei);
    if (committed != E_OK)
        return committed;
    p->next_offset = next;
    p->pruned_offset = pruned;
    return E_OK;
}

/* --- reading --- */

/* Takes states from a cursor; what they point to is the store's. The offset that follows the last of them goes to `*next`. */
static size_t collect(struct store_cursor *c, const struct table_log_disk_partition *p, uint64_t offset,
                      struct table_log_state *states, uint64_t *next)
{
    struct table_bytes begin;
    size_t n = 0, bytes = 0;
    err e;

    offset_key(p->number, offset, &begin);
    *next = p->next_offset;
    for (e = store_cursor_seek(c, table_bytes_str(&begin)); e == E_OK; e = store_cursor_next(c)) {
        struct str key = c->key;

        if (key.n != TABLE_KEY_PARTITION_BYTES + 8 || table_bytes_take_number(&key, TABLE_KEY_PARTITION_BYTES) != p->number)
            break;
        states[n].offset = table_bytes_take_number(&key, 8);
        if (n == TABLE_LOG_DISK_STATES || bytes > READ_BYTES) {
            *next = states[n].offset;
            break;
        }
        bytes += c->value.n;
        n += read_entry(c->value, &states[n]);
    }
    return n;
}

err table_log_disk_read(struct table_log_disk *d, unsigned partition, uint64_t offset, struct table_log_disk_reader *r)
{
    const struct table_log_disk_partition *p = &d->partitions[partition];
    struct store_cursor c = {0};
    err e;

    *r = (struct table_log_disk_reader){.n = 0};
    e = store_reader_open(d->store, &r->txn);
    if (e == E_OK)
        e = store_cursor_open(&r->txn, d->states, &c);
    if (e == E_OK) {
        r->states = mem_alloc(MEM_TABLE, (TABLE_LOG_DISK_STATES + 1) * sizeof *r->states);
        r->n = collect(&c, p, offset, r->states, &r->next_offset);
    }
    store_cursor_close(&c);
    if (e != E_OK)
        table_log_disk_end_read(r);
    return e;
}

void table_log_disk_end_read(struct table_log_disk_reader *r)
{
    store_reader_close(&r->txn);
    mem_free(MEM_TABLE, r->states);
    *r = (struct table_log_disk_reader){.n = 0};
}

/* --- opening --- */

static err read_partition(struct table_log_disk *d, struct store_txn *txn, struct table_log_disk_partition *p)
{
    struct table_bytes key;
    struct str value;
    err e;

    partition_key(p->number, &key);
    e = store_get(txn, d->meta, table_bytes_str(&key), &value);
    if (e != E_OK || value.n < 16)
        return e == E_NOTFOUND ? E_OK : e;
    p->next_offset = table_bytes_take_number(&value, 8);
    p->pruned_offset = table_bytes_take_number(&value, 8);
    return E_OK;
}

static err make(struct table_log_disk *d, struct store_txn *txn)
{
    struct table_bytes head = {.n = 0};

    if (getrandom(d->identity, sizeof d->identity, 0) != sizeof d->identity)
        return E_IO;
    table_bytes_add_number(&head, FORM, 4);
    table_bytes_add_number(&head, d->n_partitions, 4);
    table_bytes_add(&head, d->identity, sizeof d->identity);
    return store_put(txn, d->meta, STR("log"), table_bytes_str(&head));
}

static err read_head(struct table_log_disk *d, struct str head, const char *name, struct errinfo *ei)
{
    uint64_t form, n;

    if (head.n < 8 + sizeof d->identity)
        return errinfo_set(ei, E_PROTO, "the log of table %s is damaged", name);
    form = table_bytes_take_number(&head, 4);
    n = table_bytes_take_number(&head, 4);
    if (form != FORM)
        return errinfo_set(ei, E_INVAL, "the log of table %s was written by a later version", name);
    if (n != d->n_partitions)
        return errinfo_set(ei, E_INVAL, "the log of table %s has %u partitions, not %u; their number cannot change", name,
                           (unsigned)n, d->n_partitions);
    table_bytes_take(&head, d->identity, sizeof d->identity);
    return E_OK;
}

static err read_log(struct table_log_disk *d, const char *name, struct errinfo *ei)
{
    struct store_txn txn;
    struct str head;
    err e = store_begin(d->store, &txn);

    if (e != E_OK)
        return errinfo_set(ei, e, "the log of table %s cannot be opened", name);
    e = store_get(&txn, d->meta, STR("log"), &head);
    if (e == E_NOTFOUND)
        e = make(d, &txn);
    else if (e == E_OK)
        e = read_head(d, head, name, ei);
    for (unsigned i = 0; i < d->n_partitions && e == E_OK; i++)
        e = read_partition(d, &txn, &d->partitions[i]);
    if (e == E_OK || txn.failed)
        return store_commit(&txn, ei);
    store_abort(&txn);
    return e;
}

static err open_databases(struct table_log_disk *d, const char *name, struct errinfo *ei)
{
    const struct {
        const char *suffix;
        struct store_db *db;
    } list[] = {{"log", &d->states}, {"keys", &d->keys}, {"removals", &d->removals}, {"log.meta", &d->meta}};
    char full[NAME_BYTES];
    err e = E_OK;

    for (size_t i = 0; i < ARRAY_LEN(list) && e == E_OK; i++) {
        snprintf(full, sizeof full, "%s.%s", name, list[i].suffix);
        e = store_db_open(d->store, full, list[i].db, ei);
    }
    return e;
}

err table_log_disk_open(struct table_log_disk *d, struct store *store, const char *name, unsigned n_partitions,
                        struct errinfo *ei)
{
    err e;

    *d = (struct table_log_disk){.store = store, .n_partitions = n_partitions};
    d->partitions = mem_alloc_zero(MEM_TABLE, n_partitions * sizeof *d->partitions);
    for (unsigned i = 0; i < n_partitions; i++)
        d->partitions[i].number = i;
    e = open_databases(d, name, ei);
    return e == E_OK ? read_log(d, name, ei) : e;
}

void table_log_disk_close(struct table_log_disk *d)
{
    mem_free(MEM_TABLE, d->partitions);
    *d = (struct table_log_disk){.n_partitions = 0};
}
