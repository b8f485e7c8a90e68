/* The owner of a partition: decides requests in their order, over the view and what the batch has changed so far, and
 * commits the batch. One batch is under way at a time, and the next begins when the view has the states of the last: so the
 * view and the batch together are everything that was decided. */
#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "table/table_key.h"
#include "table/table_private.h"

enum {
    BATCH_REQUESTS = 512,
    BATCH_BYTES = 1 << 20,   /* of states; then the batch is complete */
    REQUEST_BYTES = 8 << 20, /* of one request's states */
    REQUEST_CHANGES = 20000,
};

struct table_txn {
    struct table_partition *partition;
    size_t first_change; /* of this request */
    size_t first_bytes;
    bool has_failed;
};

static int compare(struct str a, struct str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n ? memcmp(a.p, b.p, n) : 0;

    return order ? order : (a.n > b.n) - (a.n < b.n);
}

/* The place of the first key that is not before this one. */
static size_t place_of(const struct table_owner *o, struct str store_key)
{
    size_t low = 0, high = o->n_sorted;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (compare(o->changes[o->sorted[middle]].store_key, store_key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct table_owner_change *change_at(const struct table_owner *o, size_t place)
{
    return place < o->n_sorted ? &o->changes[o->sorted[place]] : NULL;
}

static struct table_owner_change *find(const struct table_owner *o, struct str store_key)
{
    struct table_owner_change *c = change_at(o, place_of(o, store_key));

    return c && str_equal(c->store_key, store_key) ? c : NULL;
}

/* --- what decide() may call --- */

bool table_txn_get(struct table_txn *txn, struct str key, struct str *out_value)
{
    struct table_partition *p = txn->partition;
    struct table_owner_change *c;
    struct table_bytes store_key;
    struct table_item item;

    if (key.n == 0 || key.n > TABLE_KEY_MAX)
        return false;
    table_key_make(p->number, key, &store_key);
    c = find(&p->owner, table_bytes_str(&store_key));
    if (c) {
        *out_value = c->value;
        return c->value.p != NULL;
    }
    if (!table_view_get(&p->owner.reader, &p->table->view, p->number, key, &item))
        return false;
    *out_value = item.value;
    return true;
}

static void make_room(struct table_owner *o)
{
    size_t room = o->n_changes_room ? 2 * o->n_changes_room : 64;
    struct table_owner_change *changes;
    size_t *sorted;

    if (o->n_changes < o->n_changes_room)
        return;
    changes = mem_alloc(MEM_TABLE, room * sizeof *changes);
    sorted = mem_alloc(MEM_TABLE, room * sizeof *sorted);
    if (o->n_changes) {
        memcpy(changes, o->changes, o->n_changes * sizeof *changes);
        memcpy(sorted, o->sorted, o->n_sorted * sizeof *sorted);
    }
    mem_free(MEM_TABLE, o->changes);
    mem_free(MEM_TABLE, o->sorted);
    o->changes = changes;
    o->sorted = sorted;
    o->n_changes_room = room;
}

/* An empty value is one, and must not look like none. */
static struct str copy_value(struct table_owner *o, struct str value)
{
    return value.p ? arena_copy(&o->arena, MEM_TABLE, value) : value;
}

static void add_change(struct table_txn *txn, struct str key, struct str store_key, struct str value)
{
    struct table_owner *o = &txn->partition->owner;
    size_t place = place_of(o, store_key);
    struct table_owner_change *before = change_at(o, place);
    bool is_known = before && str_equal(before->store_key, store_key);

    o->bytes += key.n + value.n + TABLE_RECORD_OVERHEAD_BYTES;
    if (is_known && before->request == o->n_requests) {
        before->value = copy_value(o, value);
        return;
    }
    make_room(o);
    o->changes[o->n_changes] = (struct table_owner_change){
        .key = arena_copy(&o->arena, MEM_TABLE, key),
        .store_key = arena_copy(&o->arena, MEM_TABLE, store_key),
        .value = copy_value(o, value),
        .request = o->n_requests,
        .before = is_known ? o->sorted[place] + 1 : 0,
    };
    if (!is_known) {
        memmove(&o->sorted[place + 1], &o->sorted[place], (o->n_sorted - place) * sizeof *o->sorted);
        o->n_sorted++;
    }
    o->sorted[place] = o->n_changes++;
}

static err check(const struct table_txn *txn, struct str key, struct str value)
{
    struct table_partition *p = txn->partition;
    const struct table_owner *o = &p->owner;

    if (key.n == 0 || key.p[0] == 0)
        return E_INVAL;
    if (key.n > TABLE_KEY_MAX || value.n > TABLE_VALUE_MAX || o->n_changes - txn->first_change >= REQUEST_CHANGES ||
        o->bytes - txn->first_bytes + key.n + value.n > REQUEST_BYTES)
        return E_LIMIT;
    return table_view_is_foreign(&p->owner.reader, &p->table->view, p->number, key) ? E_BUSY : E_OK;
}

static err change(struct table_txn *txn, struct str key, struct str value)
{
    struct table_bytes store_key;
    err e = check(txn, key, value);

    if (e != E_OK) {
        txn->has_failed = true;
        return e;
    }
    table_key_make(txn->partition->number, key, &store_key);
    add_change(txn, key, table_bytes_str(&store_key), value);
    return E_OK;
}

err table_txn_put(struct table_txn *txn, struct str key, struct str value)
{
    return change(txn, key, value.p ? value : STR(""));
}

err table_txn_remove(struct table_txn *txn, struct str key)
{
    struct str value;

    if (!table_txn_get(txn, key, &value) &&
        !table_view_is_foreign(&txn->partition->owner.reader, &txn->partition->table->view, txn->partition->number, key))
        return E_OK;
    return change(txn, key, (struct str){0});
}

/* The first change behind `after` of a key with the prefix. */
static struct table_owner_change *next_change(const struct table_partition *p, struct str prefix, struct str after)
{
    const struct table_owner *o = &p->owner;
    const struct str head_key = {prefix.p, prefix.n < TABLE_KEY_PLAIN ? prefix.n : TABLE_KEY_PLAIN};
    struct table_bytes head, behind;
    struct table_owner_change *c;
    size_t place;

    table_key_make(p->number, head_key, &head);
    table_key_make(p->number, after, &behind);
    place = place_of(o, table_bytes_str(&head));
    while ((c = change_at(o, place++)) && str_starts_with(c->store_key, table_bytes_str(&head)))
        if (str_starts_with(c->key, prefix) && (after.n == 0 || compare(c->store_key, table_bytes_str(&behind)) > 0))
            return c;
    return NULL;
}

static int compare_keys(unsigned partition, struct str a, struct str b)
{
    struct table_bytes store_a, store_b;

    table_key_make(partition, a, &store_a);
    table_key_make(partition, b, &store_b);
    return compare(table_bytes_str(&store_a), table_bytes_str(&store_b));
}

bool table_txn_next(struct table_txn *txn, struct str prefix, struct str after, struct table_item *out_item)
{
    struct table_partition *p = txn->partition;

    if (after.n > TABLE_KEY_MAX)
        return false;
    for (;;) {
        struct table_owner_change *c = next_change(p, prefix, after);
        bool is_found = table_view_next(&p->owner.reader, &p->table->view, p->number, prefix, after, out_item);

        if (!c || (is_found && compare_keys(p->number, out_item->key, c->key) < 0))
            return is_found;
        if (c->value.p) {
            *out_item = (struct table_item){.key = c->key, .value = c->value};
            return true;
        }
        after = c->key;
    }
}

/* --- the batch --- */

/* Undoes what a request has changed. */
static void roll_back(struct table_owner *o, const struct table_txn *txn)
{
    while (o->n_changes > txn->first_change) {
        struct table_owner_change *c = &o->changes[--o->n_changes];
        size_t place = place_of(o, c->store_key);

        if (c->before) {
            o->sorted[place] = c->before - 1;
        } else {
            o->n_sorted--;
            memmove(&o->sorted[place], &o->sorted[place + 1], (o->n_sorted - place) * sizeof *o->sorted);
        }
    }
    o->bytes = txn->first_bytes;
}

static struct str keep(struct table_owner *o, struct buf *record)
{
    struct str kept = arena_copy(&o->arena, MEM_TABLE, buf_str(record));

    buf_free(record, MEM_TABLE);
    return kept;
}

/* The states' records, when the request was accepted. */
static void write_states(struct table_owner *o, const struct table_txn *txn)
{
    for (size_t i = txn->first_change; i < o->n_changes; i++) {
        struct buf record = {0};

        if (!o->changes[i].value.p)
            continue;
        ASSERT(table_record_write_state(&record, o->changes[i].value) == E_OK); /* its size is bounded by ours */
        o->changes[i].record = keep(o, &record);
    }
}

static bool decide(struct table_partition *p, struct table_txn *txn, const struct table_record_request *request,
                   struct buf *reply)
{
    enum table_verdict verdict = p->table->ops->decide(p->table->context, txn, request->body, reply);

    if (buf_size(reply) > TABLE_REPLY_MAX) {
        buf_free(reply, MEM_TABLE);
        txn->has_failed = true;
    }
    return verdict == TABLE_ACCEPTED && !txn->has_failed;
}

static void take(struct table_partition *p, const struct table_log_request *taken, struct str *out_reply)
{
    struct table_owner *o = &p->owner;
    struct table_txn txn = {.partition = p, .first_change = o->n_changes, .first_bytes = o->bytes};
    struct table_record_request request = {.id = 0};
    struct table_record_reply reply = {.verdict = TABLE_RECORD_REFUSED, .cause = taken->position};
    struct buf body = {0}, record = {0};
    err e = table_record_read_request(taken->record, &request);

    reply.base_offset = table_partition_next_offset(p);
    *out_reply = (struct str){0};
    if (e != E_OK)
        table_metrics_add(p->table->metrics, TABLE_SKIPPED, 1);
    if (e == E_INVAL)
        return; /* nobody's */
    /* Of a later version: refused, and its writer learns it. */
    if (e == E_OK && decide(p, &txn, &request, &body)) {
        reply.verdict = TABLE_RECORD_ACCEPTED;
        write_states(o, &txn);
    } else {
        roll_back(o, &txn);
    }
    reply.has_states = o->n_changes > txn.first_change;
    if (reply.has_states) {
        o->last_cause = reply.cause;
        o->last_base = reply.base_offset;
        o->is_waiting = true;
    }
    reply.body = buf_str(&body);
    reply.id = o->requests[o->n_requests].id = request.id;
    memcpy(reply.instance, request.instance, sizeof reply.instance);
    memcpy(o->requests[o->n_requests].instance, request.instance, sizeof request.instance);
    ASSERT(table_record_write_reply(&record, &reply) == E_OK);
    *out_reply = keep(o, &record);
    buf_free(&body, MEM_TABLE);
}

static void begin(struct table_owner *o)
{
    o->n_changes = o->n_sorted = o->n_requests = 0;
    o->bytes = 0;
    o->is_waiting = false;
    o->requests = arena_alloc(&o->arena, MEM_TABLE, BATCH_REQUESTS * sizeof *o->requests);
}

static void end(struct table_owner *o)
{
    arena_free(&o->arena, MEM_TABLE);
    o->requests = NULL;
    o->n_requests = o->n_changes = o->n_sorted = 0;
    o->batch = (struct table_log_batch){.n_states = 0};
}

static void commit(struct table_partition *p, const struct str *replies, size_t n_replies)
{
    struct table_owner *o = &p->owner;
    struct table_log_state *states = arena_alloc(&o->arena, MEM_TABLE, (o->n_changes + 1) * sizeof *states);
    size_t n = o->n_changes;

    for (size_t i = 0; i < n; i++)
        states[i] = (struct table_log_state){.key = o->changes[i].key, .value = o->changes[i].record};
    if (n > 0) {
        struct buf mark = {0};

        ASSERT(table_record_write_mark(&mark, o->last_cause) == E_OK);
        states[n++] = (struct table_log_state){.key = STR(TABLE_RECORD_MARK_KEY), .value = keep(o, &mark)};
    }
    o->batch = (struct table_log_batch){.states = states, .n_states = n, .replies = replies, .n_replies = n_replies};
    o->is_committing = true;
    table_log_commit(p->table->log, p->number, &o->batch);
}

static bool is_ready(const struct table_partition *p)
{
    const struct table_owner *o = &p->owner;

    return o->is_owner && !o->is_committing && table_partition_next_offset(p) >= o->from_offset &&
           (!o->is_waiting || table_partition_has(p, o->last_base, o->last_cause));
}

static err look(struct table_owner *o, struct table *t)
{
    return o->reader.lmdb ? store_reader_renew(&o->reader) : store_reader_open(t->view.store, &o->reader);
}

void table_owner_run(struct table_partition *p)
{
    struct table_owner *o = &p->owner;
    struct table_log_request request;
    struct str *replies, reply;
    size_t n_replies = 0;

    if (!is_ready(p) || look(o, p->table) != E_OK)
        return;
    begin(o);
    replies = arena_alloc(&o->arena, MEM_TABLE, BATCH_REQUESTS * sizeof *replies);
    while (o->n_requests < BATCH_REQUESTS && o->bytes < BATCH_BYTES && table_log_next(p->table->log, p->number, &request)) {
        take(p, &request, &reply);
        o->n_requests++;
        if (reply.p)
            replies[n_replies++] = reply;
    }
    store_reader_rest(&o->reader);
    if (o->n_requests > 0)
        commit(p, replies, n_replies);
    else
        end(o);
}

void table_owner_set(struct table_partition *p, bool is_owner, uint64_t from_offset)
{
    struct table_owner *o = &p->owner;

    if (is_owner != o->is_owner) {
        LOG_INFO(LOG_TABLE, "table.owner", F_TEXT("table", p->table->name), F_INT("partition", p->number),
                 F_INT("is_owner", is_owner));
        table_metrics_add(p->table->metrics, TABLE_OWNED, is_owner ? 1 : (uint64_t)-1);
    }
    o->is_owner = is_owner;
    o->from_offset = from_offset;
    o->is_waiting = o->is_waiting && o->is_committing;
    table_owner_run(p);
}

static void tell_writers(struct table_partition *p, err result)
{
    const struct table_owner *o = &p->owner;

    for (size_t i = 0; i < o->n_requests; i++)
        if (memcmp(o->requests[i].instance, p->table->instance, sizeof p->table->instance) == 0)
            table_write_lost(p->table, o->requests[i].id, result);
}

void table_owner_committed(struct table_partition *p, err result)
{
    struct table_owner *o = &p->owner;
    struct table *t = p->table;

    o->is_committing = false;
    table_metrics_add(t->metrics,
                      result == E_OK       ? TABLE_BATCHES
                      : result == E_DENIED ? TABLE_BATCHES_FENCED
                                           : TABLE_BATCHES_FAILED,
                      1);
    if (result != E_OK) {
        o->is_waiting = false;
        LOG_WARN(LOG_TABLE, "table.batch_undone", F_TEXT("table", t->name), F_INT("partition", p->number),
                 F_TEXT("reason", err_name(result)), F_INT("requests", o->n_requests));
    }
    if (result != E_OK && result != E_AGAIN && result != E_DENIED)
        tell_writers(p, E_IO);
    end(o);
    table_owner_run(p);
}

void table_owner_free(struct table_partition *p)
{
    struct table_owner *o = &p->owner;

    end(o);
    store_reader_close(&o->reader);
    mem_free(MEM_TABLE, o->changes);
    mem_free(MEM_TABLE, o->sorted);
    *o = (struct table_owner){.is_owner = false};
}
