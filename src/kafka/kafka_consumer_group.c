/* A group that instances share: a member's handle, which the group tells what is this instance's to read, and which takes its
 * positions. It fetches nothing; that is left to the consumer's other handle, for exactly these partitions. So a change in the
 * group costs no fetch, and positions are committed with the generation that the member knows of: one that was shut out is
 * refused.
 *
 * With each change the group takes everything back and gives it anew (the strategy is the eager `roundrobin`, for the reason that
 * docs/adr/0019 has, and because `range` gives topics of one partition all to one member). What is settled is committed before the
 * answer. What is out stays good: of a partition that comes back, and whose position nobody has moved since, nothing is read
 * again. The others are lost.
 *
 * Members are dynamic. A static one (`group.instance.id`) would keep its partitions when its process ends, and nobody would read
 * them for the session timeout; a restart is not worth that. The consumer's thread. */
#include "base/check.h"
#include "base/log.h"
#include "kafka/kafka_consumer_conf.h"
#include "kafka/kafka_consumer_metrics.h"
#include "kafka/kafka_consumer_private.h"

enum { POLL_MS = 1000 /* librdkafka leaves a group whose member does not ask */ };

static void note(const struct kafka_consumer *c, const char *what, int n)
{
    LOG_INFO(LOG_KAFKA, "consumer.group", F_STR("group", c->group), F_TEXT("what", what), F_INT("partitions", n));
}

/* Says that a change is done with. An empty assignment, since nothing is to be fetched here: what the group believes this member has
 * does not depend on it. */
static void acknowledge(struct kafka_consumer *c, bool is_assigned)
{
    rd_kafka_topic_partition_list_t *none = is_assigned ? rd_kafka_topic_partition_list_new(0) : NULL;
    rd_kafka_resp_err_t code = rd_kafka_assign(c->member, none);

    if (none)
        rd_kafka_topic_partition_list_destroy(none);
    if (code)
        LOG_ERROR(LOG_KAFKA, "consumer.group", F_STR("group", c->group), F_TEXT("error", rd_kafka_err2name(code)));
}

/* --- given --- */

/* What is out of partitions that others have now comes to nothing. */
static void lose_others(struct kafka_consumer *c)
{
    for (struct kafka_partition *p = c->list; p; p = p->next)
        if (!p->is_ours)
            kafka_partition_lose(c, p);
}

static void on_assigned(struct kafka_consumer *c, const rd_kafka_topic_partition_list_t *list)
{
    struct kafka_found *first = NULL;

    acknowledge(c, true);
    note(c, "assigned", list->cnt);
    c->round++;
    for (int i = 0; i < list->cnt; i++) {
        const rd_kafka_topic_partition_t *at = &list->elems[i];
        struct kafka_partition *p = kafka_consumer_find(c, at->topic, at->partition);
        struct kafka_found *found = kafka_found_new(at->topic, at->partition);

        if (!p)
            p = kafka_partition_add(c, at->topic, at->partition);
        p->is_ours = true;
        found->next = first;
        first = found;
    }
    lose_others(c);
    if (first)
        kafka_finder_place(&c->finder, first, c->round);
}

/* --- taken back --- */

static void give_back(struct kafka_consumer *c)
{
    c->is_revoking = c->is_concluded = false;
    for (struct kafka_partition *p = c->list; p; p = p->next)
        p->is_ours = p->is_placed = p->awaits_commit = false;
    if (!c->is_subscribed)
        lose_others(c); /* nothing will be given again */
    acknowledge(c, false);
}

/* Others may have read them for a while already. */
static void on_shut_out(struct kafka_consumer *c)
{
    for (struct kafka_partition *p = c->list; p; p = p->next)
        p->is_ours = false;
    lose_others(c);
    give_back(c);
}

void kafka_consumer_group_on_committed(struct kafka_consumer *c)
{
    if (!c->is_revoking || c->is_committing)
        return;
    if (!c->is_concluded) {
        c->is_concluded = true;
        kafka_consumer_commit(c);
    }
    if (!c->is_committing)
        give_back(c);
}

static void on_revoked(struct kafka_consumer *c, rd_kafka_t *rk, int n)
{
    bool is_lost = rd_kafka_assignment_lost(rk);

    note(c, is_lost ? "lost" : "revoked", n);
    c->round++;
    kafka_partition_leave_all(c);
    if (is_lost) {
        on_shut_out(c);
    } else if (c->is_leaving) {
        give_back(c);
    } else {
        c->is_revoking = true;
        c->is_concluded = false;
        kafka_consumer_group_on_committed(c);
    }
}

static void on_rebalance(rd_kafka_t *rk, rd_kafka_resp_err_t code, rd_kafka_topic_partition_list_t *list, void *opaque)
{
    if (code == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS)
        on_assigned(opaque, list);
    else
        on_revoked(opaque, rk, list->cnt);
}

void kafka_consumer_group_poll(struct kafka_consumer *c)
{
    rd_kafka_message_t *m;

    while (!c->is_leaving && (m = rd_kafka_consumer_poll(c->member, 0))) {
        if (m->err) {
            metric_add(kafka_consumer_errors, 1);
            LOG_DEBUG(LOG_KAFKA, "consumer.group", F_STR("group", c->group), F_TEXT("error", rd_kafka_err2name(m->err)),
                      F_TEXT("text", rd_kafka_message_errstr(m)));
        }
        rd_kafka_message_destroy(m);
    }
}

static void on_group_timer(struct timer *t)
{
    struct kafka_consumer *c = CONTAINER_OF(t, struct kafka_consumer, group_timer);

    kafka_consumer_group_poll(c);
    wheel_start(&c->loop.wheel, t, POLL_MS);
}

/* --- topics --- */

struct subscription {
    struct mail mail;
    struct kafka_consumer *consumer;
    rd_kafka_topic_partition_list_t *topics;
};

static void on_subscription(struct mail *m)
{
    struct subscription *s = CONTAINER_OF(m, struct subscription, mail);
    struct kafka_consumer *c = s->consumer;
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;

    if (!c->is_leaving && !c->is_stopped) {
        c->is_subscribed = s->topics->cnt > 0;
        code = c->is_subscribed ? rd_kafka_subscribe(c->member, s->topics) : rd_kafka_unsubscribe(c->member);
        if (!c->is_subscribed)
            lose_others(c);
    }
    if (code)
        LOG_ERROR(LOG_KAFKA, "consumer.subscribe", F_STR("group", c->group), F_TEXT("error", rd_kafka_err2name(code)));
    rd_kafka_topic_partition_list_destroy(s->topics);
    mem_free(MEM_KAFKA, s);
}

void kafka_consumer_group_subscribe(struct kafka_consumer *c, rd_kafka_topic_partition_list_t *topics)
{
    struct subscription *s = mem_alloc(MEM_KAFKA, sizeof *s);

    *s = (struct subscription){.mail = {.on_mail = on_subscription}, .consumer = c, .topics = topics};
    mailbox_post(&c->loop.mailbox, &s->mail);
}

/* --- life --- */

err kafka_consumer_group_open(struct kafka_consumer *c, const struct kafka_settings *settings, struct str bootstrap,
                              struct errinfo *ei)
{
    rd_kafka_conf_t *conf = kafka_consumer_conf_make(settings, bootstrap, c->group, c);
    char text[200];

    (void)rd_kafka_conf_set(conf, "partition.assignment.strategy", "roundrobin", text, sizeof text);
    rd_kafka_conf_set_rebalance_cb(conf, on_rebalance);
    c->group_timer.on_timer = on_group_timer;
    return kafka_consumer_conf_open_made(conf, &c->member, ei);
}

void kafka_consumer_group_leave(struct kafka_consumer *c)
{
    if (c->is_leaving)
        return;
    c->is_leaving = true;
    note(c, "leaves", 0);
    kafka_partition_leave_all(c);
    if (c->is_revoking)
        give_back(c);
    rd_kafka_consumer_close(c->member);
}

static bool is_anything_out(const struct kafka_consumer *c)
{
    for (const struct kafka_partition *p = c->list; p; p = p->next)
        if (p->window.n_unsettled)
            return true;
    return false;
}

void kafka_consumer_group_try_leave(struct kafka_consumer *c)
{
    if (!c->member || !atomic_load(&c->is_pausing) || c->is_leaving || c->is_revoking || is_anything_out(c))
        return;
    kafka_consumer_commit(c);
    if (!c->is_committing)
        kafka_consumer_group_leave(c);
}
