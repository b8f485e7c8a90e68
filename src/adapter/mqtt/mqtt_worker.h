/* mqtt_worker: what one worker holds of the MQTT adapter: its listeners, connections, those that wait for room, and the Kafka
 * topics of the tenants it has met. Only for the files of this folder; one thread. */
#pragma once

#include <stdatomic.h>

#include "adapter/ledger.h"
#include "adapter/mqtt/mqtt_adapter.h"
#include "adapter/mqtt/mqtt_topics.h"
#include "adapter/tenant_topics.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "base/slab.h"
#include "broker/broker.h"
#include "broker/broker_refresh.h"
#include "core/device_topic.h"
#include "core/rule_record.h"
#include "loop/listener.h"
#include "loop/resolver.h"

struct http_client;
struct http_client_options;
struct mqtt_mapping;
struct mqtt_worker;

struct mqtt_listener {
    struct listener listener;
    struct mqtt_worker *mw;
    uint8_t index; /* in the configuration */
};

struct mqtt_worker {
    struct mqtt_adapter *adapter;
    struct worker *worker;
    struct shard *shard;
    struct generation *generation; /* what holds now; changes between two packets only (mqtt_reload.h) */
    struct generation *next_generation;
    struct broker_refresh refresh;
    struct mail look;                           /* mqtt_reload_look() */
    bool is_refreshing, owes_reload, owes_look; /* a pass over the sessions, and who waits for its end */
    uint8_t *rule_routes, *next_rule_routes;    /* enum ledger_route of each rule of the generation */
    struct mqtt_listener *listeners;
    struct list connections;    /* all of them but those that wait */
    struct list waiting_topics; /* for a Kafka topic that is being made */
    struct list waiting;        /* for room in Kafka's budget or in a mailbox, first come first served */
    struct sink_waiter room;
    struct timer retry; /* for room in a mailbox, which nobody announces */
    struct tenant_topics tenant_topics;
    struct map rule_topics;      /* mqtt_topics.h */
    struct rule_scratch scratch; /* for the records of one message */
    struct buf event;            /* for the text of one event */
    struct slab conn_slab, pending_slab, part_slab, connection_event_slab;
    struct http_client *mapper; /* the next four: mqtt_mapper.h; NULL: not used yet */
    struct http_client_options *mapper_options;
    struct map command_sets;          /* mqtt_commands.h */
    struct list commands_out;         /* mqtt_command_out.h */
    struct mqtt_mapping *mapped_will; /* whose answer is being used */
    unsigned will_origin;             /* of the will that is being published: its listener */
    struct mail start, drain, reload;
    uint32_t n_connections;
    bool is_draining, is_drained;
};

struct mqtt_adapter {
    struct mqtt_adapter_settings settings;
    struct broker *broker;
    struct mqtt_worker *workers;
    unsigned n_workers;
    struct mqtt_topic_names names;
    struct resolver resolver;  /* of mappers' names */
    atomic_uint n_connections; /* of all workers, for the limit */
    atomic_uint n_unstarted, n_undrained, n_unreloaded, n_unlooked;
    struct mail *started;
    struct mailbox *started_home;
    struct mail *drained;
    struct mailbox *drained_home;
    struct mail *reloaded, *looked;
    struct mailbox *reloaded_home, *looked_home;
};

static inline const struct config *mqtt_config(const struct mqtt_worker *mw)
{
    return mw->generation->config;
}

static inline const struct config_limits *mqtt_limits(const struct mqtt_worker *mw)
{
    return &mw->generation->config->limits;
}

static inline struct registry *mqtt_registry(const struct mqtt_worker *mw)
{
    return mw->generation->registry;
}

static inline const struct rule_table *mqtt_rule_table(const struct mqtt_worker *mw)
{
    return mw->generation->rules;
}

/* The worker of a shard of the adapter's broker. */
struct mqtt_worker *mqtt_worker_of(struct mqtt_adapter *a, const struct shard *shard);

/* Sets up the worker's part, without listeners; and takes it down when the threads have stopped. */
void mqtt_worker_init(struct mqtt_worker *mw, struct mqtt_adapter *a, struct worker *w);
void mqtt_worker_fini(struct mqtt_worker *mw);

/* After the threads have stopped: closes listeners and connections. What that needs happens in the turns of the loop that
 * follow. Also for connections that came by mail since the last call. */
void mqtt_worker_close(struct mqtt_worker *mw);

/* Lets waiting connections go on, some at a time. */
void mqtt_worker_resume(struct mqtt_worker *mw);

/* Lets all connections try again that wait for a topic. */
void mqtt_worker_resume_topics(struct mqtt_worker *mw);

/* A connection has gone; the drain may be complete by that. */
void mqtt_worker_count_closed(struct mqtt_worker *mw);
