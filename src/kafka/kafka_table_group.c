/* The group of a table: a consumer that is a member, so that each partition of requests has one owner, and fetches nothing.
 * From being given a partition to serving it, and to its end. The reader's thread. */
#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "kafka/kafka_consumer_conf.h"
#include "kafka/kafka_private.h"
#include "kafka/kafka_table_private.h"

enum { OWNER_MS = 1000 /* before an owner that has ended begins again */ };

static void begin_owner(struct kafka_table *l, struct kafka_table_partition *p)
{
    if (p->owner || !p->is_assigned || l->is_closing)
        return;
    p->owner = kafka_table_owner_new(p);
    if (p->owner)
        l->n_owners++;
    else if (!wheel_is_set(&l->owner_timer))
        wheel_start(&l->loop.wheel, &l->owner_timer, OWNER_MS);
}

static void on_owner_timer(struct timer *t)
{
    struct kafka_table *l = CONTAINER_OF(t, struct kafka_table, owner_timer);

    for (unsigned i = 0; i < l->n_partitions; i++)
        begin_owner(l, &l->partitions[i]);
}

/* The table decides nothing more for the partition; requests that it has are forgotten. */
static void lose(struct kafka_table *l, struct kafka_table_partition *p)
{
    if (!p->reads_requests)
        return;
    kafka_table_reader_leave_requests(p);
    kafka_table_post(l, kafka_table_event_new(p, KAFKA_TABLE_LOST, 0));
}

void kafka_table_group_end_owner(struct kafka_table_partition *p)
{
    lose(p->log, p);
    if (p->owner)
        kafka_table_owner_stop(p->owner);
}

static void on_ready(struct mail *m)
{
    struct kafka_table_owner *o = CONTAINER_OF(m, struct kafka_table_owner, ready_mail);
    struct kafka_table_partition *p = o->partition;
    struct kafka_table *l = p->log;
    struct kafka_table_event *event;

    if (!p->is_assigned || l->is_closing)
        return;
    event = kafka_table_event_new(p, KAFKA_TABLE_OWNED, 0);
    event->owner = o;
    event->next_offset = o->end_offset;
    kafka_table_post(l, event);
    kafka_table_reader_read_requests(p, o->first_request);
}

void kafka_table_group_ready(struct kafka_table_owner *o)
{
    o->ready_mail.on_mail = on_ready;
    mailbox_post(&o->partition->log->loop.mailbox, &o->ready_mail);
}

static void check_end(struct kafka_table *l)
{
    if (l->is_closing && l->n_owners == 0)
        loop_stop(&l->loop);
}

static void on_gone(struct mail *m)
{
    struct kafka_table_owner *o = CONTAINER_OF(m, struct kafka_table_owner, gone_mail);
    struct kafka_table_partition *p = o->partition;
    struct kafka_table *l = p->log;
    struct kafka_table_event *event = kafka_table_event_new(p, KAFKA_TABLE_GONE, 0);

    lose(l, p);
    p->owner = NULL;
    l->n_owners--;
    event->owner = o;
    kafka_table_post(l, event);
    if (p->is_assigned && !wheel_is_set(&l->owner_timer))
        wheel_start(&l->loop.wheel, &l->owner_timer, OWNER_MS);
    check_end(l);
}

void kafka_table_group_gone(struct kafka_table_owner *o)
{
    o->gone_mail.on_mail = on_gone;
    mailbox_post(&o->partition->log->loop.mailbox, &o->gone_mail);
}

/* --- the group --- */

static void note_rebalance(const struct kafka_table *l, const char *what, rd_kafka_resp_err_t code, int n)
{
    LOG_INFO(LOG_KAFKA, "table.group", F_TEXT("table", l->name), F_TEXT("what", what), F_INT("partitions", n),
             F_TEXT("error", code ? rd_kafka_err2name(code) : ""));
}

static bool is_listed(const rd_kafka_topic_partition_list_t *list, int32_t partition)
{
    for (int i = 0; i < list->cnt; i++)
        if (list->elems[i].partition == partition)
            return true;
    return false;
}

/* Owners of partitions that stay with this instance go on as if nothing had been. */
static void on_assigned(struct kafka_table *l, rd_kafka_t *rk, rd_kafka_topic_partition_list_t *list)
{
    /* It is a member, no more: what it could fetch, and where from, is nobody's concern. */
    for (int i = 0; i < list->cnt; i++)
        list->elems[i].offset = 0;
    note_rebalance(l, "assigned", rd_kafka_assign(rk, list), list->cnt);
    (void)rd_kafka_pause_partitions(rk, list);
    for (unsigned i = 0; i < l->n_partitions; i++) {
        struct kafka_table_partition *p = &l->partitions[i];

        p->is_assigned = is_listed(list, p->number);
        if (p->is_assigned)
            begin_owner(l, p);
        else
            kafka_table_group_end_owner(p);
    }
}

static void end_all(struct kafka_table *l)
{
    for (unsigned i = 0; i < l->n_partitions; i++) {
        l->partitions[i].is_assigned = false;
        kafka_table_group_end_owner(&l->partitions[i]);
    }
}

/* With each change in the group everything is taken away and given anew. In between owners go on: whoever becomes the owner of
 * one of their partitions fences them. */
static void on_revoked(struct kafka_table *l, rd_kafka_t *rk, const rd_kafka_topic_partition_list_t *list)
{
    bool is_lost = rd_kafka_assignment_lost(rk);

    if (is_lost)
        end_all(l);
    note_rebalance(l, is_lost ? "lost" : "revoked", rd_kafka_assign(rk, NULL), list->cnt);
}

static void on_rebalance(rd_kafka_t *rk, rd_kafka_resp_err_t code, rd_kafka_topic_partition_list_t *list, void *opaque)
{
    if (code == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS)
        on_assigned(opaque, rk, list);
    else
        on_revoked(opaque, rk, list);
}

void kafka_table_group_poll(struct kafka_table *l)
{
    rd_kafka_message_t *m;

    while ((m = rd_kafka_consumer_poll(l->group, 0))) {
        if (m->err)
            LOG_WARN(LOG_KAFKA, "table.group", F_TEXT("table", l->name), F_TEXT("error", rd_kafka_err2name(m->err)),
                     F_TEXT("text", rd_kafka_message_errstr(m)));
        rd_kafka_message_destroy(m);
    }
}

err kafka_table_group_open(struct kafka_table *l, const struct kafka_settings *settings, struct errinfo *ei)
{
    /* The transactional ids begin with what is the group's name as well. */
    rd_kafka_conf_t *conf = kafka_consumer_conf_make(settings, l->k->bootstrap, str_from(l->transactions), l);
    char text[200];

    /* Not cooperative-sticky: of librdkafka 2.0.2 it aborts the process when a member leaves before it was given anything. */
    (void)rd_kafka_conf_set(conf, "partition.assignment.strategy", "roundrobin", text, sizeof text);
    rd_kafka_conf_set_rebalance_cb(conf, on_rebalance);
    l->owner_timer.on_timer = on_owner_timer;
    return kafka_consumer_conf_open_made(conf, &l->group, ei);
}

void kafka_table_group_join(struct kafka_table *l)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_resp_err_t code;

    rd_kafka_topic_partition_list_add(list, l->requests_topic, RD_KAFKA_PARTITION_UA);
    code = rd_kafka_subscribe(l->group, list);
    if (code)
        LOG_ERROR(LOG_KAFKA, "table.subscribe", F_TEXT("table", l->name), F_TEXT("error", rd_kafka_err2name(code)));
    rd_kafka_topic_partition_list_destroy(list);
}

void kafka_table_group_close(struct kafka_table *l)
{
    end_all(l);
    rd_kafka_consumer_close(l->group);
    l->is_closing = true;
    check_end(l);
}
