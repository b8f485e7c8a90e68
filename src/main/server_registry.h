/* server_registry: the registry's table, who hashes for it, and who manages it: from the data directory to routes of the administration
 * port. Changes are told in Kafka, topics of new tenants are made, and whoever was disabled or removed is disconnected.
 * The main thread; only for main/. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/mail.h"
#include "http/http_route.h"
#include "loop/wheel.h"
#include "main/registry_provision.h"
#include "main/registry_records.h"
#include "main/server_table.h"
#include "registry/registry_loader.h"

struct generation;
struct hash_pool;
struct manage;
struct registry_view;
struct server;
struct tenant_creation;

struct server_registry {
    struct server *server;
    struct server_table table;
    struct hash_pool *pool;
    struct registry_view *view;
    struct manage *manage; /* NULL: nothing is managed */
    struct registry_records records;
    struct registry_provisioner provisioner;
    struct registry_loader loader;
    struct mail opened, *ready; /* NULL: it was posted */
    struct mail changed;        /* of the view: somebody may have to leave */
    struct mail looked;
    struct timer look_timer;
    bool is_looking, has_changed, is_stopped;
    struct tenant_creation *creations; /* topics that are being made */
};

/* Opens the table, in the data directory or with its log in Kafka; `ready` (its on_mail set) is posted to the main loop when the view has reached the end of the log.
 * After Kafka was opened and before the adapters are. E_*: the reason is in `ei`; server_registry_free() is due in any case. */
MUST_USE err server_registry_open(struct server *s, struct mail *ready, struct errinfo *ei);

/* The routes for the administration port. None without management. */
const struct http_route *server_registry_routes(const struct server_registry *r, size_t *out_n);

/* A registry that is not used yet is to know what is managed. */
void server_registry_prepare(struct server_registry *r, struct generation *next);

/* Another configuration holds: its users may manage, and so on. */
void server_registry_use(struct server_registry *r, const struct generation *next);

/* Answers whoever waits for a change; after the administration port was closed, before the workers stop. */
void server_registry_stop(struct server_registry *r);

/* After the workers and Kafka have stopped. */
void server_registry_free(struct server_registry *r);
