/* mqtt_topics: the Kafka topics that rules name, as one worker knows them: looked up at the sink once, made if their rule makes
 * topics, and counted, so that values in messages cannot name more than rules.max_topics in the whole process.
 *
 * A topic without variables needs no count and was made at the start. One that Kafka turns out not to have (any more) is made
 * again for the next message. Functions run on the worker, but for the count. */
#pragma once

#include <pthread.h>

#include "base/list.h"
#include "base/map.h"
#include "core/rule_table.h"
#include "core/sink.h"
#include "loop/wheel.h"

struct mqtt_conn;
struct mqtt_worker;

/* The names that count, of all workers. */
struct mqtt_topic_names {
    pthread_mutex_t lock;
    struct map names;
};

void mqtt_topics_init_names(struct mqtt_topic_names *names);
void mqtt_topics_fini_names(struct mqtt_topic_names *names);

struct mqtt_topic {
    struct sink_topic *sink_topic;
    struct mqtt_worker *mw;
    struct sink_creation creation;
    struct timer retry; /* until it may be asked for again */
    err failure;        /* for so long */
    bool is_made;       /* as far as is known */
    bool is_being_made;
    size_t name_bytes;
    char name[];
};

/* The topic of a record. E_OK: `*out_topic` is set. E_AGAIN: it is being made; never without `may_wait`: the record may then be
 * submitted, Kafka's client keeps it for a moment. E_LIMIT: too many topics. E_DENIED, E_INVAL: the cluster refuses to make it;
 * asked again after a while. */
MUST_USE err mqtt_topics_find(struct mqtt_worker *mw, const struct rule_action *action, struct str name, bool may_wait,
                              struct mqtt_topic **out_topic);

/* Kafka does not know it. */
void mqtt_topics_note_missing(struct mqtt_topic *topic);

/* Releases what the worker has; its loop has stopped. */
void mqtt_topics_free(struct mqtt_worker *mw);
