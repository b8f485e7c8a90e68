#include "broker/feed.h"

#include "base/check.h"
#include "base/log.h"
#include "base/siphash.h"
#include "broker/feed_private.h"
#include "core/message.h"

/* How a record's refusal is counted. */
static const enum feed_metric refused[TO_MQTT_REFUSALS] = {
    [TO_MQTT_REFUSED_NO_RULE] = FEED_DROPPED_NO_RULE,     [TO_MQTT_REFUSED_TOPIC] = FEED_DROPPED_TOPIC,
    [TO_MQTT_REFUSED_MATCH] = FEED_DROPPED_MATCH_LIMIT,   [TO_MQTT_REFUSED_HOPS] = FEED_DROPPED_HOP_LIMIT,
    [TO_MQTT_REFUSED_TOO_LARGE] = FEED_DROPPED_TOO_LARGE, [TO_MQTT_REFUSED_EXPIRED] = FEED_DROPPED_EXPIRED,
    [TO_MQTT_REFUSED_NO_MEMORY] = FEED_DROPPED_NO_MEMORY,
};

/* --- records --- */

static uint64_t hold_until(const struct feed_worker *fw, const struct to_mqtt_spec *spec)
{
    uint64_t own = feed_now_ms(fw) + spec->hold_ms, start = fw->feed->started_ms + spec->start_hold_ms;

    return own > start ? own : start;
}

static struct feed_record *record_new(struct feed_worker *fw, struct source_record *r, const struct to_mqtt_message *m,
                                      struct message *message)
{
    const struct to_mqtt_spec *spec = &m->rule->spec;
    struct feed_record *fr = slab_new(&fw->records);

    fr->tracker.mail.on_mail = feed_on_tracker;
    fr->tracker.home = &fw->worker->loop.mailbox;
    fr->fw = fw;
    fr->partition = r->partition;
    fr->record = r;
    fr->message = message;
    fr->offset = r->offset;
    fr->ack_timeout_ms = spec->ack_timeout_ms;
    fr->is_retained = spec->is_retained;
    fr->hold_until_ms = hold_until(fw, spec);
    list_push(&fw->open, &fr->open);
    return fr;
}

/* Whether somebody should look at the record: it was meant for MQTT and cannot go there. */
static bool is_faulty(enum to_mqtt_refusal why)
{
    return why != TO_MQTT_REFUSED_NO_RULE && why != TO_MQTT_REFUSED_EXPIRED;
}

static void refuse(struct feed_worker *fw, struct source_record *r, enum to_mqtt_refusal why)
{
    if (is_faulty(why))
        LOG_WARN(LOG_BROKER, "feed.refused", F_STR("topic", r->partition->topic), F_INT("partition", r->partition->number),
                 F_INT("offset", r->offset), F_TEXT("why", to_mqtt_route_refusal_name(why)));
    feed_count(refused[why], 1);
    feed_count(FEED_WAITING, -1);
    source_settle(fw->feed->source, r);
}

static struct feed_worker *worker_of(struct feed *feed, const struct mailbox *home)
{
    unsigned i = 0;

    while (&feed->workers->list[i].loop.mailbox != home)
        i++;
    return &feed->list[i];
}

/* Made with the partition's first record. Only its worker uses it. */
static struct feed_partition *partition_of(struct source_partition *p)
{
    struct feed *feed = p->reader->context;
    struct feed_partition *fp = p->reader_data;

    if (fp)
        return fp;
    fp = mem_alloc(MEM_BROKER, sizeof *fp);
    *fp = (struct feed_partition){.fw = worker_of(feed, p->home)};
    fp->next = atomic_load(&feed->partitions);
    while (!atomic_compare_exchange_weak(&feed->partitions, &fp->next, fp))
        ;
    p->reader_data = fp;
    return fp;
}

static void on_record(struct mail *mail)
{
    struct source_record *r = CONTAINER_OF(mail, struct source_record, mail);
    struct feed_partition *fp = partition_of(r->partition);
    struct feed_worker *fw = fp->fw;
    struct to_mqtt_message m;
    struct message *message;
    enum to_mqtt_refusal why;

    if (!fp->route)
        fp->route = to_mqtt_route_new(fw->rules, r->partition->topic);
    why = to_mqtt_route_map(fp->route, r, loop_wall_ms(), &m);
    feed_count(FEED_RECORDS, 1);
    feed_count(FEED_WAITING, 1);
    if (why != TO_MQTT_REFUSED_NOTHING) {
        refuse(fw, r, why);
        return;
    }
    message = feed_message_new(fw, r, &m);
    if (!message) {
        refuse(fw, r, TO_MQTT_REFUSED_NO_MEMORY);
        return;
    }
    /* It would never fit into another worker's mailbox. */
    if (message_size(message) > fw->worker->loop.mailbox.limit_bytes) {
        message_unref(message);
        refuse(fw, r, TO_MQTT_REFUSED_TOO_LARGE);
        return;
    }
    source_forget(fw->feed->source, r);
    feed_submit(record_new(fw, r, &m, message));
}

/* Half of what is open in the partition may go on without its acknowledgements, if it stands in queues that have room. */
static void on_full(void *context, struct source_partition *partition)
{
    struct feed_partition *fp = partition_of(partition);
    size_t n = 0, n_moved = 0;

    (void)context;
    for (struct list *link = fp->fw->open.next; link != &fp->fw->open; link = link->next) {
        struct feed_record *fr = CONTAINER_OF(link, struct feed_record, open);

        n += fr->partition == partition && fr->record;
    }
    for (struct list *link = fp->fw->open.next; link != &fp->fw->open && n_moved < n / 2; link = link->next) {
        struct feed_record *fr = CONTAINER_OF(link, struct feed_record, open);

        if (fr->partition != partition || !fr->record || !fr->is_out || atomic_load(&fr->tracker.is_crowded))
            continue;
        feed_settle(fr);
        n_moved++;
    }
    feed_count(FEED_MOVED, (int64_t)n_moved);
    if (n_moved)
        LOG_INFO(LOG_BROKER, "feed.moved", F_STR("topic", partition->topic), F_INT("partition", partition->number),
                 F_INT("records", n_moved));
}

/* --- subscriptions --- */

/* A filter on its way to a worker where something waits. */
struct wake_mail {
    struct mail mail;
    struct feed_worker *fw;
    size_t tenant_bytes, filter_bytes;
    char text[];
};

static void on_wake(struct mail *mail)
{
    struct wake_mail *wake = CONTAINER_OF(mail, struct wake_mail, mail);

    feed_topic_wake(wake->fw, (struct str){wake->text, wake->tenant_bytes},
                    (struct str){wake->text + wake->tenant_bytes, wake->filter_bytes});
    mem_free(MEM_BROKER, wake);
}

static void on_subscribed(void *context, struct shard *shard, struct str tenant, struct str filter)
{
    struct feed *feed = context;

    (void)shard;
    atomic_thread_fence(memory_order_seq_cst); /* see feed_topic_find() */
    for (unsigned i = 0; i < feed->workers->n; i++) {
        struct feed_worker *fw = &feed->list[i];
        struct wake_mail *wake;

        if (atomic_load(&fw->n_topics) == 0)
            continue;
        wake = mem_alloc(MEM_BROKER, sizeof *wake + tenant.n + filter.n);
        *wake = (struct wake_mail){.mail = {.on_mail = on_wake}, .fw = fw, .tenant_bytes = tenant.n, .filter_bytes = filter.n};
        memcpy(wake->text, tenant.p, tenant.n);
        memcpy(wake->text + tenant.n, filter.p, filter.n);
        mailbox_post(&fw->worker->loop.mailbox, &wake->mail);
    }
}

/* --- the reader --- */

static void *ref_rules(void *wants)
{
    return to_mqtt_rules_ref(wants);
}

static void unref_rules(void *wants)
{
    to_mqtt_rules_unref(wants);
}

static int interest(void *wants, struct str topic)
{
    return to_mqtt_rules_find(wants, topic);
}

static struct str name(void *wants, int which)
{
    const struct to_mqtt_rules *rules = wants;

    return (size_t)which < to_mqtt_rules_count(rules) ? to_mqtt_rules_at(rules, (size_t)which)->spec.topic : (struct str){0};
}

static bool begins_at_end(void *wants, int which)
{
    return to_mqtt_rules_at(wants, (size_t)which)->spec.begins_at_end;
}

static struct mailbox *home(void *context, struct str topic, int32_t partition)
{
    const struct feed *feed = context;
    uint64_t place = siphash(topic) + (uint64_t)(uint32_t)partition;

    return &feed->workers->list[place % feed->workers->n].loop.mailbox;
}

/* --- other rules --- */

/* The routes are made anew when records come: what is not wanted any more must not keep the old rules alive. */
static void on_use(struct mail *m)
{
    struct feed_worker *fw = CONTAINER_OF(m, struct feed_worker, use);
    struct feed *feed = fw->feed;

    for (struct feed_partition *fp = atomic_load(&feed->partitions); fp; fp = fp->next) {
        if (fp->fw != fw)
            continue;
        to_mqtt_route_free(fp->route);
        fp->route = NULL;
    }
    to_mqtt_rules_unref(fw->rules);
    fw->rules = fw->next_rules;
    fw->next_rules = NULL;
    if (atomic_fetch_sub(&feed->n_unchanged, 1) == 1)
        mailbox_post(feed->changed_home, feed->changed);
}

void feed_use(struct feed *feed, struct to_mqtt_rules *rules, struct mail *done, struct mailbox *home)
{
    ASSERT(atomic_load(&feed->n_unchanged) == 0);
    feed->changed = done;
    feed->changed_home = home;
    atomic_store(&feed->n_unchanged, feed->workers->n);
    for (unsigned i = 0; i < feed->workers->n; i++) {
        struct feed_worker *fw = &feed->list[i];

        fw->next_rules = to_mqtt_rules_ref(rules);
        mailbox_post(&fw->worker->loop.mailbox, &fw->use);
    }
}

/* --- life --- */

static void init_worker(struct feed *feed, unsigned i, struct to_mqtt_rules *rules)
{
    struct feed_worker *fw = &feed->list[i];

    fw->feed = feed;
    fw->worker = &feed->workers->list[i];
    fw->shard = broker_shard(feed->broker, i);
    fw->rules = to_mqtt_rules_ref(rules);
    fw->use.on_mail = on_use;
    fw->records = (struct slab){.object_bytes = sizeof(struct feed_record), .sub = MEM_BROKER};
    fw->stall_timer.on_timer = feed_on_stall_timer;
    list_init(&fw->open);
    list_init(&fw->stalled);
}

struct feed *feed_new(struct broker *broker, struct workers *workers, struct to_mqtt_rules *rules)
{
    struct feed *feed = mem_alloc_zero(MEM_BROKER, sizeof *feed);

    metrics_register(feed_metrics, FEED_METRICS);
    feed->reader = (struct source_reader){.context = feed,
                                          .ref = ref_rules,
                                          .unref = unref_rules,
                                          .interest = interest,
                                          .name = name,
                                          .begins_at_end = begins_at_end,
                                          .home = home,
                                          .on_record = on_record,
                                          .on_full = on_full};
    feed->watcher = (struct broker_watcher){.context = feed, .on_subscribed = on_subscribed};
    feed->broker = broker;
    feed->workers = workers;
    feed->list = mem_alloc_zero(MEM_BROKER, workers->n * sizeof *feed->list);
    for (unsigned i = 0; i < workers->n; i++)
        init_worker(feed, i, rules);
    broker_watch(broker, &feed->watcher);
    return feed;
}

const struct source_reader *feed_reader(struct feed *feed)
{
    return &feed->reader;
}

void feed_start(struct feed *feed, struct source *source)
{
    feed->source = source;
    feed->started_ms = loop_clock_ms();
}

void feed_drain(struct feed *feed)
{
    atomic_store(&feed->is_draining, true);
}

static void free_worker(struct feed_worker *fw)
{
    while (!list_is_empty(&fw->open)) {
        struct feed_record *fr = CONTAINER_OF(fw->open.next, struct feed_record, open);

        feed_count(FEED_HELD, -(int64_t)fr->is_held);
        feed_count(FEED_WAITING, -1);
        feed_free_record(fr);
    }
    wheel_stop(&fw->stall_timer);
    feed_topic_free_all(fw);
    to_mqtt_rules_unref(fw->rules);
    to_mqtt_rules_unref(fw->next_rules);
    slab_fini(&fw->records);
    buf_free(&fw->properties, MEM_BROKER);
    buf_free(&fw->encoded, MEM_BROKER);
}

void feed_free(struct feed *feed)
{
    struct feed_partition *fp;

    if (!feed)
        return;
    for (unsigned i = 0; i < feed->workers->n; i++)
        free_worker(&feed->list[i]);
    for (fp = atomic_load(&feed->partitions); fp;) {
        struct feed_partition *next = fp->next;

        to_mqtt_route_free(fp->route);
        mem_free(MEM_BROKER, fp);
        fp = next;
    }
    mem_free(MEM_BROKER, feed->list);
    mem_free(MEM_BROKER, feed);
}
