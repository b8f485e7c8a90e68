/* Barriers: who waits until the view has what is in the log. All that come while the log is being asked for its end share
 * the next question, so there is never more than one for a partition. */
#include "base/check.h"
#include "base/log.h"
#include "table/table_key.h"
#include "table/table_private.h"

static void answer(struct table_barrier *b, err result)
{
    wheel_stop(&b->timer);
    list_remove(&b->link);
    b->mail.on_mail = b->on_answer;
    b->result = result;
    mailbox_post(b->home, &b->mail);
}

static void on_timer(struct timer *timer)
{
    answer(CONTAINER_OF(timer, struct table_barrier, timer), E_TIMEOUT);
}

static void on_barrier(struct mail *m)
{
    struct table_barrier *b = CONTAINER_OF(m, struct table_barrier, mail);
    struct table *t = b->table;
    struct table_partition *p = &t->partitions[b->partition];

    if (t->is_stopping) {
        answer(b, E_CLOSED);
        return;
    }
    b->timer.on_timer = on_timer;
    wheel_start(&t->loop.wheel, &b->timer, b->limit_ms);
    list_push(&p->unasked, &b->link);
    table_barrier_ask(p);
}

void table_catch_up(struct table *t, struct str partition_key, uint32_t limit_ms, struct table_barrier *barrier)
{
    barrier->table = t;
    barrier->link = (struct list){0};
    barrier->timer = (struct timer){0};
    barrier->limit_ms = limit_ms;
    barrier->partition = table_key_partition(partition_key, t->n_partitions);
    barrier->on_answer = barrier->mail.on_mail;
    barrier->mail.on_mail = on_barrier;
    mailbox_post(&t->loop.mailbox, &barrier->mail);
}

void table_barrier_ask(struct table_partition *p)
{
    if (p->is_asking)
        return;
    p->is_asking = true;
    list_move(&p->asked, &p->unasked);
    table_log_ask_end(p->table->log, p->number);
}

static void note_lag(struct table_partition *p, uint64_t end_offset)
{
    uint64_t next = table_partition_next_offset(p), lag = end_offset > next ? end_offset - next : 0;

    table_metrics_add(p->table->metrics, TABLE_LAG, lag - p->lag);
    p->lag = lag;
    if (lag == 0)
        p->table->view.positions[p->number].at_end_ms = loop_wall_ms();
}

/* The view has reached the end that the log had when it was opened. */
static void check_opened(struct table_partition *p)
{
    struct table *t = p->table;

    if (!p->is_opening || !p->has_opening_end || table_partition_next_offset(p) < p->opening_end)
        return;
    p->is_opening = false;
    if (--t->n_opening > 0)
        return;
    LOG_INFO(LOG_TABLE, "table.opened", F_TEXT("table", t->name));
    if (t->opened)
        mailbox_post(t->opened_home, t->opened);
    t->opened = NULL;
}

void table_barrier_end(struct table_partition *p, err result, uint64_t end_offset)
{
    struct list *link;

    p->is_asking = false;
    if (result == E_OK)
        note_lag(p, end_offset);
    while ((link = list_pop(&p->asked))) {
        struct table_barrier *b = CONTAINER_OF(link, struct table_barrier, link);

        b->end_offset = end_offset;
        if (result == E_OK)
            list_push(&p->reaching, link);
        else
            list_push(&p->unasked, link); /* until its time is over */
    }
    if (p->is_opening && !p->has_opening_end && result == E_OK) {
        p->has_opening_end = true;
        p->opening_end = end_offset;
    }
    table_barrier_applied(p);
    if (!list_is_empty(&p->unasked) || (p->is_opening && !p->has_opening_end))
        table_barrier_ask(p);
}

void table_barrier_applied(struct table_partition *p)
{
    uint64_t next = table_partition_next_offset(p);
    struct list *link = p->reaching.next;

    while (link != &p->reaching) {
        struct table_barrier *b = CONTAINER_OF(link, struct table_barrier, link);

        link = link->next;
        if (b->end_offset <= next)
            answer(b, E_OK);
    }
    check_opened(p);
}

static void close_list(struct list *list)
{
    while (!list_is_empty(list))
        answer(CONTAINER_OF(list->next, struct table_barrier, link), E_CLOSED);
}

void table_barrier_close(struct table *t)
{
    for (unsigned i = 0; i < t->n_partitions; i++) {
        close_list(&t->partitions[i].unasked);
        close_list(&t->partitions[i].asked);
        close_list(&t->partitions[i].reaching);
    }
}
