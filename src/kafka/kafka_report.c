#include "kafka/kafka_report.h"

#include "base/check.h"
#include "base/log.h"
#include "kafka/kafka_error.h"
#include "kafka/kafka_metrics.h"
#include "loop/mailbox.h"

enum {
    BATCH = 256,
    GROUPS = 16, /* mailboxes collected at a time; with more of them some get several smaller chains */
};

struct group {
    struct mailbox *home;
    struct mail_chain chain;
};

struct answers {
    struct group groups[GROUPS];
    size_t n_groups;
    uint64_t bytes;
    size_t counts[OUTCOMES];
};

static void post(struct answers *a)
{
    for (size_t i = 0; i < a->n_groups; i++)
        mailbox_post_chain(a->groups[i].home, &a->groups[i].chain);
    a->n_groups = 0;
}

static struct group *group_of(struct answers *a, struct mailbox *home)
{
    for (size_t i = 0; i < a->n_groups; i++)
        if (a->groups[i].home == home)
            return &a->groups[i];
    if (a->n_groups == GROUPS)
        post(a);
    a->groups[a->n_groups] = (struct group){.home = home};
    return &a->groups[a->n_groups++];
}

static bool is_purged(const rd_kafka_message_t *m)
{
    return m->err == RD_KAFKA_RESP_ERR__PURGE_QUEUE || m->err == RD_KAFKA_RESP_ERR__PURGE_INFLIGHT;
}

/* Purged records are answered because somebody stopped or replaced the producer, which has a log line of its own. */
static void log_failure(const rd_kafka_message_t *m, enum outcome outcome)
{
    if (is_purged(m))
        return;
    LOG_WARN(LOG_KAFKA, "kafka.record_failed", F_TEXT("topic", rd_kafka_topic_name(m->rkt)),
             F_TEXT("outcome", sink_outcome_name(outcome)), F_TEXT("error", rd_kafka_err2name(m->err)));
}

/* Stored, as far as the broker itself has said so. When a later batch of a partition is stored, librdkafka takes the earlier ones
 * for stored as well, whose own answer was an error or never came: without an offset. A broker that has not heard of our producer
 * on that partition before (a new topic, a new producer, one it has forgotten) accepts the later batch although the earlier one
 * was refused, so that is no proof. The record may be there; whoever sent it must be told that we do not know. */
static bool is_confirmed(const rd_kafka_message_t *m)
{
    return m->offset >= 0;
}

static void answer(struct answers *a, const struct kafka_producer *p, const rd_kafka_message_t *m)
{
    struct delivery *d = m->_private;
    enum outcome outcome = OUTCOME_STORED;

    if (m->err) {
        outcome = is_purged(m) ? kafka_error_fatal_outcome(p->fatal_code) : kafka_error_outcome(m->err);
        log_failure(m, outcome);
    } else if (!is_confirmed(m)) {
        outcome = OUTCOME_UNAVAILABLE;
        LOG_WARN(LOG_KAFKA, "kafka.record_unconfirmed", F_TEXT("topic", rd_kafka_topic_name(m->rkt)),
                 F_INT("partition", m->partition));
    }
    d->outcome = outcome;
    a->bytes += d->charged_bytes;
    a->counts[outcome]++;
    mailbox_chain(&group_of(a, d->home)->chain, &d->mail);
}

size_t kafka_report_answer(struct kafka_sink *ks, struct kafka_producer *p, rd_kafka_event_t *event)
{
    const rd_kafka_message_t *messages[BATCH];
    struct answers a = {0};
    size_t n, total = 0;

    while ((n = rd_kafka_event_message_array(event, messages, BATCH)) > 0) {
        for (size_t i = 0; i < n; i++)
            answer(&a, p, messages[i]);
        total += n;
    }
    for (size_t i = 0; i < OUTCOMES; i++)
        if (a.counts[i])
            kafka_metrics_add_records((enum outcome)i, a.counts[i]);
    post(&a);
    kafka_budget_give(&ks->budget, a.bytes, total);
    /* Last: when this count is 0, everything of this producer has been answered. */
    atomic_fetch_sub(&p->records, total);
    return a.counts[OUTCOME_STORED];
}
