#include "table/table_log_local.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "loop/loop.h"
#include "store/store.h"
#include "table/table_key.h"

enum {
    FORM = 1,
    NAME_BYTES = 64,
    READ_STATES = 1000, /* handed out at once */
    READ_BYTES = 1 << 20,
    REMOVALS_KEPT = 1000, /* in all partitions together */
    PRUNED_AT_ONCE = 2,   /* for each new removal */
    AGAIN_MS = 1000,      /* when the view takes nothing */
    FLAG_REMOVED = 1,
    ENTRY_HEAD_BYTES = 3,
    QUEUED_BYTES_MAX = 64 << 20,
};

struct request {
    struct list link;
    uint64_t position;
    size_t n;
    char bytes[];
};

struct partition {
    struct local *log;
    unsigned number;
    uint64_t next_offset;   /* of the next state */
    uint64_t pruned_offset; /* a reader that has less than this may have missed removals */
    uint64_t read_offset;   /* the user has everything before */
    uint64_t next_position;
    struct list requests, taken;
    bool is_committing, is_asked;
    err result;
    const struct table_log_batch *batch;
};

struct local {
    struct table_log log;
    struct store *store;
    struct store_db states, keys, removals, meta; /* offset -> state, key -> offset, offset of a removal -> nothing */
    uint8_t identity[TABLE_LOG_IDENTITY_BYTES];
    unsigned n_partitions;
    struct partition *partitions;
    const struct table_log_user *user;
    struct table_log_position *positions; /* of the view, until they have been looked at */
    size_t queued_bytes;
    struct mail work; /* to ourselves: a later turn goes on */
    bool is_working;
    struct timer again;
};

static struct local *local_of(struct table_log *log)
{
    return CONTAINER_OF(log, struct local, log);
}

/* --- what is stored --- */

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

static err put_entry(struct local *l, struct store_txn *txn, struct str offset, const struct table_log_state *state)
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
        e = store_put(txn, l->states, offset, buf_str(&entry));
    buf_free(&entry, MEM_TABLE);
    return e;
}

/* Takes out what the log has of a key so far. */
static err remove_before(struct local *l, struct store_txn *txn, unsigned partition, struct str store_key)
{
    struct table_bytes before;
    struct str found;
    err e = store_get(txn, l->keys, store_key, &found);

    if (e != E_OK || found.n != 8)
        return e == E_NOTFOUND ? E_OK : e;
    offset_key(partition, table_bytes_take_number(&found, 8), &before);
    e = store_remove(txn, l->states, table_bytes_str(&before));
    if (e == E_OK || e == E_NOTFOUND)
        e = store_remove(txn, l->removals, table_bytes_str(&before));
    return e == E_NOTFOUND ? E_OK : e;
}

static err put_state(struct local *l, struct store_txn *txn, struct partition *p, uint64_t offset,
                     const struct table_log_state *state)
{
    struct table_bytes at, key, number = {.n = 0};
    err e;

    offset_key(p->number, offset, &at);
    table_key_make(p->number, state->key, &key);
    table_bytes_add_number(&number, offset, 8);
    e = remove_before(l, txn, p->number, table_bytes_str(&key));
    if (e == E_OK)
        e = put_entry(l, txn, table_bytes_str(&at), state);
    if (e == E_OK)
        e = store_put(txn, l->keys, table_bytes_str(&key), table_bytes_str(&number));
    if (e == E_OK && !state->value.p)
        e = store_put(txn, l->removals, table_bytes_str(&at), (struct str){0});
    return e;
}

/* Forgets the oldest removal of the partition that the view has; `*pruned` is then past it. */
static err prune_one(struct local *l, struct store_txn *txn, const struct partition *p, uint64_t *pruned)
{
    struct store_cursor c = {0};
    struct table_bytes begin, store_key;
    struct table_log_state state = {.offset = 0};
    struct str at, entry;
    char copy[16];
    err e;

    offset_key(p->number, 0, &begin);
    e = store_cursor_open(txn, l->removals, &c);
    if (e == E_OK)
        e = store_cursor_seek(&c, table_bytes_str(&begin));
    if (e != E_OK || c.key.n > sizeof copy || memcmp(c.key.p, begin.p, TABLE_KEY_PARTITION_BYTES) != 0) {
        store_cursor_close(&c);
        return e == E_NOTFOUND ? E_OK : e;
    }
    at = (struct str){memcpy(copy, c.key.p, c.key.n), c.key.n};
    store_cursor_close(&c);
    state.offset = table_bytes_take_number(&(struct str){copy + TABLE_KEY_PARTITION_BYTES, 8}, 8);
    if (state.offset >= p->read_offset)
        return E_OK;
    e = store_get(txn, l->states, at, &entry);
    if (e == E_OK && read_entry(entry, &state)) {
        table_key_make(p->number, state.key, &store_key);
        e = store_remove(txn, l->keys, table_bytes_str(&store_key));
        if (e == E_OK)
            e = store_remove(txn, l->states, at);
    }
    if (e == E_OK || e == E_NOTFOUND)
        e = store_remove(txn, l->removals, at);
    *pruned = state.offset + 1;
    return e == E_NOTFOUND ? E_OK : e;
}

static err put_partition(struct local *l, struct store_txn *txn, const struct partition *p, uint64_t next, uint64_t pruned)
{
    struct table_bytes key, value = {.n = 0};

    partition_key(p->number, &key);
    table_bytes_add_number(&value, next, 8);
    table_bytes_add_number(&value, pruned, 8);
    return store_put(txn, l->meta, table_bytes_str(&key), table_bytes_str(&value));
}

static err store_batch(struct local *l, struct partition *p, const struct table_log_batch *batch, struct errinfo *ei)
{
    uint64_t next = p->next_offset, pruned = p->pruned_offset;
    size_t n_removals = 0;
    struct store_txn txn;
    err e, committed;

    if (batch->n_states == 0)
        return E_OK;
    e = store_begin(l->store, &txn);
    if (e != E_OK)
        return errinfo_set(ei, e, "the log cannot be written");
    for (size_t i = 0; i < batch->n_states && e == E_OK; i++) {
        e = put_state(l, &txn, p, next++, &batch->states[i]);
        n_removals += batch->states[i].value.p == NULL;
    }
    for (size_t i = 0; i < n_removals * PRUNED_AT_ONCE && e == E_OK && store_count(&txn, l->removals) > REMOVALS_KEPT; i++)
        e = prune_one(l, &txn, p, &pruned);
    if (e == E_OK)
        e = put_partition(l, &txn, p, next, pruned);
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

/* --- the user's turn --- */

static void on_work(struct mail *m);

static void wake(struct local *l)
{
    if (l->is_working)
        return;
    l->is_working = true;
    l->work.on_mail = on_work;
    mailbox_post(&l->user->loop->mailbox, &l->work);
}

static void on_again(struct timer *timer)
{
    wake(CONTAINER_OF(timer, struct local, again));
}

/* Takes states from a cursor; what they point to is the store's. The offset that follows the last of them goes to `*next`. */
static size_t collect(struct store_cursor *c, const struct partition *p, struct table_log_state *states, uint64_t *next)
{
    struct table_bytes begin;
    size_t n = 0, bytes = 0;
    err e;

    offset_key(p->number, p->read_offset, &begin);
    *next = p->next_offset;
    for (e = store_cursor_seek(c, table_bytes_str(&begin)); e == E_OK; e = store_cursor_next(c)) {
        struct str key = c->key;

        if (key.n != TABLE_KEY_PARTITION_BYTES + 8 || table_bytes_take_number(&key, TABLE_KEY_PARTITION_BYTES) != p->number)
            break;
        states[n].offset = table_bytes_take_number(&key, 8);
        if (n == READ_STATES || bytes > READ_BYTES) {
            *next = states[n].offset;
            break;
        }
        bytes += c->value.n;
        n += read_entry(c->value, &states[n]);
    }
    return n;
}

/* Hands out what the user has not got yet. False: it takes nothing now. */
static bool deliver_some(struct local *l, struct partition *p)
{
    struct table_log_state *states = mem_alloc(MEM_TABLE, (READ_STATES + 1) * sizeof *states);
    struct store_cursor c = {0};
    struct store_txn txn = {0};
    bool is_taken = false;
    uint64_t next;
    size_t n;

    if (store_reader_open(l->store, &txn) == E_OK && store_cursor_open(&txn, l->states, &c) == E_OK) {
        n = collect(&c, p, states, &next);
        is_taken = l->user->on_states(l->user->context, p->number, states, n, next);
        if (is_taken)
            p->read_offset = next;
    }
    store_cursor_close(&c);
    store_reader_close(&txn);
    mem_free(MEM_TABLE, states);
    return is_taken;
}

/* Everything that has been committed is in the view before anybody is told. */
static bool deliver(struct local *l, struct partition *p)
{
    while (p->read_offset < p->next_offset)
        if (!deliver_some(l, p))
            return false;
    return true;
}

static void free_requests(struct local *l, struct list *list)
{
    struct list *link;

    while ((link = list_pop(list))) {
        struct request *r = CONTAINER_OF(link, struct request, link);

        l->queued_bytes -= r->n;
        mem_free(MEM_TABLE, r);
    }
}

static void end_commit(struct local *l, struct partition *p)
{
    const struct table_log_batch *batch = p->batch;
    err result = p->result;

    p->is_committing = false;
    p->batch = NULL;
    free_requests(l, &p->taken);
    for (size_t i = 0; i < batch->n_replies && result == E_OK; i++)
        l->user->on_reply(l->user->context, batch->replies[i]);
    l->user->on_committed(l->user->context, p->number, result);
}

/* The view of a partition may go on if it is of this log, and has not missed a removal. */
static bool place_reader(struct local *l, struct partition *p)
{
    const struct table_log_position *at = &l->positions[p->number];
    struct table_log_position begin = {.next_offset = 0};

    p->read_offset = at->next_offset;
    if (memcmp(at->identity, l->identity, sizeof l->identity) == 0 && at->next_offset <= p->next_offset &&
        at->next_offset >= p->pruned_offset)
        return true;
    memcpy(begin.identity, l->identity, sizeof begin.identity);
    p->read_offset = 0;
    return l->user->on_reset(l->user->context, p->number, &begin);
}

/* True when every partition has its reader. The user becomes the owner of a partition when its reader is placed. */
static bool place_readers(struct local *l)
{
    for (unsigned i = 0; i < l->n_partitions; i++)
        if (!place_reader(l, &l->partitions[i]))
            return false;
    mem_free(MEM_TABLE, l->positions);
    l->positions = NULL;
    for (unsigned i = 0; i < l->n_partitions; i++)
        l->user->on_owner(l->user->context, i, true, l->partitions[i].next_offset);
    return true;
}

static void work_on(struct local *l, struct partition *p)
{
    const struct table_log_user *user = l->user;

    if (!deliver(l, p)) {
        wheel_start(&user->loop->wheel, &l->again, AGAIN_MS);
        return;
    }
    if (p->is_committing)
        end_commit(l, p);
    if (p->is_asked) {
        p->is_asked = false;
        user->on_end(user->context, p->number, E_OK, p->next_offset);
    }
    if (!list_is_empty(&p->requests) && !p->is_committing)
        user->on_requests(user->context, p->number);
}

static void on_work(struct mail *m)
{
    struct local *l = CONTAINER_OF(m, struct local, work);

    l->is_working = false;
    if (l->positions && !place_readers(l)) {
        wheel_start(&l->user->loop->wheel, &l->again, AGAIN_MS);
        return;
    }
    for (unsigned i = 0; i < l->n_partitions; i++)
        work_on(l, &l->partitions[i]);
}

/* --- the port --- */

static err attach(struct table_log *log, const struct table_log_user *user, const struct table_log_position *positions,
                  struct errinfo *ei)
{
    struct local *l = local_of(log);

    if (user->n_partitions != l->n_partitions)
        return errinfo_set(ei, E_INVAL, "the log has %u partitions, the table %u", l->n_partitions, user->n_partitions);
    l->user = user;
    l->again.on_timer = on_again;
    l->positions = mem_alloc(MEM_TABLE, l->n_partitions * sizeof *positions);
    memcpy(l->positions, positions, l->n_partitions * sizeof *positions);
    wake(l);
    return E_OK;
}

static void detach(struct table_log *log)
{
    struct local *l = local_of(log);

    wheel_stop(&l->again);
    for (unsigned i = 0; i < l->n_partitions; i++) {
        struct partition *p = &l->partitions[i];

        free_requests(l, &p->requests);
        free_requests(l, &p->taken);
        p->is_committing = p->is_asked = false;
    }
}

static err append(struct table_log *log, unsigned partition, uint64_t id, struct str key, struct str record)
{
    struct local *l = local_of(log);
    struct partition *p = &l->partitions[partition];
    struct request *r;

    (void)id;
    (void)key;
    if (l->queued_bytes + record.n > QUEUED_BYTES_MAX)
        return E_BUSY;
    r = mem_alloc(MEM_TABLE, sizeof *r + record.n);
    *r = (struct request){.position = ++p->next_position, .n = record.n};
    memcpy(r->bytes, record.p, record.n);
    l->queued_bytes += r->n;
    list_push(&p->requests, &r->link);
    wake(l);
    return E_OK;
}

static bool next(struct table_log *log, unsigned partition, struct table_log_request *out_request)
{
    struct partition *p = &local_of(log)->partitions[partition];
    struct list *link = list_pop(&p->requests);
    struct request *r;

    if (!link)
        return false;
    r = CONTAINER_OF(link, struct request, link);
    list_push(&p->taken, link);
    *out_request = (struct table_log_request){.position = r->position, .record = {r->bytes, r->n}};
    return true;
}

static void commit(struct table_log *log, unsigned partition, const struct table_log_batch *batch)
{
    struct local *l = local_of(log);
    struct partition *p = &l->partitions[partition];
    struct errinfo ei = {0};

    p->is_committing = true;
    p->batch = batch;
    p->result = store_batch(l, p, batch, &ei);
    if (p->result != E_OK) {
        LOG_ERROR(LOG_TABLE, "table.log_failed", F_INT("partition", partition), F_TEXT("error", ei.text));
        p->result = p->result == E_LIMIT ? E_LIMIT : E_IO;
    }
    wake(l);
}

static void ask_end(struct table_log *log, unsigned partition)
{
    struct local *l = local_of(log);

    l->partitions[partition].is_asked = true;
    wake(l);
}

static const struct table_log_ops ops = {
    .attach = attach, .detach = detach, .append = append, .next = next, .commit = commit, .ask_end = ask_end};

/* --- opening --- */

static err read_partition(struct local *l, struct store_txn *txn, struct partition *p)
{
    struct table_bytes key;
    struct str value;
    err e;

    partition_key(p->number, &key);
    e = store_get(txn, l->meta, table_bytes_str(&key), &value);
    if (e != E_OK || value.n < 16)
        return e == E_NOTFOUND ? E_OK : e;
    p->next_offset = table_bytes_take_number(&value, 8);
    p->pruned_offset = table_bytes_take_number(&value, 8);
    return E_OK;
}

static err make(struct local *l, struct store_txn *txn)
{
    struct table_bytes head = {.n = 0};

    if (getrandom(l->identity, sizeof l->identity, 0) != sizeof l->identity)
        return E_IO;
    table_bytes_add_number(&head, FORM, 4);
    table_bytes_add_number(&head, l->n_partitions, 4);
    table_bytes_add(&head, l->identity, sizeof l->identity);
    return store_put(txn, l->meta, STR("log"), table_bytes_str(&head));
}

static err read_head(struct local *l, struct str head, const char *name, struct errinfo *ei)
{
    uint64_t form, n;

    if (head.n < 8 + sizeof l->identity)
        return errinfo_set(ei, E_PROTO, "the log of table %s is damaged", name);
    form = table_bytes_take_number(&head, 4);
    n = table_bytes_take_number(&head, 4);
    if (form != FORM)
        return errinfo_set(ei, E_INVAL, "the log of table %s was written by a later version", name);
    if (n != l->n_partitions)
        return errinfo_set(ei, E_INVAL, "the log of table %s has %u partitions, not %u; their number cannot change", name,
                           (unsigned)n, l->n_partitions);
    table_bytes_take(&head, l->identity, sizeof l->identity);
    return E_OK;
}

static err read_log(struct local *l, const char *name, struct errinfo *ei)
{
    struct store_txn txn;
    struct str head;
    err e = store_begin(l->store, &txn);

    if (e != E_OK)
        return errinfo_set(ei, e, "the log of table %s cannot be opened", name);
    e = store_get(&txn, l->meta, STR("log"), &head);
    if (e == E_NOTFOUND)
        e = make(l, &txn);
    else if (e == E_OK)
        e = read_head(l, head, name, ei);
    for (unsigned i = 0; i < l->n_partitions && e == E_OK; i++)
        e = read_partition(l, &txn, &l->partitions[i]);
    if (e == E_OK || txn.failed)
        return store_commit(&txn, ei);
    store_abort(&txn);
    return e;
}

static err open_databases(struct local *l, const char *name, struct errinfo *ei)
{
    const struct {
        const char *suffix;
        struct store_db *db;
    } list[] = {{"log", &l->states}, {"keys", &l->keys}, {"removals", &l->removals}, {"log.meta", &l->meta}};
    char full[NAME_BYTES];
    err e = E_OK;

    for (size_t i = 0; i < ARRAY_LEN(list) && e == E_OK; i++) {
        snprintf(full, sizeof full, "%s.%s", name, list[i].suffix);
        e = store_db_open(l->store, full, list[i].db, ei);
    }
    return e;
}

err table_log_local_open(struct store *store, const char *name, unsigned n_partitions, struct table_log **out_log,
                         struct errinfo *ei)
{
    struct local *l = mem_alloc_zero(MEM_TABLE, sizeof *l);
    err e;

    *l = (struct local){.log = {.ops = &ops}, .store = store, .n_partitions = n_partitions};
    l->partitions = mem_alloc_zero(MEM_TABLE, n_partitions * sizeof *l->partitions);
    for (unsigned i = 0; i < n_partitions; i++) {
        l->partitions[i].log = l;
        l->partitions[i].number = i;
        list_init(&l->partitions[i].requests);
        list_init(&l->partitions[i].taken);
    }
    e = open_databases(l, name, ei);
    if (e == E_OK)
        e = read_log(l, name, ei);
    if (e != E_OK) {
        table_log_local_close(&l->log);
        return e;
    }
    *out_log = &l->log;
    return E_OK;
}

void table_log_local_close(struct table_log *log)
{
    struct local *l;

    if (!log)
        return;
    l = local_of(log);
    for (unsigned i = 0; i < l->n_partitions; i++) {
        free_requests(l, &l->partitions[i].requests);
        free_requests(l, &l->partitions[i].taken);
    }
    mem_free(MEM_TABLE, l->positions);
    mem_free(MEM_TABLE, l->partitions);
    mem_free(MEM_TABLE, l);
}
