/* mqtt_adapter: MQTT over TCP for devices and clients: listeners on every worker, connections, and what ties them to the
 * broker and to Kafka. Opened and freed by the main thread; everything else happens on the workers. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/mail.h"
#include "base/str.h"
#include "core/sink.h"
#include "loop/worker.h"
#include "registry/generation.h"

struct broker;
struct command_plane;
struct mqtt_adapter;
struct mailbox;

struct mqtt_adapter_settings {
    struct workers *workers;
    struct sink *sink;              /* lives longer than the adapter */
    struct command_plane *commands; /* the same; NULL: there are no commands */
    struct generation *generation;  /* to begin with; references are taken */
};

/* Binds every MQTT listener of the configuration on every worker and sets up broker and connections; nothing is accepted yet. Before
 * the workers' threads start. E_BUSY: an address is in use; E_INVAL, E_IO: otherwise; `ei` names the listener. */
MUST_USE err mqtt_adapter_open(const struct mqtt_adapter_settings *settings, struct mqtt_adapter **out_adapter,
                               struct errinfo *ei);

/* Begins to accept, on all workers. `done` (its on_mail set by the caller) is posted to `home` when every listener of every
 * worker listens. Any thread, once, after the workers have started. */
void mqtt_adapter_start(struct mqtt_adapter *a, struct mail *done, struct mailbox *home);

/* The address of listener `index` of the configuration, as bound, into `text`. Any thread, before the drain. */
void mqtt_adapter_name(const struct mqtt_adapter *a, size_t index, char *text, size_t size);

/* Ends in an orderly way: listeners close, nothing more is read, what was sent to Kafka is acknowledged as the reports come,
 * then each connection gets a DISCONNECT (0x8B) and closes. Wills are not published: the clients did nothing wrong, and
 * will be told by the closed connection. `done` (its on_mail set by the caller) is posted to `home` when no connection is
 * left. Any thread, once. */
void mqtt_adapter_drain(struct mqtt_adapter *a, struct mail *done, struct mailbox *home);

/* The broker behind the adapter; lives as long as it does. Any thread. */
struct broker *mqtt_adapter_broker(const struct mqtt_adapter *a);

/* After the workers have stopped. NULL is a no-op. */
void mqtt_adapter_free(struct mqtt_adapter *a);
