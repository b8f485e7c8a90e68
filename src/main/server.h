/* server: all that one serving process consists of, and its life:
 *
 *   STARTING --registry and routes read, topics exist--> READY --SIGTERM--> DRAINING --nothing left--> the loop stops
 *
 * Kafka that goes away does not leave READY: devices stay connected and wait (design: back-pressure). Only for main/. */
#pragma once

#include "adapter/http/http_adapter.h"
#include "adapter/mqtt/mqtt_adapter.h"
#include "admin/admin.h"
#include "authority/authority_plane.h"
#include "kafka/kafka.h"
#include "loop/worker.h"
#include "main/reload.h"
#include "main/server_command.h"
#include "main/server_command_link.h"
#include "main/server_command_topics.h"
#include "main/server_fanout.h"
#include "main/server_feed.h"
#include "main/server_registry.h"
#include "main/server_routes.h"
#include "main/server_usage.h"
#include "main/server_usage_share.h"
#include "registry/generation.h"
#include "registry/registry.h"

enum server_state { SERVER_STARTING, SERVER_READY, SERVER_DRAINING };

struct server {
    struct loop loop;       /* the main thread's */
    struct generation *now; /* what holds */
    struct kafka *kafka;
    struct workers workers;
    struct mqtt_adapter *mqtt;
    struct http_adapter *http;
    struct server_feed feed;
    struct server_command command;
    struct server_command_link command_link;
    struct server_command_topics command_topics;
    struct server_fanout fanout; /* absent without a section `fanout` */
    struct server_registry registry;
    struct server_routes routes;
    struct server_usage usage;
    struct server_usage_share usage_share;
    struct authority_plane authority;
    struct admin *admin;
    struct io signals;
    struct timer drain_timer;
    struct mail mqtt_started, mqtt_drained, http_started, http_drained, fanout_started, fanout_drained, registry_ready,
        routes_ready, command_left, routes_left, topics_ready, topics_left;
    unsigned n_unready;   /* registry, routes, and the topic between instances */
    unsigned n_undrained; /* adapters, and the fan-out; then the subscriptions; then the routes; then that topic */
    bool is_leaving;      /* the routes are */
    struct kafka_drain kafka_drain;
    struct server_topics *topics; /* of the start */
    struct reload reload;
    enum server_state state;
    bool workers_run;
    bool is_kafka_draining;
    int status; /* of the process */
};

/* What a server begins with. */
struct server_start {
    const struct cli *cli;         /* borrowed as long as the server lives */
    struct generation *first;      /* the reference is taken */
    struct file_watch_stamp stamp; /* of the file, from before it was read */
};

/* Sets up everything, up to running workers and a Kafka that is asked for its topics. E_*: the reason is in `ei`; server_fini() is
 * due in any case. */
MUST_USE err server_init(struct server *s, const struct server_start *start, struct errinfo *ei);

/* Stops what runs and releases all. */
void server_fini(struct server *s);

/* Begins the orderly end: see mqtt_adapter_drain() and kafka_drain(). A second call ends at once. */
void server_drain(struct server *s);
