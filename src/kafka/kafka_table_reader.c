/* The reader of a table: a thread that takes what two consumers bring. One is a member of the group, so that each partition
 * of requests has one owner; it fetches nothing. The other fetches by assignment of ours: the states of all partitions, all
 * replies, and the requests of the partitions that are owned, from where the owner says. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "kafka/kafka_consumer_conf.h"
#include "kafka/kafka_private.h"
#include "kafka/kafka_table_private.h"
#include "loop/thread.h"
#include "obs/metrics.h"

enum {
    BATCHES_PER_TURN = 4,
    POLL_MS = 500,          /* a member of a group must be heard */
    CHOKE_BYTES = 32 << 20, /* of events that the table has not seen yet */
};

static const uint64_t wake_value = 1;

/* --- places --- */

static void change(const struct kafka_table *l, const char *topic, const struct kafka_table_partition *p, int64_t offset,
                   rd_kafka_error_t *(*how)(rd_kafka_t *, const rd_kafka_topic_partition_list_t *))
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_error_t *error;

    rd_kafka_topic_partition_list_add(list, topic, p->number)->offset = offset;
    error = how(l->rk, list);
    if (error) {
        LOG_ERROR(LOG_KAFKA, "table.assign", F_TEXT("topic", topic), F_TEXT("error", rd_kafka_error_string(error)));
        rd_kafka_error_destroy(error);
    }
    rd_kafka_topic_partition_list_destroy(list);
}

static void read_from(struct kafka_table *l, const char *topic, const struct kafka_table_partition *p, int64_t offset)
{
    change(l, topic, p, offset, rd_kafka_incremental_assign);
}

static void leave(struct kafka_table *l, const char *topic, const struct kafka_table_partition *p)
{
    change(l, topic, p, RD_KAFKA_OFFSET_INVALID, rd_kafka_incremental_unassign);
}

/* States go on elsewhere; what is at hand is from before. */
static void read_states_from(struct kafka_table *l, struct kafka_table_partition *p, uint64_t offset)
{
    if (p->reads_states)
        leave(l, l->states_topic, p);
    p->reads_states = true;
    p->skips = true;
    p->next_state = offset;
    read_from(l, l->states_topic, p, (int64_t)offset);
}

void kafka_table_reader_read_requests(struct kafka_table_partition *p, int64_t offset)
{
    p->reads_requests = true;
    p->next_request = offset >= 0 ? (uint64_t)offset : 0;
    read_from(p->log, p->log->requests_topic, p, offset);
}

void kafka_table_reader_leave_requests(struct kafka_table_partition *p)
{
    if (p->reads_requests)
        leave(p->log, p->log->requests_topic, p);
    p->reads_requests = false;
}

/* The log is not what it was: made anew, or cut off where we are. Until it is known what there is nothing is decided. */
static void lose_place(struct kafka_table *l, struct kafka_table_partition *p)
{
    if (!p->reads_states)
        return;
    LOG_WARN(LOG_KAFKA, "table.place_lost", F_TEXT("table", l->name), F_INT("partition", p->number),
             F_INT("offset", p->next_state));
    leave(l, l->states_topic, p);
    p->reads_states = p->is_checked = false;
    p->skips = true;
    atomic_store(&p->has_identity, false);
    atomic_store(&p->is_looked, false);
    kafka_table_group_end_owner(p);
    kafka_table_asker_place(p);
}

static void on_place(struct mail *m)
{
    struct kafka_table_place *place = CONTAINER_OF(m, struct kafka_table_place, mail);
    struct kafka_table_partition *p = place->partition;
    struct kafka_table *l = p->log;

    if (place->is_reply && !l->is_closing) {
        read_from(l, l->replies_topic, p, place->high);
        if (p->number + 1 == (int32_t)l->n_partitions) {
            kafka_table_asker_begin(l);
            kafka_table_group_join(l); /* one that subscribes to what is not there yet, learns of it minutes later */
        }
    } else if (!l->is_closing) {
        p->low_offset = (uint64_t)place->low;
        p->high_offset = (uint64_t)place->high;
        read_states_from(l, p, p->low_offset);
    }
    mem_free(MEM_KAFKA, place);
}

void kafka_table_reader_place(struct kafka_table_place *place)
{
    place->mail.on_mail = on_place;
    mailbox_post(&place->partition->log->loop.mailbox, &place->mail);
}

/* --- which log this is --- */

static bool is_fresh(const struct kafka_table *l, const struct table_log_position *at)
{
    uint64_t now_ms = loop_wall_ms();

    return now_ms < at->at_end_ms || now_ms - at->at_end_ms < l->asker.retention_ms / 2;
}

/* Whether the view may go on where it is: it is of this log, nothing has been cut off before it or behind it, and no removal
 * that it has not seen can have been forgotten. */
static bool can_go_on(const struct kafka_table *l, const struct kafka_table_partition *p,
                      const uint8_t identity[TABLE_LOG_IDENTITY_BYTES])
{
    const struct table_log_position *at = &p->position;

    return memcmp(identity, at->identity, sizeof at->identity) == 0 && at->first_offset == p->low_offset &&
           at->next_offset <= p->high_offset && at->next_offset > p->low_offset && is_fresh(l, at);
}

static void begin_anew(struct kafka_table *l, struct kafka_table_partition *p, const uint8_t identity[TABLE_LOG_IDENTITY_BYTES])
{
    struct kafka_table_event *event = kafka_table_event_new(p, KAFKA_TABLE_RESET, 0);

    p->position = (struct table_log_position){.first_offset = p->low_offset, .next_offset = p->low_offset};
    memcpy(p->position.identity, identity, sizeof p->position.identity);
    event->position = p->position;
    kafka_table_post(l, event);
}

/* The name of the log has been found in the record at `offset`. */
static void on_identity(struct kafka_table *l, struct kafka_table_partition *p, uint64_t offset,
                        const uint8_t identity[TABLE_LOG_IDENTITY_BYTES])
{
    uint64_t next = p->position.next_offset;

    if (p->is_checked && memcmp(identity, p->position.identity, sizeof p->position.identity) == 0)
        return;
    if (p->is_checked) {
        lose_place(l, p);
        return;
    }
    if (!can_go_on(l, p, identity)) {
        begin_anew(l, p, identity);
        next = p->low_offset;
    }
    p->is_checked = true;
    atomic_store(&p->has_identity, true);
    LOG_INFO(LOG_KAFKA, "table.reading", F_TEXT("table", l->name), F_INT("partition", p->number), F_INT("offset", next));
    if (next != offset && next != offset + 1)
        read_states_from(l, p, next);
}

/* --- what comes --- */

static const char *topic_of(const rd_kafka_message_t *m)
{
    return m->rkt ? rd_kafka_topic_name(m->rkt) : "";
}

static struct kafka_table_partition *partition_of(struct kafka_table *l, const rd_kafka_message_t *m)
{
    return m->partition >= 0 && (unsigned)m->partition < l->n_partitions ? &l->partitions[m->partition] : NULL;
}

static void on_end(struct kafka_table *l, struct kafka_table_partition *p, uint64_t offset)
{
    struct kafka_table_event *event;

    if (p->skips || offset < p->next_state)
        return;
    p->next_state = offset;
    if (!p->is_checked) {
        atomic_store(&p->looked_before, offset);
        atomic_store(&p->is_looked, true);
        return;
    }
    event = kafka_table_event_new(p, KAFKA_TABLE_STATES, 0);
    event->next_offset = offset;
    p->position.next_offset = offset;
    p->position.at_end_ms = loop_wall_ms();
    kafka_table_post(l, event);
}

static bool is_about_place(rd_kafka_resp_err_t code)
{
    return code == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET || code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
           code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC || code == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION;
}

static void on_error(struct kafka_table *l, const rd_kafka_message_t *m)
{
    struct kafka_table_partition *p = partition_of(l, m);
    const char *topic = topic_of(m);

    if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
        if (p && strcmp(topic, l->states_topic) == 0)
            on_end(l, p, (uint64_t)m->offset);
        return;
    }
    LOG_WARN(LOG_KAFKA, "table.error", F_TEXT("topic", topic), F_INT("partition", m->partition),
             F_TEXT("error", rd_kafka_err2name(m->err)), F_TEXT("text", rd_kafka_message_errstr(m)));
    if (!p || m->err == RD_KAFKA_RESP_ERR__MAX_POLL_EXCEEDED)
        return;
    if (strcmp(topic, l->states_topic) == 0 && is_about_place(m->err)) {
        lose_place(l, p);
    } else if (m->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET && strcmp(topic, l->requests_topic) == 0 && p->reads_requests) {
        leave(l, topic, p);
        p->next_request = 0;
        read_from(l, topic, p, RD_KAFKA_OFFSET_BEGINNING);
    } else if (m->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET && strcmp(topic, l->replies_topic) == 0) {
        leave(l, topic, p);
        read_from(l, topic, p, RD_KAFKA_OFFSET_END);
    }
}

/* Whether a message is to be handed on. */
static bool is_wanted(struct kafka_table *l, struct kafka_table_partition *p, const rd_kafka_message_t *m,
                      enum kafka_table_event_kind kind)
{
    const uint64_t offset = (uint64_t)m->offset;
    uint8_t identity[TABLE_LOG_IDENTITY_BYTES];

    if (kind == KAFKA_TABLE_REPLIES)
        return true;
    if (kind == KAFKA_TABLE_REQUESTS) {
        if (!p->reads_requests || offset < p->next_request)
            return false;
        p->next_request = offset + 1;
        return true;
    }
    if (p->skips || offset < p->next_state)
        return false;
    p->next_state = offset + 1;
    if (str_equal((struct str){m->key, m->key_len}, STR(KAFKA_TABLE_IDENTITY_KEY))) {
        if (kafka_table_identity_read((struct str){m->payload, m->len}, identity))
            on_identity(l, p, offset, identity);
        return false;
    }
    return p->is_checked;
}

static enum kafka_table_event_kind kind_of(const struct kafka_table *l, const char *topic)
{
    if (strcmp(topic, l->states_topic) == 0)
        return KAFKA_TABLE_STATES;
    return strcmp(topic, l->requests_topic) == 0 ? KAFKA_TABLE_REQUESTS : KAFKA_TABLE_REPLIES;
}

/* Sends the wanted ones of messages `from` to `to`, which are of one partition. Takes them. */
static void hand_on(struct kafka_table *l, struct kafka_table_partition *p, size_t from, size_t to,
                    enum kafka_table_event_kind kind)
{
    struct kafka_table_event *event = kafka_table_event_new(p, kind, to - from);

    event->n = 0;
    for (size_t i = from; i < to; i++) {
        rd_kafka_message_t *m = l->batch[i];

        if (!is_wanted(l, p, m, kind)) {
            rd_kafka_message_destroy(m);
            continue;
        }
        event->messages[event->n++] = m;
        event->bytes += m->len + m->key_len + 200;
        event->next_offset = (uint64_t)m->offset + 1;
    }
    if (event->n == 0) {
        mem_free(MEM_KAFKA, event);
        return;
    }
    if (kind == KAFKA_TABLE_STATES)
        p->position.next_offset = event->next_offset;
    kafka_table_post(l, event);
}

static bool is_same_partition(const rd_kafka_message_t *a, const rd_kafka_message_t *b)
{
    return !b->err && a->rkt == b->rkt && a->partition == b->partition;
}

static void hand_on_batch(struct kafka_table *l, size_t n)
{
    size_t from = 0;

    for (unsigned i = 0; i < l->n_partitions; i++)
        l->partitions[i].skips = false;
    while (from < n) {
        rd_kafka_message_t *m = l->batch[from];
        struct kafka_table_partition *p = partition_of(l, m);
        size_t to = from + 1;

        if (m->err || !p) {
            on_error(l, m);
            rd_kafka_message_destroy(m);
        } else {
            while (to < n && is_same_partition(m, l->batch[to]))
                to++;
            hand_on(l, p, from, to, kind_of(l, topic_of(m)));
        }
        from = to;
    }
}

/* librdkafka wakes us only when a queue was empty, so it is left empty, or with a task to come back. */
static void poll_records(struct kafka_table *l)
{
    for (int i = 0; i < BATCHES_PER_TURN; i++) {
        ssize_t n;

        /* Whoever frees an event looks at this; what it freed before is seen here by the next tick of the timer. */
        atomic_store(&l->is_choked, atomic_load(&l->out_bytes) > CHOKE_BYTES);
        if (atomic_load(&l->is_choked))
            return;
        n = rd_kafka_consume_batch_queue(l->records, 0, l->batch, KAFKA_TABLE_BATCH);
        if (n <= 0)
            return;
        hand_on_batch(l, (size_t)n);
    }
    loop_defer(&l->loop, &l->poll_task);
}

/* --- the thread --- */

static void on_poll(struct task *t)
{
    struct kafka_table *l = CONTAINER_OF(t, struct kafka_table, poll_task);

    if (l->is_closing)
        return;
    kafka_table_group_poll(l);
    poll_records(l);
}

static void on_poll_timer(struct timer *t)
{
    struct kafka_table *l = CONTAINER_OF(t, struct kafka_table, poll_timer);

    loop_defer(&l->loop, &l->poll_task);
    wheel_start(&l->loop.wheel, t, POLL_MS);
}

static void on_unchoke(struct mail *m)
{
    struct kafka_table *l = CONTAINER_OF(m, struct kafka_table, unchoke_mail);

    atomic_store(&l->is_unchoking, false);
    loop_defer(&l->loop, &l->poll_task);
}

static void on_wake(struct io *io, uint32_t events)
{
    struct kafka_table *l = CONTAINER_OF(io, struct kafka_table, wake);
    uint64_t count;

    (void)events;
    while (read(io->fd, &count, sizeof count) < 0 && errno == EINTR)
        ;
    loop_defer(&l->loop, &l->poll_task);
}

/* Leaves the group, so that others take over at once; by that every owner is told to end. */
static void on_stop(struct mail *m)
{
    struct kafka_table *l = CONTAINER_OF(m, struct kafka_table, stop_mail);

    kafka_table_group_close(l);
}

static void *run(void *context)
{
    struct kafka_table *l = context;

    metrics_attach_thread();
    wheel_start(&l->loop.wheel, &l->poll_timer, POLL_MS);
    loop_run(&l->loop);
    return NULL;
}

static err open_handle(struct kafka_table *l, const struct kafka_settings *settings, struct errinfo *ei)
{
    rd_kafka_conf_t *conf = kafka_consumer_conf_make(settings, l->k->bootstrap, str_from(l->transactions), l);
    char text[200];

    (void)rd_kafka_conf_set(conf, "enable.partition.eof", "true", text, sizeof text);
    return kafka_consumer_conf_open_made(conf, &l->rk, ei);
}

static err open_loop(struct kafka_table *l, struct errinfo *ei)
{
    err e = loop_init(&l->loop, 0, ei);

    if (e != E_OK)
        return e;
    l->has_loop = true;
    l->wake = (struct io){.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), .on_io = on_wake};
    if (l->wake.fd < 0 || loop_watch(&l->loop, &l->wake, EPOLLIN) != E_OK)
        return errinfo_set(ei, E_IO, "kafka: no event descriptor: %s", strerror(errno));
    l->poll_task.run = on_poll;
    l->poll_timer.on_timer = on_poll_timer;
    l->stop_mail.on_mail = on_stop;
    l->unchoke_mail.on_mail = on_unchoke;
    return E_OK;
}

err kafka_table_reader_open(struct kafka_table *l, const struct kafka_settings *settings, struct errinfo *ei)
{
    err e = open_loop(l, ei);

    if (e == E_OK)
        e = kafka_table_group_open(l, settings, ei);
    if (e == E_OK)
        e = open_handle(l, settings, ei);
    if (e != E_OK)
        return e;
    l->memberships = rd_kafka_queue_get_consumer(l->group);
    l->records = rd_kafka_queue_get_consumer(l->rk);
    rd_kafka_queue_io_event_enable(l->memberships, l->wake.fd, &wake_value, sizeof wake_value);
    rd_kafka_queue_io_event_enable(l->records, l->wake.fd, &wake_value, sizeof wake_value);
    return E_OK;
}

err kafka_table_reader_start(struct kafka_table *l, struct errinfo *ei)
{
    err e = thread_start(&l->thread, "table-in", run, l, ei);

    l->has_thread = e == E_OK;
    return e;
}

void kafka_table_reader_stop(struct kafka_table *l)
{
    if (!l->has_thread)
        return;
    mailbox_post(&l->loop.mailbox, &l->stop_mail);
    pthread_join(l->thread, NULL);
    l->has_thread = false;
}

static void close_queue(rd_kafka_queue_t *queue)
{
    if (!queue)
        return;
    rd_kafka_queue_io_event_enable(queue, -1, NULL, 0);
    rd_kafka_queue_destroy(queue);
}

void kafka_table_reader_close(struct kafka_table *l)
{
    close_queue(l->memberships);
    close_queue(l->records);
    kafka_consumer_conf_close(l->group);
    kafka_consumer_conf_close(l->rk);
    if (!l->has_loop)
        return;
    l->is_closing = true;
    loop_turn(&l->loop, 0); /* frees what the asker has said last */
    if (l->wake.fd >= 0)
        close(l->wake.fd);
    loop_fini(&l->loop);
}
