#include "fanout/fanout_park_index.h"

#include "base/check.h"

enum {
    NUMBER_BYTES = 8,
    DUE_BYTES = 3 * NUMBER_BYTES,
    ATTEMPTS_BYTES = 4,
    STATE_BYTES = NUMBER_BYTES + ATTEMPTS_BYTES + NUMBER_BYTES,
    /* The file is larger than what lies in it: whole pages, space that a reader still holds, the trees. */
    FILE_FACTOR = 3,
    FILE_EXTRA_BYTES = 64 << 20,
};

/* Highest byte first, so that keys sort as numbers do. */
static void put_number(char *to, uint64_t value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (char)(unsigned char)(value >> 8 * (n - 1 - i));
}

static uint64_t get_number(const char *from, size_t n)
{
    uint64_t value = 0;

    for (size_t i = 0; i < n; i++)
        value = value << 8 | (unsigned char)from[i];
    return value;
}

struct key {
    char bytes[DUE_BYTES];
};

static struct str number_key(struct key *key, uint64_t number)
{
    put_number(key->bytes, number, NUMBER_BYTES);
    return (struct str){key->bytes, NUMBER_BYTES};
}

static struct str due_key(struct key *key, uint64_t number, const struct fanout_park_state *state)
{
    put_number(key->bytes, state->lane, NUMBER_BYTES);
    put_number(key->bytes + NUMBER_BYTES, state->due_ms, NUMBER_BYTES);
    put_number(key->bytes + 2 * NUMBER_BYTES, number, NUMBER_BYTES);
    return (struct str){key->bytes, DUE_BYTES};
}

/* ---- opening ---- */

/* Counts what is there. */
static err count(struct fanout_park_index *index, struct store_txn *reader)
{
    struct store_cursor c;
    err e = store_cursor_open(reader, index->events, &c);

    if (e != E_OK)
        return e;
    index->next_number = 1;
    for (e = store_cursor_seek(&c, (struct str){0}); e == E_OK; e = store_cursor_next(&c)) {
        index->n++;
        index->bytes += c.value.n;
        if (c.key.n == NUMBER_BYTES)
            index->next_number = get_number(c.key.p, NUMBER_BYTES) + 1;
    }
    store_cursor_close(&c);
    return e == E_NOTFOUND ? E_OK : e;
}

static err open_databases(struct fanout_park_index *index, struct errinfo *ei)
{
    struct store_txn reader;
    err e = store_db_open(index->store, "events", &index->events, ei);

    if (e == E_OK)
        e = store_db_open(index->store, "states", &index->states, ei);
    if (e == E_OK)
        e = store_db_open(index->store, "due", &index->due, ei);
    if (e != E_OK)
        return e;
    e = store_reader_open(index->store, &reader);
    if (e == E_OK) {
        e = count(index, &reader);
        store_reader_close(&reader);
    }
    return e == E_OK ? E_OK : errinfo_set(ei, e, "the parked events cannot be read");
}

err fanout_park_index_open(struct fanout_park_index *index, const char *path, uint64_t max_bytes, struct errinfo *ei)
{
    const struct store_options options = {
        .path = path, .max_bytes = max_bytes * FILE_FACTOR + FILE_EXTRA_BYTES, .durability = STORE_DURABLE};
    err e;

    *index = (struct fanout_park_index){.max_bytes = max_bytes};
    e = store_open(&options, &index->store, ei);
    if (e != E_OK)
        return e;
    e = open_databases(index, ei);
    if (e != E_OK)
        fanout_park_index_close(index);
    return e;
}

void fanout_park_index_close(struct fanout_park_index *index)
{
    store_close(index->store);
    *index = (struct fanout_park_index){0};
}

/* ---- changing ---- */

err fanout_park_index_begin(struct fanout_park_index *index, struct fanout_park_change *change)
{
    *change =
        (struct fanout_park_change){.index = index, .n = index->n, .bytes = index->bytes, .next_number = index->next_number};
    return store_begin(index->store, &change->txn);
}

static err put_state(struct fanout_park_change *change, uint64_t number, const struct fanout_park_state *state)
{
    struct key key;
    char value[STATE_BYTES];
    err e;

    put_number(value, state->due_ms, NUMBER_BYTES);
    put_number(value + NUMBER_BYTES, state->attempts, ATTEMPTS_BYTES);
    put_number(value + NUMBER_BYTES + ATTEMPTS_BYTES, state->lane, NUMBER_BYTES);
    e = store_put(&change->txn, change->index->states, number_key(&key, number), (struct str){value, sizeof value});
    return e == E_OK ? store_put(&change->txn, change->index->due, due_key(&key, number, state), STR("")) : e;
}

static err get_state(struct store_txn *txn, struct fanout_park_index *index, uint64_t number,
                     struct fanout_park_state *out_state)
{
    struct key key;
    struct str value;
    err e = store_get(txn, index->states, number_key(&key, number), &value);

    if (e != E_OK)
        return e;
    if (value.n != STATE_BYTES)
        return E_PROTO;
    out_state->due_ms = get_number(value.p, NUMBER_BYTES);
    out_state->attempts = (uint32_t)get_number(value.p + NUMBER_BYTES, ATTEMPTS_BYTES);
    out_state->lane = get_number(value.p + NUMBER_BYTES + ATTEMPTS_BYTES, NUMBER_BYTES);
    return E_OK;
}

err fanout_park_index_add(struct fanout_park_change *change, struct str record, uint64_t lane, uint64_t due_ms)
{
    const struct fanout_park_state state = {.due_ms = due_ms, .lane = lane};
    struct key key;
    err e;

    if (record.n > change->index->max_bytes || change->bytes > change->index->max_bytes - record.n)
        return E_LIMIT;
    e = store_put(&change->txn, change->index->events, number_key(&key, change->next_number), record);
    if (e == E_OK)
        e = put_state(change, change->next_number, &state);
    change->next_number++;
    change->n++;
    change->bytes += record.n;
    return e;
}

err fanout_park_index_remove(struct fanout_park_change *change, uint64_t number)
{
    struct fanout_park_index *index = change->index;
    struct fanout_park_state state;
    struct str record;
    struct key key;
    err e = store_get(&change->txn, index->events, number_key(&key, number), &record);

    if (e == E_OK)
        e = get_state(&change->txn, index, number, &state);
    if (e != E_OK)
        return e == E_NOTFOUND ? E_OK : e;
    change->n--;
    change->bytes -= record.n;
    e = store_remove(&change->txn, index->events, number_key(&key, number));
    if (e == E_OK)
        e = store_remove(&change->txn, index->states, number_key(&key, number));
    return e == E_OK ? store_remove(&change->txn, index->due, due_key(&key, number, &state)) : e;
}

/* Another due time, and so many more attempts in vain. */
static err move(struct fanout_park_change *change, uint64_t number, uint64_t due_ms, uint32_t n_attempts)
{
    struct fanout_park_state state;
    struct key key;
    err e = get_state(&change->txn, change->index, number, &state);

    if (e != E_OK)
        return e == E_NOTFOUND ? E_OK : e;
    e = store_remove(&change->txn, change->index->due, due_key(&key, number, &state));
    if (e != E_OK)
        return e;
    state.due_ms = due_ms;
    state.attempts += n_attempts;
    return put_state(change, number, &state);
}

err fanout_park_index_postpone(struct fanout_park_change *change, uint64_t number, uint64_t due_ms)
{
    return move(change, number, due_ms, 1);
}

err fanout_park_index_hasten(struct fanout_park_change *change, uint64_t number, uint64_t due_ms)
{
    return move(change, number, due_ms, 0);
}

err fanout_park_index_commit(struct fanout_park_change *change, struct errinfo *ei)
{
    struct fanout_park_index *index = change->index;
    err e = store_commit(&change->txn, ei);

    if (e != E_OK)
        return e;
    index->n = change->n;
    index->bytes = change->bytes;
    index->next_number = change->next_number;
    return E_OK;
}

/* ---- reading ---- */

err fanout_park_index_walk(struct fanout_park_index *index, struct store_txn *reader, bool is_by_lane,
                           struct fanout_park_walk *walk)
{
    *walk = (struct fanout_park_walk){.index = index, .reader = reader, .is_by_lane = is_by_lane};
    return store_cursor_open(reader, is_by_lane ? index->due : index->states, &walk->cursor);
}

/* What the cursor has come to; the number is the last part of either key. */
static err take(struct fanout_park_walk *walk, err e)
{
    const struct str *key = &walk->cursor.key;

    walk->is_begun = true;
    if (e != E_OK)
        return e;
    if (key->n != (walk->is_by_lane ? DUE_BYTES : NUMBER_BYTES))
        return E_PROTO;
    walk->number = get_number(key->p + key->n - NUMBER_BYTES, NUMBER_BYTES);
    return get_state(walk->reader, walk->index, walk->number, &walk->state);
}

err fanout_park_index_next(struct fanout_park_walk *walk)
{
    struct store_cursor *c = &walk->cursor;

    return take(walk, walk->is_begun ? store_cursor_next(c) : store_cursor_seek(c, (struct str){0}));
}

err fanout_park_index_seek(struct fanout_park_walk *walk, uint64_t lane)
{
    struct key key;

    return take(walk, store_cursor_seek(&walk->cursor, number_key(&key, lane)));
}

err fanout_park_index_find(struct fanout_park_walk *walk, uint64_t number)
{
    struct key key;
    err e = take(walk, store_cursor_seek(&walk->cursor, number_key(&key, number)));

    return e == E_OK && walk->number != number ? E_NOTFOUND : e;
}

err fanout_park_index_read(struct fanout_park_walk *walk, struct str *out_record)
{
    struct key key;

    return store_get(walk->reader, walk->index->events, number_key(&key, walk->number), out_record);
}

void fanout_park_index_end(struct fanout_park_walk *walk)
{
    store_cursor_close(&walk->cursor);
}
