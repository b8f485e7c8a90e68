/* Writes, from whoever asks for them to their answers. */
#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/siphash.h"
#include "table/table_key.h"
#include "table/table_private.h"

enum { LIMIT_MS = 10000 };

static const struct {
    err result;
    enum table_count count;
} counts[] = {
    {E_OK, TABLE_WRITES_ACCEPTED}, {E_DENIED, TABLE_WRITES_REFUSED},  {E_TIMEOUT, TABLE_WRITES_TIMEOUT},
    {E_BUSY, TABLE_WRITES_BUSY},   {E_LIMIT, TABLE_WRITES_TOO_LARGE}, {E_CLOSED, TABLE_WRITES_CLOSED},
};

static enum table_count count_of(err result)
{
    for (size_t i = 0; i < ARRAY_LEN(counts); i++)
        if (counts[i].result == result)
            return counts[i].count;
    return TABLE_WRITES_FAILED;
}

static size_t charge_of(const struct table_write *w)
{
    return sizeof *w + w->partition_key.n + w->request.n;
}

static uint64_t hash_of(uint64_t id)
{
    return siphash((struct str){(const char *)&id, sizeof id});
}

static bool has_id(const void *entry, const void *key)
{
    return ((const struct table_write *)entry)->id == *(const uint64_t *)key;
}

/* Any thread. */
static void post(struct table *t, struct table_write *w, err result)
{
    table_metrics_add(t->metrics, count_of(result), 1);
    w->result = result;
    mailbox_post(w->home, &w->mail);
}

static void answer(struct table_write *w, err result)
{
    struct table *t = w->table;

    wheel_stop(&w->timer);
    list_remove(&w->link);
    if (w->id)
        map_remove(&t->writes, hash_of(w->id), w);
    mailbox_release(&t->loop.mailbox, charge_of(w));
    table_metrics_add(t->metrics, TABLE_WRITES_WAITING, (uint64_t)-1);
    w->mail.on_mail = w->on_answer;
    post(t, w, result);
}

static void on_timer(struct timer *timer)
{
    answer(CONTAINER_OF(timer, struct table_write, timer), E_TIMEOUT);
}

static err append(struct table *t, struct table_write *w)
{
    struct table_record_request request = {.id = w->id, .body = w->request};
    struct buf record = {0};
    err e;

    memcpy(request.instance, t->instance, sizeof request.instance);
    e = table_record_write_request(&record, &request);
    if (e == E_OK)
        e = table_log_append(t->log, w->partition, w->id, w->partition_key, buf_str(&record));
    else
        e = E_BUSY;
    buf_free(&record, MEM_TABLE);
    return e;
}

static void on_write(struct mail *m)
{
    struct table_write *w = CONTAINER_OF(m, struct table_write, mail);
    struct table *t = w->table;
    err e = E_CLOSED;

    table_metrics_add(t->metrics, TABLE_WRITES_WAITING, 1);
    if (!t->is_stopping) {
        w->id = ++t->next_id;
        map_add(&t->writes, MEM_TABLE, hash_of(w->id), w);
        w->timer = (struct timer){.on_timer = on_timer};
        wheel_start(&t->loop.wheel, &w->timer, LIMIT_MS);
        e = append(t, w);
    }
    if (e != E_OK)
        answer(w, e);
}

void table_write(struct table *t, struct table_write *w)
{
    const bool is_too_large = w->request.n > TABLE_REQUEST_MAX || w->partition_key.n > TABLE_KEY_MAX;

    w->table = t;
    w->id = 0;
    w->link = (struct list){0};
    w->timer = (struct timer){0};
    w->reply = (struct buf){0};
    w->partition = table_key_partition(w->partition_key, t->n_partitions);
    if (is_too_large || !mailbox_reserve(&t->loop.mailbox, charge_of(w))) {
        post(t, w, is_too_large ? E_LIMIT : E_BUSY);
        return;
    }
    w->on_answer = w->mail.on_mail;
    w->mail.on_mail = on_write;
    mailbox_post(&t->loop.mailbox, &w->mail);
}

void table_write_reply(struct table *t, struct str record)
{
    struct table_record_reply reply;
    struct table_write *w;

    /* Others' are as good as unreadable ones, and late ones as those of nobody. */
    if (table_record_read_reply(record, &reply) != E_OK || memcmp(reply.instance, t->instance, sizeof reply.instance) != 0)
        return;
    w = map_find(&t->writes, hash_of(reply.id), &reply.id, has_id);
    if (!w || list_is_linked(&w->link) || buf_append(&w->reply, MEM_TABLE, reply.body) != E_OK)
        return;
    if (reply.verdict == TABLE_RECORD_REFUSED) {
        answer(w, E_DENIED);
        return;
    }
    w->cause = reply.cause;
    w->base_offset = reply.base_offset;
    if (!reply.has_states || table_partition_has(&t->partitions[w->partition], w->base_offset, w->cause))
        answer(w, E_OK);
    else
        list_push(&t->partitions[w->partition].accepted, &w->link);
}

void table_write_applied(struct table_partition *p)
{
    while (!list_is_empty(&p->accepted)) {
        struct table_write *w = CONTAINER_OF(p->accepted.next, struct table_write, link);

        if (!table_partition_has(p, w->base_offset, w->cause))
            return;
        answer(w, E_OK);
    }
}

void table_write_lost(struct table *t, uint64_t id, err result)
{
    struct table_write *w = map_find(&t->writes, hash_of(id), &id, has_id);

    if (w)
        answer(w, result);
}

void table_write_close(struct table *t)
{
    uint32_t cursor = 0;
    struct table_write *w;

    while ((w = map_next(&t->writes, &cursor))) {
        answer(w, E_TIMEOUT);
        cursor = 0;
    }
    map_free(&t->writes, MEM_TABLE);
}
