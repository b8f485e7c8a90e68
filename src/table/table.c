#include "table/table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "loop/thread.h"
#include "table/table_key.h"
#include "table/table_private.h"

enum {
    WAITING_BYTES = 32 << 20, /* of writes that nobody has decided yet */
    NOTE_MS = 60 * 1000,
    STOP_MS = 1000,
    STOP_LOOK_MS = 5,
};

/* --- what the log says --- */

static struct table_partition *partition_of(void *context, unsigned number)
{
    struct table *t = context;

    ASSERT(number < t->n_partitions);
    return &t->partitions[number];
}

static void note_failure(const struct table_partition *p, const struct errinfo *ei)
{
    LOG_ERROR(LOG_TABLE, "table.view_failed", F_TEXT("table", p->table->name), F_INT("partition", p->number),
              F_TEXT("error", ei->text));
}

static bool on_reset(void *context, unsigned partition, const struct table_log_position *begin)
{
    struct table_partition *p = partition_of(context, partition);
    struct table *t = p->table;
    struct errinfo ei = {0};
    bool had_something = t->view.positions[partition].next_offset > 0;

    if (t->is_stopped)
        return true;
    if (table_view_reset(&t->view, partition, begin, &ei) != E_OK) {
        note_failure(p, &ei);
        return false;
    }
    p->has_applied = false;
    if (had_something) {
        LOG_WARN(LOG_TABLE, "table.rebuild", F_TEXT("table", t->name), F_INT("partition", partition));
        table_metrics_add(t->metrics, TABLE_REBUILDS, 1);
    }
    if (had_something && t->ops->on_rebuild)
        t->ops->on_rebuild(t->context, partition);
    return true;
}

static void tell(struct table_partition *p, const struct table_log_state *state)
{
    const struct table *t = p->table;
    struct table_change change = {.partition = p->number, .offset = state->offset, .key = state->key};

    if (t->ops->on_applied && (!state->value.p || table_record_read_state(state->value, &change.value) == E_OK))
        t->ops->on_applied(t->context, &change);
}

/* After what has been applied is there for all readers. */
static void note_applied(struct table_partition *p, const struct table_log_state *states, size_t n,
                         const enum table_view_result *results)
{
    for (size_t i = 0; i < n; i++) {
        if (results[i] == TABLE_VIEW_MARK) {
            if (table_record_read_mark(states[i].value, &p->applied_cause) == E_OK) {
                p->has_applied = true;
                p->applied_offset = states[i].offset;
            }
            continue;
        }
        table_metrics_add(p->table->metrics, results[i] == TABLE_VIEW_SKIPPED ? TABLE_SKIPPED : TABLE_APPLIED, 1);
        if (results[i] == TABLE_VIEW_APPLIED)
            tell(p, &states[i]);
    }
}

static bool on_states(void *context, unsigned partition, const struct table_log_state *states, size_t n, uint64_t next_offset)
{
    struct table_partition *p = partition_of(context, partition);
    struct table *t = p->table;
    enum table_view_result few[64], *results = few;
    struct errinfo ei = {0};
    bool is_applied;

    if (t->is_stopped)
        return true;
    if (n == 0)
        t->view.positions[partition].at_end_ms = loop_wall_ms();
    if (next_offset <= table_partition_next_offset(p))
        return true;
    if (n > ARRAY_LEN(few))
        results = mem_alloc(MEM_TABLE, n * sizeof *results);
    is_applied = table_view_apply(&t->view, partition, states, n, next_offset, results, &ei) == E_OK;
    if (is_applied)
        note_applied(p, states, n, results);
    else
        note_failure(p, &ei);
    if (results != few)
        mem_free(MEM_TABLE, results);
    if (!is_applied)
        return false;
    table_write_applied(p);
    table_barrier_applied(p);
    table_owner_run(p);
    return true;
}

static void on_owner(void *context, unsigned partition, bool is_owner, uint64_t end_offset)
{
    struct table_partition *p = partition_of(context, partition);

    if (!p->table->is_stopped)
        table_owner_set(p, is_owner, end_offset);
}

static void on_requests(void *context, unsigned partition)
{
    struct table_partition *p = partition_of(context, partition);

    if (!p->table->is_stopped)
        table_owner_run(p);
}

static void on_committed(void *context, unsigned partition, err result)
{
    struct table_partition *p = partition_of(context, partition);

    if (!p->table->is_stopped)
        table_owner_committed(p, result);
}

static void on_reply(void *context, struct str record)
{
    struct table *t = context;

    if (!t->is_stopped)
        table_write_reply(t, record);
}

static void on_lost(void *context, uint64_t id, err result)
{
    struct table *t = context;

    if (!t->is_stopped)
        table_write_lost(t, id, result);
}

static void on_end(void *context, unsigned partition, err result, uint64_t end_offset)
{
    struct table_partition *p = partition_of(context, partition);

    if (!p->table->is_stopped)
        table_barrier_end(p, result, end_offset);
}

/* --- its thread --- */

/* When the view was last complete decides whether it may go on after a long absence; it is written with the states, and here
 * when there are none. */
static void on_note(struct timer *timer)
{
    struct table *t = CONTAINER_OF(timer, struct table, note_timer);
    struct errinfo ei = {0};

    if (table_view_note(&t->view, &ei) != E_OK)
        note_failure(&t->partitions[0], &ei);
    for (unsigned i = 0; i < t->n_partitions; i++)
        table_barrier_ask(&t->partitions[i]);
    wheel_start(&t->loop.wheel, timer, NOTE_MS);
}

/* What has been asked for may still be decided; it takes a moment. */
static void on_stop_look(struct timer *timer)
{
    struct table *t = CONTAINER_OF(timer, struct table, stop_timer);

    if (t->writes.n_entries == 0 || t->loop.now_ms >= t->stop_by_ms)
        loop_stop(&t->loop);
    else
        wheel_start(&t->loop.wheel, timer, STOP_LOOK_MS);
}

static void on_stop(struct mail *m)
{
    struct table *t = CONTAINER_OF(m, struct table, stop_mail);

    t->is_stopping = true;
    t->stop_by_ms = t->loop.now_ms + STOP_MS;
    table_barrier_close(t);
    on_stop_look(&t->stop_timer);
}

static void *run(void *context)
{
    struct table *t = context;

    metrics_attach_thread();
    for (unsigned i = 0; i < t->n_partitions; i++)
        table_barrier_ask(&t->partitions[i]);
    wheel_start(&t->loop.wheel, &t->note_timer, NOTE_MS);
    loop_run(&t->loop);
    return NULL;
}

/* --- life --- */

static void init_partitions(struct table *t)
{
    t->partitions = mem_alloc_zero(MEM_TABLE, t->n_partitions * sizeof *t->partitions);
    for (unsigned i = 0; i < t->n_partitions; i++) {
        struct table_partition *p = &t->partitions[i];

        p->table = t;
        p->number = i;
        p->is_opening = true;
        list_init(&p->accepted);
        list_init(&p->unasked);
        list_init(&p->asked);
        list_init(&p->reaching);
    }
    t->n_opening = t->n_partitions;
}

static err open_parts(struct table *t, struct store *store, struct errinfo *ei)
{
    char thread_name[16] = "table-";
    err e;

    if (getrandom(t->instance, sizeof t->instance, 0) != sizeof t->instance)
        return errinfo_set(ei, E_IO, "table %s: no random bytes", t->name);
    e = loop_init(&t->loop, WAITING_BYTES, ei);
    if (e == E_OK)
        e = table_view_open(&t->view, store, t->name, t->n_partitions, ei);
    if (e == E_OK)
        e = table_log_attach(t->log, &t->user, t->view.positions, ei);
    if (e != E_OK)
        return e;
    t->is_attached = true;
    strncat(thread_name, t->name, sizeof thread_name - strlen(thread_name) - 1);
    e = thread_start(&t->thread, thread_name, run, t, ei);
    t->has_thread = e == E_OK;
    return e;
}

err table_open(const struct table_options *options, struct mail *opened, struct mailbox *home, struct table **out_table,
               struct errinfo *ei)
{
    struct table *t = aligned_alloc(_Alignof(struct table), sizeof *t);
    err e;

    ASSERT(t && options->n_partitions >= 1 && options->n_partitions <= TABLE_PARTITIONS_MAX);
    *t = (struct table){
        .name = mem_copy_text(MEM_TABLE, options->name, strlen(options->name)),
        .ops = options->ops,
        .context = options->context,
        .log = options->log,
        .metrics = table_metrics_of(options->name),
        .n_partitions = options->n_partitions,
        .opened = opened,
        .opened_home = home,
        .note_timer = {.on_timer = on_note},
        .stop_timer = {.on_timer = on_stop_look},
        .stop_mail = {.on_mail = on_stop},
    };
    t->loop.epoll_fd = t->loop.mailbox.wake_fd = -1;
    t->user = (struct table_log_user){
        .context = t,
        .loop = &t->loop,
        .n_partitions = t->n_partitions,
        .on_reset = on_reset,
        .on_states = on_states,
        .on_owner = on_owner,
        .on_requests = on_requests,
        .on_committed = on_committed,
        .on_reply = on_reply,
        .on_lost = on_lost,
        .on_end = on_end,
    };
    init_partitions(t);
    e = open_parts(t, options->store, ei);
    if (e != E_OK) {
        table_close(t);
        return e;
    }
    *out_table = t;
    return E_OK;
}

static void stop(struct table *t)
{
    struct errinfo ei = {0};

    if (t->has_thread) {
        mailbox_post(&t->loop.mailbox, &t->stop_mail);
        pthread_join(t->thread, NULL);
    }
    t->is_stopping = true;
    if (t->is_attached)
        table_log_detach(t->log);
    t->is_stopped = true;
    loop_turn(&t->loop, 0); /* what the log and writers have posted last */
    table_write_close(t);
    if (t->view.positions && table_view_note(&t->view, &ei) != E_OK)
        note_failure(&t->partitions[0], &ei);
}

void table_close(struct table *t)
{
    if (!t)
        return;
    if (t->loop.epoll_fd >= 0)
        stop(t);
    for (unsigned i = 0; i < t->n_partitions; i++) {
        table_owner_set(&t->partitions[i], false, 0);
        table_owner_free(&t->partitions[i]);
    }
    table_view_close(&t->view);
    loop_fini(&t->loop);
    mem_free(MEM_TABLE, t->partitions);
    mem_free(MEM_TABLE, (char *)(uintptr_t)t->name);
    free(t);
}

unsigned table_partitions(const struct table *t)
{
    return t->n_partitions;
}
