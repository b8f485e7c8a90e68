#include "main/kafka_acls.h"

#include <stdbool.h>

#include "base/check.h"
#include "core/rule_table.h"

/* Operations, in the order in which they are printed. */
enum { READ = 1u << 0, WRITE = 1u << 1, DESCRIBE = 1u << 2, CREATE = 1u << 3, DELETE = 1u << 4, DESCRIBE_CONFIGS = 1u << 5 };

static const struct {
    unsigned bit;
    const char *name;
} operations[] = {{READ, "Read"},     {WRITE, "Write"},   {DESCRIBE, "Describe"},
                  {CREATE, "Create"}, {DELETE, "Delete"}, {DESCRIBE_CONFIGS, "DescribeConfigs"}};

/* One resource: `name` behind the configured prefix for topics. */
struct grant {
    const char *principal;
    const char *type; /* "--topic", "--group", "--transactional-id" */
    struct str prefix, name;
    bool is_prefixed; /* everything that begins so */
    unsigned operations;
};

static void print(FILE *to, const struct grant *g)
{
    struct str name = g->name;

    fprintf(to, "--add --allow-principal %s", g->principal);
    for (size_t i = 0; i < ARRAY_LEN(operations); i++)
        if (g->operations & operations[i].bit)
            fprintf(to, " --operation %s", operations[i].name);
    if (g->is_prefixed && g->prefix.n + name.n == 0)
        fprintf(to, " %s '*'\n", g->type); /* no beginning is known: all there is */
    else
        fprintf(to, " %s '%.*s%.*s'%s\n", g->type, STR_ARG(g->prefix), STR_ARG(name),
                g->is_prefixed ? " --resource-pattern-type prefixed" : "");
}

static struct str kafka_property(const struct config *config, struct str name)
{
    for (size_t i = 0; i < config->kafka.properties.count; i++)
        if (str_equal(config->kafka.properties.items[i].name, name))
            return config->kafka.properties.items[i].value;
    return STR("millrace");
}

/* --- Millrace itself --- */

/* What is read and written for devices. Tenants may come with any reload, and their topics are made then. */
static void print_hono(FILE *to, const struct config *config, const char *principal)
{
    static const struct {
        const char *name;
        unsigned operations;
    } rows[] = {
        {"hono.telemetry.", WRITE | DESCRIBE | CREATE},
        {"hono.event.", WRITE | DESCRIBE | CREATE},
        {"hono.command.", READ | DESCRIBE | CREATE},
        {"hono.command_response.", WRITE | DESCRIBE | CREATE},
    };
    char acks[256];

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        print(to, &(struct grant){.principal = principal,
                                  .type = "--topic",
                                  .prefix = config->kafka.topic_prefix,
                                  .name = str_from(rows[i].name),
                                  .is_prefixed = true,
                                  .operations = rows[i].operations});
    if (config_acks_in_responses(config))
        return;
    snprintf(acks, sizeof acks, "%.*s.", STR_ARG(config->command.ack_topic));
    print(to, &(struct grant){.principal = principal,
                              .type = "--topic",
                              .prefix = config->kafka.topic_prefix,
                              .name = str_from(acks),
                              .is_prefixed = true,
                              .operations = WRITE | DESCRIBE | CREATE});
}

/* A topic of a rule as far as it is the same for every message. */
static void print_rules(FILE *to, const struct config *config, const struct rule_table *rules, const char *principal)
{
    for (size_t i = 0; i < rule_table_count(rules); i++)
        for (size_t k = 0; k < rule_table_at(rules, i)->n_actions; k++) {
            const struct rule_action *action = &rule_table_at(rules, i)->actions[k];
            bool is_fixed = rule_template_is_fixed(&action->topic);

            print(to, &(struct grant){.principal = principal,
                                      .type = "--topic",
                                      .prefix = config->kafka.topic_prefix,
                                      .name = is_fixed ? rule_template_fixed(&action->topic) : action->topic.pieces[0].text,
                                      .is_prefixed = !is_fixed,
                                      .operations = WRITE | DESCRIBE | (action->is_creating ? CREATE : 0u)});
        }
}

/* The beginning of a regular expression or of a name with variables that every match has. */
static struct str fixed_beginning(struct str topic, bool *out_is_whole)
{
    static const char specials[] = "^$.[]|()?*+{}\\";
    bool is_expression = topic.n && topic.p[0] == '^';
    struct str name = is_expression ? str_from_offset(topic, 1) : topic;
    size_t n = 0;

    while (n < name.n && (is_expression ? !memchr(specials, name.p[n], sizeof specials - 1) : name.p[n] != '{'))
        n++;
    /* The last character may be repeated never. */
    if (is_expression && n < name.n && n > 0 && memchr("?*{", name.p[n], 3))
        n--;
    *out_is_whole = !is_expression && n == name.n;
    return (struct str){name.p, n};
}

static void print_sources(FILE *to, const struct config *config, const char *principal)
{
    for (size_t i = 0; i < config->to_mqtt_count; i++) {
        bool is_whole;
        struct str name = fixed_beginning(config->to_mqtt[i].topic, &is_whole);

        print(to, &(struct grant){.principal = principal,
                                  .type = "--topic",
                                  .prefix = config->kafka.topic_prefix,
                                  .name = name,
                                  .is_prefixed = !is_whole,
                                  .operations = READ | DESCRIBE});
    }
}

/* A table (docs/wire/tables.md). */
static void print_table(FILE *to, const struct config *config, const char *principal, const char *table)
{
    static const struct {
        const char *type, *end;
        bool is_prefixed;
        unsigned operations;
    } rows[] = {
        {"--topic", ".", true, READ | WRITE | DESCRIBE | CREATE | DESCRIBE_CONFIGS},
        {"--group", "", false, READ},
        {"--transactional-id", ".", true, WRITE | DESCRIBE},
    };
    char name[64];

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        snprintf(name, sizeof name, "millrace.%s%s", table, rows[i].end);
        print(to, &(struct grant){.principal = principal,
                                  .type = rows[i].type,
                                  .prefix = config->kafka.topic_prefix,
                                  .name = str_from(name),
                                  .is_prefixed = rows[i].is_prefixed,
                                  .operations = rows[i].operations});
    }
}

/* Each instance makes and removes its own; and that of one that it has declared dead. */
static void print_command_topics(FILE *to, const struct config *config, const char *principal)
{
    if (config_has_command_topics(config))
        print(to, &(struct grant){.principal = principal,
                                  .type = "--topic",
                                  .prefix = config->kafka.topic_prefix,
                                  .name = STR("hono.command_internal."),
                                  .is_prefixed = true,
                                  .operations = READ | WRITE | DESCRIBE | CREATE | DELETE | DESCRIBE_CONFIGS});
}

static void print_tables(FILE *to, const struct config *config, const char *principal)
{
    if (config->is_registry_shared)
        print_table(to, config, principal, "registry");
    if (config->command.is_shared && !config->kafka.is_embedded)
        print_table(to, config, principal, "routes");
}

/* What is told of changes by the management interface (docs/REGISTRY.md). */
static void print_records(FILE *to, const struct config *config, const char *principal)
{
    struct grant grant = {.principal = principal,
                          .type = "--topic",
                          .prefix = config->kafka.topic_prefix,
                          .name = STR("hono.notification."),
                          .is_prefixed = true,
                          .operations = WRITE | DESCRIBE | CREATE};

    if (!config->is_managed || !config->admin_listen.host.n)
        return;
    print(to, &grant);
    grant.name = config->audit_topic;
    grant.is_prefixed = false;
    if (grant.name.n)
        print(to, &grant);
}

static void print_instance(FILE *to, const struct config *config, const struct rule_table *rules)
{
    char principal[256];

    snprintf(principal, sizeof principal, "User:%.*s", STR_ARG(kafka_property(config, STR("sasl.username"))));
    fprintf(to, "# Millrace itself\n");
    print_hono(to, config, principal);
    print_rules(to, config, rules, principal);
    print_sources(to, config, principal);
    print_tables(to, config, principal);
    print_command_topics(to, config, principal);
    print_records(to, config, principal);
    /* One group an instance, for rules and for commands. */
    print(to, &(struct grant){.principal = principal,
                              .type = "--group",
                              .prefix = config->kafka.group,
                              .name = STR("."),
                              .is_prefixed = true,
                              .operations = READ});
}

/* --- applications --- */

/* No tenant's id has a colon, so that no tenant's groups begin as another's do. */
static void print_tenant(FILE *to, const struct config *config, struct str tenant)
{
    static const struct {
        const char *name;
        unsigned operations;
    } rows[] = {
        {"hono.telemetry.", READ | DESCRIBE},
        {"hono.event.", READ | DESCRIBE},
        {"hono.command_response.", READ | DESCRIBE},
        {"hono.command.", WRITE | DESCRIBE},
    };
    char principal[256], name[512];

    snprintf(principal, sizeof principal, "User:%.*s", STR_ARG(tenant));
    fprintf(to, "# applications of tenant %.*s\n", STR_ARG(tenant));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        snprintf(name, sizeof name, "%s%.*s", rows[i].name, STR_ARG(tenant));
        print(to, &(struct grant){.principal = principal,
                                  .type = "--topic",
                                  .prefix = config->kafka.topic_prefix,
                                  .name = str_from(name),
                                  .operations = rows[i].operations});
    }
    snprintf(name, sizeof name, "%.*s.%.*s", STR_ARG(config->command.ack_topic), STR_ARG(tenant));
    if (!config_acks_in_responses(config))
        print(to, &(struct grant){.principal = principal,
                                  .type = "--topic",
                                  .prefix = config->kafka.topic_prefix,
                                  .name = str_from(name),
                                  .operations = READ | DESCRIBE});
    print(to, &(struct grant){.principal = principal,
                              .type = "--group",
                              .prefix = tenant,
                              .name = STR(":"),
                              .is_prefixed = true,
                              .operations = READ});
}

void kafka_acls_print(FILE *to, const struct config *config, const struct rule_table *rules)
{
    print_instance(to, config, rules);
    for (size_t i = 0; i < config->tenant_count; i++)
        print_tenant(to, config, config->tenants[i].id);
}
