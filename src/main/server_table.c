#include "main/server_table.h"

#include <stdio.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/log.h"
#include "main/kafka_options.h"
#include "main/process.h"
#include "main/server.h"
#include "table/table.h"
#include "table/table_log_local.h"

enum { PATH_BYTES = 4096, PARTITIONS = 1 /* one order for everything: see docs/adr/0020 and 0021 */ };

err server_table_open_store(const struct config *config, const char *name, const struct store_options *options,
                            struct store **out, struct errinfo *ei)
{
    struct store_options with_path = *options;
    char path[PATH_BYTES];
    err e = process_make_data_dir(config, ei);

    if (e != E_OK)
        return e;
    if (snprintf(path, sizeof path, "%s/%s", config->data_dir.p, name) >= (int)sizeof path)
        return errinfo_set(ei, E_INVAL, "the path of data_dir is too long");
    with_path.path = path;
    return store_open(&with_path, out, ei);
}

static err open_store(const struct server_table *t, const char *name, enum store_durability durability, struct store **out,
                      struct errinfo *ei)
{
    const struct store_options options = {.durability = durability};
    err e = server_table_open_store(t->server->now->config, name, &options, out, ei);

    if (e == E_OK && store_damage(*out))
        LOG_WARN(LOG_TABLE, "store.replaced", F_TEXT("table", t->name), F_TEXT("store", name),
                 F_TEXT("why", store_damage(*out)));
    return e;
}

/* A table whose topics are wrong is worse than none. */
static void on_topics(struct mail *m)
{
    struct kafka_table_topics *topics = CONTAINER_OF(m, struct kafka_table_topics, topics.mail);
    struct server_table *t = CONTAINER_OF(topics, struct server_table, topics);

    if (topics->topics.result.code == E_OK || topics->topics.result.code == E_CLOSED)
        return;
    LOG_ERROR(LOG_TABLE, "topics.failed", F_TEXT("table", t->name), F_TEXT("why", topics->topics.result.text));
    t->server->status = 1;
    loop_stop(&t->server->loop);
}

/* The log waits for its topics, as for Kafka. */
static err open_shared_log(struct server_table *t, struct errinfo *ei)
{
    struct kafka *kafka = t->server->kafka;
    struct kafka_settings settings;
    struct arena scratch = {0};
    err e;

    kafka_options_make(&scratch, t->server->now->config, &settings);
    kafka_table_log_topics(kafka, t->name, PARTITIONS, 0, &t->topics);
    t->topics.topics.mail.on_mail = on_topics;
    t->topics.topics.home = &t->server->loop.mailbox;
    e = kafka_table_log_open(kafka, &settings, t->name, PARTITIONS, &t->log, ei);
    arena_free(&scratch, MEM_CONFIG);
    if (e == E_OK)
        kafka_ensure_topics(kafka, &t->topics.topics);
    return e;
}

static err open_local_log(struct server_table *t, const struct server_table_options *options, struct errinfo *ei)
{
    err e = open_store(t, options->log, options->log_kept, &t->log_store, ei);

    return e == E_OK ? table_log_local_open(t->log_store, t->name, PARTITIONS, &t->log, ei) : e;
}

err server_table_open(struct server *s, const struct server_table_options *options, struct mail *opened, struct server_table *t,
                      struct errinfo *ei)
{
    struct table_options table = {
        .name = options->name, .ops = options->ops, .context = options->context, .n_partitions = PARTITIONS};
    err e;

    *t = (struct server_table){.server = s, .name = options->name, .is_shared = options->is_shared};
    e = open_store(t, options->view, STORE_REBUILDABLE, &t->view_store, ei);
    if (e == E_OK)
        e = t->is_shared ? open_shared_log(t, ei) : open_local_log(t, options, ei);
    if (e != E_OK)
        return e;
    table.store = t->view_store;
    table.log = t->log;
    return table_open(&table, opened, &s->loop.mailbox, &t->table, ei);
}

void server_table_close(struct server_table *t)
{
    table_close(t->table);
    if (t->is_shared)
        kafka_table_log_close(t->log);
    else
        table_log_local_close(t->log);
    store_close(t->log_store);
    store_close(t->view_store);
    t->table = NULL;
    t->log = NULL;
    t->log_store = t->view_store = NULL; /* no more: the mail of the topics may be on its way */
}
