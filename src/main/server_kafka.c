#include "main/server_kafka.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/mem.h"
#include "core/rule_table.h"
#include "main/kafka_options.h"

/* What a tenant's devices and applications use (spec/hono 1.1). All are made when the tenant is first served, so that no
 * application misses its first record because its topic was not there yet. */
static const char *const tenant_topics[] = {"hono.telemetry.", "hono.event.", "hono.command.", "hono.command_response."};

enum { TENANT_TOPICS = sizeof tenant_topics / sizeof *tenant_topics, PATH_BYTES = 4096 };

/* Through a file of its own and a rename: whoever waits for it never reads half an address. */
static err write_bootstrap(const struct server *s, struct errinfo *ei)
{
    char path[PATH_BYTES], fresh[PATH_BYTES + sizeof ".new"];
    const char *dir = s->now->config->data_dir.p;
    FILE *f;

    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return errinfo_set(ei, E_IO, "cannot make the data directory %s: %s", dir, strerror(errno));
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

static struct str topic_name(const char *kind, struct str tenant)
{
    size_t kind_bytes = strlen(kind);
    char *name = mem_alloc(MEM_KAFKA, kind_bytes + tenant.n + 1);

    memcpy(name, kind, kind_bytes);
    memcpy(name + kind_bytes, tenant.p, tenant.n);
    name[kind_bytes + tenant.n] = '\0';
    return (struct str){name, kind_bytes + tenant.n};
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

/* Appends each once: CreateTopics refuses a name that is there twice. */
static size_t add_rule_topics(const struct rule_table *rules, struct str *names, size_t n)
{
    for (size_t i = 0; i < rule_table_count(rules); i++) {
        for (size_t k = 0; k < rule_table_at(rules, i)->n_actions; k++) {
            const struct rule_action *action = &rule_table_at(rules, i)->actions[k];
            size_t at = 0;

            if (!is_made_at_start(action))
                continue;
            while (at < n && !str_equal(names[at], rule_template_fixed(&action->topic)))
                at++;
            if (at == n)
                names[n++] = topic_name("", rule_template_fixed(&action->topic));
        }
    }
    return n;
}

void server_kafka_ensure_topics(struct server *s)
{
    size_t n_tenants = registry_tenant_count(s->now->registry), n = 0;

    s->topic_names =
        mem_alloc(MEM_KAFKA, (n_tenants * TENANT_TOPICS + count_rule_topics(s->now->rules)) * sizeof *s->topic_names);
    for (size_t i = 0; i < n_tenants; i++) {
        const struct registry_tenant *ten = registry_tenant_at(s->now->registry, i);

        for (size_t kind = 0; kind < TENANT_TOPICS && ten->is_enabled; kind++)
            s->topic_names[n++] = topic_name(tenant_topics[kind], ten->id);
    }
    n = add_rule_topics(s->now->rules, s->topic_names, n);
    s->topics.names = s->topic_names;
    s->topics.n_names = n;
    kafka_ensure_topics(s->kafka, &s->topics);
}

void server_kafka_free_topics(struct server *s)
{
    for (size_t i = 0; i < s->topics.n_names; i++)
        mem_free(MEM_KAFKA, (void *)(uintptr_t)s->topic_names[i].p);
    mem_free(MEM_KAFKA, s->topic_names);
}
