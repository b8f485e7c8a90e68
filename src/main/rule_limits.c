#include "main/rule_limits.h"

#include "config/report.h"

/* An action of `before` that may write the same topic with another limit, or NULL. */
static const struct rule_action *find_other(const struct rule_table *before, const struct rule_action *action)
{
    for (size_t i = 0; i < rule_table_count(before); i++) {
        const struct rule *rule = rule_table_at(before, i);

        for (size_t k = 0; k < rule->n_actions; k++) {
            const struct rule_action *other = &rule->actions[k];

            if (other->limit_ms != action->limit_ms && rule_template_can_meet(&other->topic, &action->topic))
                return other;
        }
    }
    return NULL;
}

static void report(const struct config_to_kafka *rule, size_t k, const struct rule_action *action,
                   const struct rule_action *other, const char *file, struct config_errors *errors)
{
    bool has_actions = rule->action_count > 0;
    struct str id = has_actions ? rule->actions[k].id : rule->id;

    report_error(errors, file, has_actions ? rule->actions[k].line : rule->line,
                 "%.*s.timeout: needs a restart: topic %.*s has had %u ms, not %u ms", STR_ARG(id), STR_ARG(action->topic.text),
                 (unsigned)other->limit_ms, (unsigned)action->limit_ms);
}

err rule_limits_check(const struct rule_table *before, const struct rule_table *after, const struct config *config,
                      const char *file, struct config_errors *errors)
{
    err e = E_OK;

    for (size_t i = 0; i < rule_table_count(after); i++) {
        const struct rule *rule = rule_table_at(after, i);

        for (size_t k = 0; k < rule->n_actions; k++) {
            const struct rule_action *other = find_other(before, &rule->actions[k]);

            if (!other)
                continue;
            report(&config->to_kafka[i], k, &rule->actions[k], other, file, errors);
            e = E_INVAL;
        }
    }
    return e;
}
