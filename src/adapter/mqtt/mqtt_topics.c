#include "adapter/mqtt/mqtt_topics.h"

#include "adapter/mqtt/mqtt_conn.h"
#include "adapter/mqtt/mqtt_metrics.h"
#include "adapter/mqtt/mqtt_worker.h"
#include "base/check.h"
#include "base/log.h"
#include "base/siphash.h"

enum { RETRY_MS = 5000 }; /* after the cluster refused to make a topic */

/* --- the count --- */

static bool is_text(const void *entry, const void *key)
{
    const struct str *name = entry;

    return str_equal(*name, *(const struct str *)key);
}

void mqtt_topics_init_names(struct mqtt_topic_names *names)
{
    *names = (struct mqtt_topic_names){.lock = PTHREAD_MUTEX_INITIALIZER};
}

void mqtt_topics_fini_names(struct mqtt_topic_names *names)
{
    uint32_t cursor = 0;
    void *name;

    while ((name = map_next(&names->names, &cursor)))
        mem_free(MEM_ADAPTER, name);
    mqtt_metrics_count(MQTT_COUNT_RULE_TOPICS, -(int64_t)names->names.n_entries);
    map_free(&names->names, MEM_ADAPTER);
}

static void add_name(struct mqtt_topic_names *names, struct str name)
{
    struct str *entry = mem_alloc(MEM_ADAPTER, sizeof *entry + name.n);
    char *text = (char *)(entry + 1);

    memcpy(text, name.p, name.n);
    *entry = (struct str){text, name.n};
    map_add(&names->names, MEM_ADAPTER, siphash(name), entry);
    mqtt_metrics_count(MQTT_COUNT_RULE_TOPICS, 1);
}

/* Once for each worker and name; nothing is done under the lock but a look-up. */
static bool admit(struct mqtt_topic_names *names, struct str name, uint64_t max)
{
    bool is_known;

    pthread_mutex_lock(&names->lock);
    is_known = map_find(&names->names, siphash(name), &name, is_text) != NULL;
    if (!is_known && names->names.n_entries < max) {
        add_name(names, name);
        is_known = true;
    }
    pthread_mutex_unlock(&names->lock);
    return is_known;
}

/* --- a worker's topics --- */

static bool has_name(const void *entry, const void *key)
{
    const struct mqtt_topic *topic = entry;

    return str_equal((struct str){topic->name, topic->name_bytes}, *(const struct str *)key);
}

static void on_retry(struct timer *t)
{
    CONTAINER_OF(t, struct mqtt_topic, retry)->failure = E_OK;
}

static void on_created(struct mail *m)
{
    struct mqtt_topic *topic = CONTAINER_OF(m, struct mqtt_topic, creation.mail);
    struct mqtt_worker *mw = topic->mw;

    topic->is_being_made = false;
    topic->failure = topic->creation.result;
    topic->is_made = topic->failure == E_OK;
    if (!topic->is_made) {
        wheel_start(&mw->worker->loop.wheel, &topic->retry, RETRY_MS);
        LOG_WARN(LOG_MQTT, "rule.topic_refused", F_STR("topic", topic->creation.name), F_TEXT("why", err_name(topic->failure)));
    }
    mqtt_worker_resume_topics(mw);
}

static struct mqtt_topic *topic_new(struct mqtt_worker *mw, const struct rule_action *action, struct str name)
{
    struct mqtt_topic *topic = mem_alloc_zero(MEM_ADAPTER, sizeof *topic + name.n);

    topic->mw = mw;
    topic->retry.on_timer = on_retry;
    topic->name_bytes = name.n;
    memcpy(topic->name, name.p, name.n);
    topic->sink_topic = sink_find_topic_limited(mw->adapter->settings.sink, name, action->limit_ms);
    ASSERT(topic->sink_topic); /* the table has seen to it that every name is legal */
    topic->is_made = rule_template_is_fixed(&action->topic);
    map_add(&mw->rule_topics, MEM_ADAPTER, siphash(name), topic);
    return topic;
}

static void make(struct mqtt_topic *topic)
{
    mqtt_metrics_count(MQTT_COUNT_TOPICS_MADE, 1);
    topic->is_being_made = true;
    topic->creation = (struct sink_creation){
        .mail = {.on_mail = on_created},
        .home = &topic->mw->worker->loop.mailbox,
        .name = {topic->name, topic->name_bytes},
    };
    sink_create_topic(topic->mw->adapter->settings.sink, &topic->creation);
}

/* E_OK: there is nothing to wait for. */
static err see_to_creation(struct mqtt_topic *topic, bool may_wait)
{
    if (!topic->is_being_made) {
        if (topic->failure != E_OK)
            return topic->failure;
        make(topic);
    }
    return may_wait ? E_AGAIN : E_OK;
}

err mqtt_topics_find(struct mqtt_worker *mw, const struct rule_action *action, struct str name, bool may_wait,
                     struct mqtt_topic **out_topic)
{
    struct mqtt_topic *topic = map_find(&mw->rule_topics, siphash(name), &name, has_name);
    err e = E_OK;

    if (!topic) {
        if (!rule_template_is_fixed(&action->topic) && !admit(&mw->adapter->names, name, mqtt_config(mw)->rules_max_topics))
            return E_LIMIT;
        topic = topic_new(mw, action, name);
    }
    if (action->is_creating && !topic->is_made)
        e = see_to_creation(topic, may_wait);
    if (e == E_OK)
        *out_topic = topic;
    return e;
}

void mqtt_topics_note_missing(struct mqtt_topic *topic)
{
    topic->is_made = false;
}

void mqtt_topics_free(struct mqtt_worker *mw)
{
    uint32_t cursor = 0;
    struct mqtt_topic *topic;

    while ((topic = map_next(&mw->rule_topics, &cursor))) {
        wheel_stop(&topic->retry);
        mem_free(MEM_ADAPTER, topic);
    }
    map_free(&mw->rule_topics, MEM_ADAPTER);
}
