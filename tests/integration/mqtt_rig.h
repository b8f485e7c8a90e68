/* mqtt_rig: the MQTT adapter with everything behind it but Kafka, whose place the fake sink takes. Its workers are driven by
 * hand, in the test's thread, so that every step is the same each time; or they run, as in the process. For tests only.
 *
 * Tenant t1: devices d1 (password), g1 (password; a gateway for d2), d2, d3; tenant t2: device d1 (password). The listener lets
 * anonymous clients in, for t1. The password is `pw`. */
#pragma once

#include "adapter/mqtt/mqtt_adapter.h"
#include "adapter/mqtt/mqtt_metrics.h"
#include "fake/fake_sink.h"
#include "fake/mqtt_peer.h"

enum { MQTT_RIG_WORKERS = 2, MQTT_RIG_ID = 24 };

struct mqtt_rig {
    struct workers workers;
    struct loop main; /* a third one, as the server's */
    struct fake_sink sink;
    struct generation *generation;
    struct mqtt_adapter *adapter;
    struct mail started, drained, reloaded;
    unsigned n_reloads;
    bool is_started, is_drained, is_threaded;
    int64_t message_bytes, adapter_bytes, broker_bytes;
};

/* `settings` (up to eight, NULL ends them) are the command line's, as "limits.receive_maximum=3". */
void mqtt_rig_open(struct mqtt_rig *r, const char *const *settings);

/* The same with running threads. */
void mqtt_rig_open_threaded(struct mqtt_rig *r, const char *const *settings);

/* Gives the workers another configuration: `text` (NULL: the rig's own) with settings on top; the latter waits until all have
 * it. */
void mqtt_rig_begin_reload(struct mqtt_rig *r, const char *text, const char *const *settings);
void mqtt_rig_reload(struct mqtt_rig *r, const char *text, const char *const *settings);

/* A generation that nobody uses yet, of a whole configuration. The caller owns a reference. */
struct generation *mqtt_rig_load(const char *text);

/* Takes everything down, whatever state it is in; checks that the ledger balances and that no memory is left. */
void mqtt_rig_close(struct mqtt_rig *r);

/* Lets all loops work, without waiting. */
void mqtt_rig_turn(void *rig);

/* Lets a given worker accept a connection (by a socket pair), or the kernel choose one (over loopback). */
void mqtt_rig_accept(struct mqtt_rig *r, unsigned worker, struct mqtt_peer *p);
void mqtt_rig_connect(struct mqtt_rig *r, struct mqtt_peer *p);

/* A client id, in `id`, whose session is at home on a worker. */
void mqtt_rig_id(struct mqtt_rig *r, unsigned worker, char id[MQTT_RIG_ID]);

/* The worker on which a device's sessions are at home. */
unsigned mqtt_rig_home(const struct mqtt_rig *r, const char *tenant, const char *device);

/* Moves the workers' timers on; the clock itself stays. */
void mqtt_rig_pass_ms(struct mqtt_rig *r, uint64_t ms);

/* in = acknowledged + rejected + dropped + waiting, for every route. */
void mqtt_rig_check_ledger(void);

/* The sum of a metric's series whose labels contain `label` (NULL: all). */
int64_t mqtt_rig_metric(const char *name, const char *label);
