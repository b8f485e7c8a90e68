#include "table/table_log_local.h"

#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "loop/loop.h"
#include "table/table_log_disk.h"

enum {
    AGAIN_MS = 1000, /* when the view takes nothing */
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
    const struct table_log_disk_partition *disk;
    uint64_t read_offset; /* the user has everything before */
    uint64_t next_position;
    struct list requests, taken;
    bool is_committing, is_asked;
    err result;
    const struct table_log_batch *batch;
};

struct local {
    struct table_log log;
    struct table_log_disk disk;
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

/* Hands out what the user has not got yet. False: it takes nothing now. */
static bool deliver_some(struct local *l, struct partition *p)
{
    struct table_log_disk_reader r;
    bool is_taken;

    if (table_log_disk_read(&l->disk, p->number, p->read_offset, &r) != E_OK)
        return false;
    is_taken = l->user->on_states(l->user->context, p->number, r.states, r.n, r.next_offset);
    if (is_taken)
        p->read_offset = r.next_offset;
    table_log_disk_end_read(&r);
    return is_taken;
}

/* Everything that has been committed is in the view before anybody is told. */
static bool deliver(struct local *l, struct partition *p)
{
    while (p->read_offset < p->disk->next_offset)
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
    if (memcmp(at->identity, l->disk.identity, sizeof at->identity) == 0 && at->next_offset <= p->disk->next_offset &&
        at->next_offset >= p->disk->pruned_offset)
        return true;
    memcpy(begin.identity, l->disk.identity, sizeof begin.identity);
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
        l->user->on_owner(l->user->context, i, true, l->partitions[i].disk->next_offset);
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
        user->on_end(user->context, p->number, E_OK, p->disk->next_offset);
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
    p->result = table_log_disk_add(&l->disk, partition, batch, p->read_offset, &ei);
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

/* --- life --- */

err table_log_local_open(struct store *store, const char *name, unsigned n_partitions, struct table_log **out_log,
                         struct errinfo *ei)
{
    struct local *l = mem_alloc_zero(MEM_TABLE, sizeof *l);
    err e;

    *l = (struct local){.log = {.ops = &ops}, .n_partitions = n_partitions};
    e = table_log_disk_open(&l->disk, store, name, n_partitions, ei);
    l->partitions = mem_alloc_zero(MEM_TABLE, n_partitions * sizeof *l->partitions);
    for (unsigned i = 0; i < n_partitions; i++) {
        l->partitions[i].log = l;
        l->partitions[i].number = i;
        l->partitions[i].disk = &l->disk.partitions[i];
        list_init(&l->partitions[i].requests);
        list_init(&l->partitions[i].taken);
    }
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
    table_log_disk_close(&l->disk);
    mem_free(MEM_TABLE, l);
}
