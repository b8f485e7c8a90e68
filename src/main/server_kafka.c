#include "main/server_kafka.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/siphash.h"
#include "core/rule_table.h"
#include "main/kafka_options.h"
#include "main/process.h"
#include "main/server.h"

/* What a tenant's devices and applications use (docs/wire/device-data.md). All are made when the tenant is first served, so that no
 * application misses its first record because its topic was not there yet. */
static const char *const tenant_topics[] = {"hono.telemetry.", "hono.event.", "hono.command.", "hono.command_response."};

enum { TENANT_TOPICS = sizeof tenant_topics / sizeof *tenant_topics + 1, PATH_BYTES = 4096 };

/* Through a file of its own and a rename: whoever waits for it never reads half an address. */
static err write_bootstrap(const struct server *s, struct errinfo *ei)
{
    char path[PATH_BYTES], fresh[PATH_BYTES + sizeof ".new"];
    const char *dir = s->now->config->data_dir.p;
    err e = process_make_data_dir(s->now->config, ei);
    FILE *f;

    if (e != E_OK)
        return e;
    if (snprintf(path, sizeof path, "%s/kafka.bootstrap", dir) >= (int)sizeof path)
        return errinfo_set(ei, E_IO, "the path of the data directory is too long");
    snprintf(fresh, sizeof fresh, "%s.new", path);
    f = fopen(fresh, "we");
    if (!f)
        return errinfo_set(ei, E_IO, "cannot write %s: %s", fresh, strerror(errno));
    fprintf(f, "%.*s\n", STR_ARG(kafka_bootstrap(s->kafka)));
    if (fclose(f) != 0 || rename(fresh, path) != 0)
        return errinfo_set(ei, E_IO, "cannot write %s: %s", path, strerror(errno));
    return E_OK;
}

err server_kafka_open(struct server *s, struct errinfo *ei)
{
    struct arena scratch = {0};
    struct kafka_settings settings;
    err e;

    kafka_options_make(&scratch, s->now->config, &settings);
    e = kafka_open(&settings, &s->kafka, ei);
    arena_free(&scratch, MEM_CONFIG);
    return e == E_OK && s->now->config->kafka.is_embedded ? write_bootstrap(s, ei) : e;
}

static struct str topic_name(struct str kind, const char *separator, struct str tenant)
{
    size_t n = kind.n + strlen(separator) + tenant.n;
    char *name = mem_alloc(MEM_KAFKA, n + 1);

    snprintf(name, n + 1, "%.*s%s%.*s", STR_ARG(kind), separator, STR_ARG(tenant));
    return (struct str){name, n};
}

/* Those of one tenant, owned; at most TENANT_TOPICS. */
static size_t list_tenant_topics(const struct config *config, struct str tenant, struct str *names)
{
    size_t n = 0;

    for (size_t i = 0; i < sizeof tenant_topics / sizeof *tenant_topics; i++)
        names[n++] = topic_name(str_from(tenant_topics[i]), "", tenant);
    if (!config_acks_in_responses(config))
        names[n++] = topic_name(config->command.ack_topic, ".", tenant);
    return n;
}

static bool is_made_at_start(const struct rule_action *action)
{
    return action->is_creating && rule_template_is_fixed(&action->topic);
}

/* Topics that rules make and that have no variables: those with are made when they are met. */
static size_t count_rule_topics(const struct rule_table *rules)
{
    size_t n = 0;

    for (size_t i = 0; i < rule_table_count(rules); i++)
        for (size_t k = 0; k < rule_table_at(rules, i)->n_actions; k++)
            n += is_made_at_start(&rule_table_at(rules, i)->actions[k]);
    return n;
}

/* Every topic that must exist for a generation, owned, some perhaps twice; their number. */
static size_t list_topics(const struct generation *g, struct str **out_names)
{
    size_t n_tenants = registry_tenant_count(g->registry), n = 0;
    struct str *names = mem_alloc(MEM_KAFKA, (n_tenants * TENANT_TOPICS + count_rule_topics(g->rules) + 1) * sizeof *names);

    for (size_t i = 0; i < n_tenants; i++) {
        const struct registry_tenant *ten = registry_tenant_at(g->registry, i);

        if (ten->is_enabled)
            n += list_tenant_topics(g->config, ten->id, names + n);
    }
    for (size_t i = 0; i < rule_table_count(g->rules); i++) {
        const struct rule *rule = rule_table_at(g->rules, i);

        for (size_t k = 0; k < rule->n_actions; k++)
            if (is_made_at_start(&rule->actions[k]))
                names[n++] = topic_name(rule_template_fixed(&rule->actions[k].topic), "", (struct str){0});
    }
    *out_names = names;
    return n;
}

static void free_name(struct str name)
{
    mem_free(MEM_KAFKA, (void *)(uintptr_t)name.p);
}

static bool is_text(const void *entry, const void *key)
{
    return str_equal(str_from(entry), *(const struct str *)key);
}

/* Whether it was not there yet; the map borrows it. */
static bool add_once(struct map *known, struct str name)
{
    uint64_t hash = siphash(name);

    if (map_find(known, hash, &name, is_text))
        return false;
    map_add(known, MEM_KAFKA, hash, (void *)(uintptr_t)name.p);
    return true;
}

/* Each once: CreateTopics refuses a name that is there twice. */
struct server_topics *server_kafka_missing_topics(const struct generation *before, const struct generation *after)
{
    struct server_topics *topics = mem_alloc_zero(MEM_KAFKA, sizeof *topics);
    struct str *there = NULL;
    size_t n_there = before ? list_topics(before, &there) : 0, n = list_topics(after, &topics->names);
    struct map known = {0};

    for (size_t i = 0; i < n_there; i++)
        (void)add_once(&known, there[i]);
    for (size_t i = 0; i < n; i++) {
        if (add_once(&known, topics->names[i]))
            topics->names[topics->request.n_names++] = topics->names[i];
        else
            free_name(topics->names[i]);
    }
    map_free(&known, MEM_KAFKA);
    for (size_t i = 0; i < n_there; i++)
        free_name(there[i]);
    mem_free(MEM_KAFKA, there);
    topics->request.names = topics->names;
    if (before && topics->request.n_names == 0) {
        server_kafka_free_topics(topics);
        return NULL;
    }
    return topics;
}

struct server_topics *server_kafka_tenant_topics(const struct config *config, struct str tenant)
{
    struct server_topics *topics = mem_alloc_zero(MEM_KAFKA, sizeof *topics);

    topics->names = mem_alloc(MEM_KAFKA, TENANT_TOPICS * sizeof *topics->names);
    topics->request.n_names = list_tenant_topics(config, tenant, topics->names);
    topics->request.names = topics->names;
    return topics;
}

void server_kafka_free_topics(struct server_topics *topics)
{
    if (!topics)
        return;
    for (size_t i = 0; i < topics->request.n_names; i++)
        free_name(topics->names[i]);
    mem_free(MEM_KAFKA, topics->names);
    mem_free(MEM_KAFKA, topics);
}
