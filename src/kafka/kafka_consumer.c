#include "kafka/kafka_consumer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "kafka/kafka_consumer_metrics.h"
#include "kafka/kafka_consumer_private.h"
#include "kafka/kafka_private.h"
#include "loop/thread.h"
#include "loop/worker.h"

enum {
    BATCHES_PER_TURN = 4, /* then mail and timers have their turn */
    COMMIT_MS = 200,
    REFRESH_MS = 3600 * 1000, /* a position that is not committed anew is forgotten by the cluster after some days */
    STOP_MS = 5000,
    RECORD_OVERHEAD_BYTES = 200,
};

static const uint64_t wake_value = 1;

/* --- records --- */

static struct kafka_partition *from_port(struct source_partition *port)
{
    return CONTAINER_OF(port, struct kafka_partition, port);
}

static struct str bytes_of(const void *p, size_t n)
{
    return (struct str){p, p ? n : 0};
}

static void read_headers(rd_kafka_headers_t *headers, struct record_header *out, size_t n, uint32_t *bytes)
{
    for (size_t i = 0; i < n; i++) {
        const char *name;
        const void *value;
        size_t value_n;

        if (rd_kafka_header_get_all(headers, i, &name, &value, &value_n))
            break; /* cannot be: n is their number */
        out[i] = (struct record_header){str_from(name), bytes_of(value, value_n)};
        *bytes += (uint32_t)(out[i].name.n + out[i].value.n);
    }
}

/* Takes the message. */
static struct source_record *record_new(const struct kafka_consumer *c, struct kafka_partition *p, rd_kafka_message_t *m)
{
    rd_kafka_headers_t *headers = NULL;
    rd_kafka_timestamp_type_t type;
    size_t n = rd_kafka_message_headers(m, &headers) ? 0 : rd_kafka_header_cnt(headers);
    struct source_record *r = mem_alloc(MEM_KAFKA, sizeof *r + n * sizeof(struct record_header));
    struct record_header *list = (struct record_header *)(void *)(r + 1);

    *r = (struct source_record){
        .mail = {.on_mail = c->reader->on_record},
        .partition = &p->port,
        .offset = m->offset,
        .timestamp_ms = rd_kafka_message_timestamp(m, &type),
        .key = bytes_of(m->key, m->key_len),
        .value = bytes_of(m->payload, m->len),
        .headers = list,
        .n_headers = n,
        .raw = m,
        .bytes = (uint32_t)(RECORD_OVERHEAD_BYTES + m->len + m->key_len),
    };
    read_headers(headers, list, n, &r->bytes);
    return r;
}

static void on_message_error(struct kafka_consumer *c, const rd_kafka_message_t *m)
{
    const char *topic = m->rkt ? rd_kafka_topic_name(m->rkt) : "";
    struct kafka_partition *p = kafka_consumer_find(c, topic, m->partition);

    metric_add(kafka_consumer_errors, 1);
    if (p && !p->is_read)
        return; /* from before it was left */
    if (p && m->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET)
        kafka_partition_begin_anew(c, p, rd_kafka_message_errstr(m));
    else
        LOG_WARN(LOG_KAFKA, "consumer.error", F_TEXT("topic", topic), F_INT("partition", m->partition),
                 F_TEXT("error", rd_kafka_err2name(m->err)), F_TEXT("text", rd_kafka_message_errstr(m)));
}

void kafka_consumer_on_error(rd_kafka_t *rk, int code, const char *reason, void *opaque)
{
    (void)rk;
    (void)opaque;
    metric_add(kafka_consumer_errors, 1);
    LOG_DEBUG(LOG_KAFKA, "consumer.client", F_TEXT("error", rd_kafka_err2name((rd_kafka_resp_err_t)code)),
              F_TEXT("text", reason));
}

/* One chain of mails for each home in a batch. */
struct homes {
    struct {
        struct mailbox *mailbox;
        struct mail_chain chain;
    } list[WORKERS_MAX];
    size_t n;
};

static void chain(struct homes *homes, struct mailbox *mailbox, struct mail *m)
{
    size_t i = 0;

    while (i < homes->n && homes->list[i].mailbox != mailbox)
        i++;
    ASSERT(i < WORKERS_MAX);
    if (i == homes->n) {
        homes->list[homes->n++].mailbox = mailbox;
        homes->list[i].chain = (struct mail_chain){0};
    }
    mailbox_chain(&homes->list[i].chain, m);
}

/* Takes the message. */
static void hand_out(struct kafka_consumer *c, struct kafka_partition *p, rd_kafka_message_t *m, struct homes *homes)
{
    struct source_record *r;

    if (!p || !p->is_read || !kafka_window_wants(&p->window, m->offset)) {
        if (p && p->is_read) {
            p->is_dirty = true; /* the commit point may move */
            kafka_consumer_count(c, KAFKA_CONSUMED_SKIPPED, 1);
        }
        rd_kafka_message_destroy(m);
        return;
    }
    r = record_new(c, p, m);
    kafka_window_add(&p->window, r);
    c->unsettled_bytes += r->bytes;
    kafka_consumer_count(c, KAFKA_CONSUMED, 1);
    kafka_consumer_count(c, KAFKA_CONSUMED_UNSETTLED, 1);
    chain(homes, p->port.home, &r->mail);
    kafka_partition_check(c, p);
}

/* Records of a batch mostly come from one partition after the other. */
static void hand_out_batch(struct kafka_consumer *c, size_t n)
{
    const rd_kafka_topic_t *topic = NULL;
    struct kafka_partition *p = NULL;
    struct homes homes = {.n = 0};

    for (size_t i = 0; i < n; i++) {
        rd_kafka_message_t *m = c->batch[i];

        if (m->err) {
            on_message_error(c, m);
            rd_kafka_message_destroy(m);
            continue;
        }
        if (!p || m->rkt != topic || m->partition != p->port.number)
            p = kafka_consumer_find(c, rd_kafka_topic_name(m->rkt), m->partition);
        topic = m->rkt;
        hand_out(c, p, m, &homes);
    }
    for (size_t i = 0; i < homes.n; i++)
        mailbox_post_chain(homes.list[i].mailbox, &homes.list[i].chain);
}

/* librdkafka wakes us only when a queue was empty: each is left either empty, or with a task or a settlement to come back. */
static void poll_records(struct kafka_consumer *c)
{
    for (int i = 0; i < BATCHES_PER_TURN; i++) {
        ssize_t n;

        c->is_choked = c->unsettled_bytes >= c->max_bytes;
        if (c->is_choked || atomic_load(&c->is_pausing))
            return;
        n = rd_kafka_consume_batch_queue(c->records, 0, c->batch, KAFKA_CONSUMER_BATCH);
        if (n <= 0)
            return;
        hand_out_batch(c, (size_t)n);
    }
    loop_defer(&c->loop, &c->poll_task);
}

static void check_end(struct kafka_consumer *c)
{
    if (!c->is_stop_asked || c->is_committing)
        return;
    kafka_consumer_commit(c);
    if (c->is_committing)
        return;
    if (c->member)
        kafka_consumer_group_leave(c);
    if (c->is_transient)
        kafka_partition_leave_all(c); /* the topic may go with its reader */
    loop_stop(&c->loop);
}

static void poll_results(struct kafka_consumer *c)
{
    rd_kafka_event_t *event;

    while ((event = rd_kafka_queue_poll(c->results, 0))) {
        kafka_consumer_committed(c, event);
        rd_kafka_event_destroy(event);
        check_end(c);
    }
}

static void on_poll(struct task *t)
{
    struct kafka_consumer *c = CONTAINER_OF(t, struct kafka_consumer, poll_task);

    if (c->member)
        kafka_consumer_group_poll(c);
    poll_results(c);
    poll_records(c);
}

static void on_wake(struct io *io, uint32_t events)
{
    struct kafka_consumer *c = CONTAINER_OF(io, struct kafka_consumer, wake);
    uint64_t count;

    (void)events;
    while (read(io->fd, &count, sizeof count) < 0 && errno == EINTR)
        ;
    loop_defer(&c->loop, &c->poll_task);
}

/* --- settling --- */

static void forget(struct source *source, struct source_record *r)
{
    (void)source;
    if (!r->raw)
        return;
    rd_kafka_message_destroy(r->raw);
    r->raw = NULL;
    r->key = r->value = (struct str){0};
    r->n_headers = 0;
}

static void on_settled(struct mail *m)
{
    struct source_record *r = CONTAINER_OF(m, struct source_record, mail);
    struct kafka_partition *p = from_port(r->partition);
    struct kafka_consumer *c = p->consumer;

    c->unsettled_bytes -= r->bytes;
    kafka_consumer_count(c, KAFKA_CONSUMED_SETTLED, 1);
    kafka_consumer_count(c, KAFKA_CONSUMED_UNSETTLED, -1);
    if (r->is_stale) {
        list_remove(&r->link);
    } else {
        kafka_window_settle(&p->window, r);
        p->is_dirty = true;
    }
    mem_free(MEM_KAFKA, r);
    if (c->is_stopped)
        return;
    kafka_partition_check(c, p);
    if (c->is_choked && c->unsettled_bytes < c->max_bytes / 5 * 4)
        loop_defer(&c->loop, &c->poll_task);
    if (p->is_dirty && !wheel_is_set(&c->commit_timer))
        wheel_start(&c->loop.wheel, &c->commit_timer, COMMIT_MS);
    kafka_consumer_group_try_leave(c);
}

static void settle(struct source *source, struct source_record *r)
{
    struct kafka_consumer *c = CONTAINER_OF(source, struct kafka_consumer, source);

    forget(source, r);
    r->mail.on_mail = on_settled;
    mailbox_post(&c->loop.mailbox, &r->mail);
}

static const struct source_ops ops = {.forget = forget, .settle = settle};

static void on_commit_timer(struct timer *t)
{
    kafka_consumer_commit(CONTAINER_OF(t, struct kafka_consumer, commit_timer));
}

static void on_refresh_timer(struct timer *t)
{
    struct kafka_consumer *c = CONTAINER_OF(t, struct kafka_consumer, refresh_timer);

    for (struct kafka_partition *p = c->list; p; p = p->next)
        p->is_dirty = true;
    kafka_consumer_commit(c);
    wheel_start(&c->loop.wheel, t, REFRESH_MS);
}

/* --- other wants --- */

static void on_want(struct mail *m)
{
    struct kafka_consumer *c = CONTAINER_OF(m, struct kafka_consumer, want_mail);

    if (c->is_stopped)
        return;
    c->reader->unref(c->wants);
    c->wants = c->next_wants;
    c->next_wants = NULL;
    c->is_changing = true;
    kafka_partition_leave_unwanted(c);
    mailbox_post(c->want_home, c->want_done);
}

static void on_read(struct mail *m)
{
    struct kafka_consumer *c = CONTAINER_OF(m, struct kafka_consumer, read_mail);

    if (c->is_stopped || c->is_stop_asked)
        return;
    c->is_changing = false;
    kafka_partition_read_wanted(c);
    kafka_finder_want(&c->finder, c->wants);
}

void kafka_consumer_want(struct kafka_consumer *c, void *wants, struct mail *done, struct mailbox *home)
{
    ASSERT(!c->next_wants);
    c->next_wants = c->reader->ref(wants);
    c->want_done = done;
    c->want_home = home;
    mailbox_post(&c->loop.mailbox, &c->want_mail);
}

void kafka_consumer_read_wanted(struct kafka_consumer *c)
{
    mailbox_post(&c->loop.mailbox, &c->read_mail);
}

static void on_pause(struct mail *m)
{
    struct kafka_consumer *c = CONTAINER_OF(m, struct kafka_consumer, pause_mail);

    if (!c->is_stopped)
        kafka_consumer_group_try_leave(c);
}

static void on_anew(struct mail *m)
{
    struct kafka_consumer *c = CONTAINER_OF(m, struct kafka_consumer, anew_mail);

    atomic_store(&c->is_asked_anew, false);
    for (struct kafka_partition *p = c->list; p && !c->is_stopped; p = p->next)
        if (p->is_read)
            kafka_partition_begin_anew(c, p, "it was made anew");
}

/* --- life --- */

static void on_stop_timer(struct timer *t)
{
    struct kafka_consumer *c = CONTAINER_OF(t, struct kafka_consumer, stop_timer);

    LOG_WARN(LOG_KAFKA, "consumer.uncommitted", F_TEXT("why", "Kafka did not answer; what was settled last comes again"));
    loop_stop(&c->loop);
}

static void on_stop(struct mail *m)
{
    struct kafka_consumer *c = CONTAINER_OF(m, struct kafka_consumer, stop_mail);

    c->is_stop_asked = true;
    wheel_start(&c->loop.wheel, &c->stop_timer, STOP_MS);
    check_end(c);
}

static void *run(void *context)
{
    struct kafka_consumer *c = context;

    metrics_attach_thread();
    loop_run(&c->loop);
    return NULL;
}

static err open_loop(struct kafka_consumer *c, struct errinfo *ei)
{
    err e = loop_init(&c->loop, 0, ei);

    if (e != E_OK)
        return e;
    c->wake = (struct io){.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), .on_io = on_wake};
    if (c->wake.fd < 0 || loop_watch(&c->loop, &c->wake, EPOLLIN) != E_OK)
        return errinfo_set(ei, E_IO, "kafka: no event descriptor: %s", strerror(errno));
    c->poll_task.run = on_poll;
    c->commit_timer.on_timer = on_commit_timer;
    c->refresh_timer.on_timer = on_refresh_timer;
    kafka_partition_init(c);
    c->stop_timer.on_timer = on_stop_timer;
    c->stop_mail.on_mail = on_stop;
    c->pause_mail.on_mail = on_pause;
    c->anew_mail.on_mail = on_anew;
    c->want_mail.on_mail = on_want;
    c->read_mail.on_mail = on_read;
    wheel_start(&c->loop.wheel, &c->refresh_timer, REFRESH_MS);
    loop_defer(&c->loop, &c->poll_task);
    return E_OK;
}

static err start_thread(struct kafka_consumer *c, struct errinfo *ei)
{
    err e = thread_start(&c->thread, "kafka-in", run, c, ei);

    c->is_running = e == E_OK;
    return e;
}

static struct str join(struct str a, char separator, struct str b)
{
    char *text = mem_alloc(MEM_KAFKA, a.n + b.n + 2);

    memcpy(text, a.p, a.n);
    text[a.n] = separator;
    memcpy(text + a.n + 1, b.p, b.n);
    text[a.n + 1 + b.n] = '\0';
    return (struct str){text, a.n + 1 + b.n};
}

static rd_kafka_queue_t *watch(struct kafka_consumer *c, rd_kafka_queue_t *queue)
{
    rd_kafka_queue_io_event_enable(queue, c->wake.fd, &wake_value, sizeof wake_value);
    return queue;
}

static err open_member(struct kafka_consumer *c, struct kafka *k, const struct kafka_settings *settings, struct errinfo *ei)
{
    err e = kafka_consumer_group_open(c, settings, k->bootstrap, ei);

    if (e != E_OK)
        return e;
    c->memberships = watch(c, rd_kafka_queue_get_consumer(c->member));
    wheel_start(&c->loop.wheel, &c->group_timer, 1);
    return E_OK;
}

static err open_parts(struct kafka_consumer *c, struct kafka *k, const struct kafka_settings *settings, bool is_shared,
                      struct errinfo *ei)
{
    err e = kafka_consumer_conf_open(settings, k->bootstrap, c->group, c, &c->rk, ei);

    if (e == E_OK)
        e = open_loop(c, ei);
    if (e == E_OK && is_shared)
        e = open_member(c, k, settings, ei);
    if (e != E_OK)
        return e;
    c->records = watch(c, rd_kafka_queue_get_consumer(c->rk));
    c->results = watch(c, rd_kafka_queue_new(c->member ? c->member : c->rk));
    e = start_thread(c, ei);
    return e == E_OK ? kafka_finder_start(&c->finder, ei) : e;
}

static uint32_t find_ms(const struct kafka_consumer_settings *settings, bool is_shared)
{
    uint32_t usual_ms = is_shared ? KAFKA_FINDER_SHARED_MS : KAFKA_FINDER_DEFAULT_MS;

    return settings->find_ms ? settings->find_ms : usual_ms;
}

err kafka_consumer_open(struct kafka *k, const struct kafka_settings *settings,
                        const struct kafka_consumer_settings *consumer_settings, struct kafka_consumer **out_consumer,
                        struct errinfo *ei)
{
    struct kafka_consumer *c = aligned_alloc(_Alignof(struct kafka_consumer), sizeof *c);
    struct str prefix = settings->topic_prefix, group = consumer_settings->group;
    bool is_shared = consumer_settings->is_shared && !settings->is_embedded;
    err e;

    ASSERT(c);
    memset(c, 0, sizeof *c);
    c->for_whom = consumer_settings->for_whom;
    metrics_register(kafka_consumer_metrics[c->for_whom], KAFKA_CONSUMER_METRICS);
    metrics_register(kafka_consumer_errors, 1);
    c->source.ops = &ops;
    c->reader = consumer_settings->reader;
    c->wants = c->reader->ref(consumer_settings->wants);
    c->loop.epoll_fd = c->loop.mailbox.wake_fd = c->wake.fd = -1;
    c->group = is_shared ? (struct str){mem_copy_text(MEM_KAFKA, group.p, group.n), group.n}
                         : join(group, '.', consumer_settings->instance);
    c->is_transient = consumer_settings->is_transient;
    c->started = consumer_settings->started;
    c->started_home = consumer_settings->started_home;
    c->prefix = (struct str){mem_copy_text(MEM_KAFKA, prefix.p, prefix.n), prefix.n};
    c->max_unsettled = consumer_settings->max_unsettled ? consumer_settings->max_unsettled : KAFKA_CONSUMER_DEFAULT_UNSETTLED;
    c->max_bytes = consumer_settings->max_bytes ? consumer_settings->max_bytes : KAFKA_CONSUMER_DEFAULT_BYTES;
    c->metadata_bytes = KAFKA_WINDOW_METADATA_BYTES;
    kafka_finder_init(&c->finder, c, find_ms(consumer_settings, is_shared));
    e = open_parts(c, k, settings, is_shared, ei);
    if (e != E_OK) {
        kafka_consumer_free(c);
        return e;
    }
    *out_consumer = c;
    return E_OK;
}

struct source *kafka_consumer_source(struct kafka_consumer *c)
{
    return &c->source;
}

void kafka_consumer_start(struct kafka_consumer *c)
{
    kafka_finder_begin(&c->finder);
}

void kafka_consumer_begin_anew(struct kafka_consumer *c)
{
    if (!atomic_exchange(&c->is_asked_anew, true))
        mailbox_post(&c->loop.mailbox, &c->anew_mail);
}

void kafka_consumer_pause(struct kafka_consumer *c)
{
    if (!atomic_exchange(&c->is_pausing, true))
        mailbox_post(&c->loop.mailbox, &c->pause_mail);
}

void kafka_consumer_stop(struct kafka_consumer *c)
{
    if (c->is_stopped)
        return;
    kafka_consumer_pause(c);
    kafka_finder_stop(&c->finder);
    if (c->is_running) {
        mailbox_post(&c->loop.mailbox, &c->stop_mail);
        pthread_join(c->thread, NULL);
    }
    c->is_running = false;
    c->is_stopped = true;
    kafka_finder_release(&c->finder);
    c->reader->unref(c->wants);
    c->reader->unref(c->next_wants);
    if (c->rk)
        rd_kafka_set_log_level(c->rk, 0); /* that Kafka goes before the handle does is nobody's concern */
    if (c->member)
        rd_kafka_set_log_level(c->member, 0);
}

static void free_records(struct kafka_consumer *c, struct list *records)
{
    struct list *link;

    while ((link = list_pop(records))) {
        struct source_record *r = CONTAINER_OF(link, struct source_record, link);

        forget(&c->source, r);
        kafka_consumer_count(c, KAFKA_CONSUMED_UNSETTLED, -1);
        mem_free(MEM_KAFKA, r);
    }
}

static void free_partitions(struct kafka_consumer *c)
{
    while (c->list) {
        struct kafka_partition *p = c->list;

        c->list = p->next;
        kafka_window_clear(&p->window, &p->stale);
        free_records(c, &p->stale);
        kafka_partition_free(p);
    }
    map_free(&c->partitions, MEM_KAFKA);
}

static void close_queue(rd_kafka_queue_t *queue)
{
    if (!queue)
        return;
    rd_kafka_queue_io_event_enable(queue, -1, NULL, 0);
    rd_kafka_queue_destroy(queue);
}

static void close_handles(struct kafka_consumer *c)
{
    close_queue(c->records);
    close_queue(c->results);
    close_queue(c->memberships);
    kafka_consumer_conf_close(c->rk);
    kafka_consumer_conf_close(c->member);
}

void kafka_consumer_free(struct kafka_consumer *c)
{
    if (!c)
        return;
    kafka_consumer_stop(c);
    if (c->loop.epoll_fd >= 0)
        mailbox_drain(&c->loop.mailbox); /* settled too late, found too late */
    free_partitions(c);
    close_handles(c);
    if (c->wake.fd >= 0)
        close(c->wake.fd);
    loop_fini(&c->loop);
    kafka_finder_fini(&c->finder);
    mem_free(MEM_KAFKA, (char *)(uintptr_t)c->group.p);
    mem_free(MEM_KAFKA, (char *)(uintptr_t)c->prefix.p);
    free(c);
}
