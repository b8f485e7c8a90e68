/* server_table: a table of the process (table/table.h) with what it stands on: its view in the data directory, and its log there or in Kafka.
 * The main thread; only for main/. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/mail.h"
#include "kafka/kafka_table_log.h"
#include "store/store.h"

struct config;
struct server;
struct table;
struct table_log;
struct table_ops;

struct server_table_options {
    const char *name;            /* of the table; lives as long */
    const struct table_ops *ops; /* with their context */
    void *context;
    const char *view, *log;         /* the databases' names in the data directory; the log's only if it is there */
    enum store_durability log_kept; /* STORE_REBUILDABLE: a damaged log is replaced by an empty one */
    bool is_shared;                 /* the log is in Kafka */
};

/* All-zero is closed. */
struct server_table {
    struct server *server;
    const char *name;
    struct store *view_store, *log_store;
    struct table_log *log; /* in Kafka if is_shared, else over log_store */
    bool is_shared;
    struct kafka_table_topics topics; /* of the log in Kafka */
    struct table *table;
};

/* Opens it; `opened` (its on_mail set) is posted to the main loop when the view has reached the end of the log, which waits for Kafka and for its
 * topics: those that are wrong end the process. After Kafka was opened. E_*: the reason is in `ei`; server_table_close() is due in any case. */
MUST_USE err server_table_open(struct server *s, const struct server_table_options *options, struct mail *opened,
                               struct server_table *t, struct errinfo *ei);

/* After Kafka and the workers have stopped. Requests that wait are answered, by mail. */
void server_table_close(struct server_table *t);

/* Opens a database of this name in the data directory, which is made if it is missing; `options->path` is filled in. E_*: the reason is in `ei`. */
MUST_USE err server_table_open_store(const struct config *config, const char *name, const struct store_options *options,
                                     struct store **out, struct errinfo *ei);
