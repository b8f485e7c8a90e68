#include "core/to_mqtt_route.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/utf8.h"
#include "core/to_mqtt_pattern.h"

enum { TEXT_MAX_BYTES = 65535, NUMBER_BYTES = 12, MS_PER_S = 1000 };

/* A rule that takes the records of a route's topic. */
struct candidate {
    const struct to_mqtt_rule *rule;
    struct to_mqtt_match *key_match;
    struct str groups[TO_MQTT_MAX_GROUPS]; /* those of the topic are set once, those of the key for each record */
};

struct to_mqtt_route {
    struct to_mqtt_rules *rules;
    struct str topic;
    struct candidate *candidates;
    size_t n_candidates;
    struct buf text; /* tenant and topic of the present record */
    char partition[NUMBER_BYTES];
};

static const struct str reserved = STR_INIT("mqtt."), content_type = STR_INIT("content-type"),
                        hops_name = STR_INIT("mqtt.hops"), origin_name = STR_INIT("mqtt.origin");

struct to_mqtt_route *to_mqtt_route_new(struct to_mqtt_rules *rules, struct str topic)
{
    struct to_mqtt_route *route = mem_alloc_zero(MEM_MESSAGE, sizeof *route);
    size_t n_rules = to_mqtt_rules_count(rules);

    route->rules = to_mqtt_rules_ref(rules);
    route->topic = (struct str){mem_copy_text(MEM_MESSAGE, topic.p, topic.n), topic.n};
    route->candidates = mem_alloc_zero(MEM_MESSAGE, n_rules * sizeof *route->candidates + 1);
    for (size_t i = 0; i < n_rules; i++) {
        struct candidate *c = &route->candidates[route->n_candidates];

        if (!to_mqtt_rule_takes_topic(to_mqtt_rules_at(rules, i), route->topic, c->groups))
            continue;
        c->rule = to_mqtt_rules_at(rules, i);
        c->key_match = c->rule->key_pattern ? to_mqtt_pattern_new_match(c->rule->key_pattern) : NULL;
        route->n_candidates++;
    }
    return route;
}

void to_mqtt_route_free(struct to_mqtt_route *route)
{
    if (!route)
        return;
    for (size_t i = 0; i < route->n_candidates; i++)
        to_mqtt_pattern_free_match(route->candidates[i].key_match);
    mem_free(MEM_MESSAGE, route->candidates);
    mem_free(MEM_MESSAGE, (char *)(uintptr_t)route->topic.p);
    buf_free(&route->text, MEM_MESSAGE);
    to_mqtt_rules_unref(route->rules);
    mem_free(MEM_MESSAGE, route);
}

/* --- records --- */

static struct str header(const struct source_record *record, struct str name)
{
    for (size_t i = 0; i < record->n_headers; i++)
        if (str_equal(record->headers[i].name, name))
            return record->headers[i].value;
    return (struct str){0};
}

/* What the value of a template's variable is taken from. */
struct mapping {
    struct to_mqtt_route *route;
    const struct candidate *candidate;
    const struct source_record *record;
};

static struct str value_of(void *context, const struct to_mqtt_piece *piece)
{
    const struct mapping *m = context;

    switch ((enum to_mqtt_variable)piece->variable) {
    case TO_MQTT_VARIABLE_GROUP:
        return m->candidate->groups[piece->index];
    case TO_MQTT_VARIABLE_TOPIC:
        return m->route->topic;
    case TO_MQTT_VARIABLE_KEY:
        return m->record->key;
    case TO_MQTT_VARIABLE_PARTITION:
        snprintf(m->route->partition, NUMBER_BYTES, "%d", (int)m->record->partition->number);
        return str_from(m->route->partition);
    case TO_MQTT_VARIABLE_HEADER:
        return header(m->record, piece->name);
    case TO_MQTT_VARIABLE_NONE:
        break;
    }
    return (struct str){0};
}

/* The first rule that takes the key. */
static enum to_mqtt_refusal find_rule(struct to_mqtt_route *route, const struct source_record *record,
                                      const struct candidate **out_candidate)
{
    for (size_t i = 0; i < route->n_candidates; i++) {
        struct candidate *c = &route->candidates[i];
        err e = E_OK;

        if (c->rule->key_pattern)
            e = to_mqtt_pattern_match(c->rule->key_pattern, c->key_match, record->key, c->groups + c->rule->n_topic_groups);
        if (e == E_OK) {
            *out_candidate = c;
            return TO_MQTT_REFUSED_NOTHING;
        }
        if (e != E_NOTFOUND)
            return e == E_NOMEM ? TO_MQTT_REFUSED_NO_MEMORY : TO_MQTT_REFUSED_MATCH;
    }
    return TO_MQTT_REFUSED_NO_RULE;
}

static enum to_mqtt_refusal refusal_of(err e)
{
    if (e == E_OK)
        return TO_MQTT_REFUSED_NOTHING;
    return e == E_NOMEM ? TO_MQTT_REFUSED_NO_MEMORY : TO_MQTT_REFUSED_TOPIC;
}

static uint32_t count_levels(struct str topic)
{
    uint32_t n = 1;

    for (size_t i = 0; i < topic.n; i++)
        n += topic.p[i] == '/';
    return n;
}

static bool is_topic_name(struct str s)
{
    return s.n > 0 && s.n <= TO_MQTT_TOPIC_MAX_BYTES && !memchr(s.p, '+', s.n) && !memchr(s.p, '#', s.n) && utf8_is_plain(s);
}

static enum to_mqtt_refusal write_names(struct mapping *m, struct to_mqtt_message *out)
{
    const struct to_mqtt_rule *rule = m->candidate->rule;
    struct to_mqtt_values values = {m, value_of};
    struct buf *text = &m->route->text;
    size_t tenant_bytes;
    struct str both;
    err e;

    buf_consume(text, buf_size(text));
    e = to_mqtt_template_write(&rule->tenant, &values, text);
    tenant_bytes = buf_size(text);
    if (e == E_OK)
        e = to_mqtt_template_write(&rule->topic, &values, text);
    if (e != E_OK)
        return refusal_of(e);
    both = buf_str(text);
    out->tenant = (struct str){both.p, tenant_bytes};
    out->topic = (struct str){both.p + tenant_bytes, both.n - tenant_bytes};
    return count_levels(out->topic) > to_mqtt_rules_max_levels(m->route->rules) ? TO_MQTT_REFUSED_TOPIC
                                                                                : TO_MQTT_REFUSED_NOTHING;
}

/* A time to live counts from when the record was made. */
static bool read_expiry(const struct source_record *record, uint64_t now_ms, struct to_mqtt_message *out)
{
    uint64_t expiry_s, age_s = 0;

    if (!str_to_u64(header(record, STR("mqtt.expiry_s")), UINT32_MAX, &expiry_s))
        return true;
    if (record->timestamp_ms >= 0 && now_ms > (uint64_t)record->timestamp_ms)
        age_s = (now_ms - (uint64_t)record->timestamp_ms) / MS_PER_S;
    if (age_s > 0 && age_s >= expiry_s)
        return false;
    out->has_expiry = true;
    out->expiry_s = (uint32_t)(expiry_s - age_s);
    return true;
}

static struct str text_header(const struct source_record *record, struct str name)
{
    struct str value = header(record, name);

    return value.n > 0 && value.n <= TEXT_MAX_BYTES && utf8_is_plain(value) ? value : (struct str){0};
}

static void read_properties(const struct source_record *record, struct to_mqtt_message *out)
{
    struct str response_topic = header(record, STR("mqtt.response_topic"));

    out->content_type = text_header(record, content_type);
    out->response_topic = is_topic_name(response_topic) ? response_topic : (struct str){0};
    out->correlation_data = header(record, STR("mqtt.correlation_data"));
    if (out->correlation_data.n > TEXT_MAX_BYTES)
        out->correlation_data = (struct str){0};
}

enum to_mqtt_refusal to_mqtt_route_map(struct to_mqtt_route *route, const struct source_record *record, uint64_t now_ms,
                                       struct to_mqtt_message *out_message)
{
    struct mapping m = {.route = route, .record = record};
    enum to_mqtt_refusal refusal = find_rule(route, record, &m.candidate);
    uint64_t hops;

    if (refusal != TO_MQTT_REFUSED_NOTHING)
        return refusal;
    *out_message = (struct to_mqtt_message){.rule = m.candidate->rule};
    if (str_to_u64(header(record, hops_name), UINT64_MAX, &hops) && hops > TO_MQTT_MAX_HOPS)
        return TO_MQTT_REFUSED_HOPS;
    if (!read_expiry(record, now_ms, out_message))
        return TO_MQTT_REFUSED_EXPIRED;
    refusal = write_names(&m, out_message);
    read_properties(record, out_message);
    return refusal;
}

static bool is_property(const struct record_header *h)
{
    if (str_equal(h->name, content_type))
        return false;
    if (str_starts_with(h->name, reserved) && !str_equal(h->name, hops_name) && !str_equal(h->name, origin_name))
        return false;
    return h->name.n <= TEXT_MAX_BYTES && h->value.n <= TEXT_MAX_BYTES && utf8_is_plain(h->name) && utf8_is_plain(h->value);
}

bool to_mqtt_route_next_property(const struct source_record *record, size_t *at, struct record_header *out_property)
{
    while (*at < record->n_headers) {
        const struct record_header *h = &record->headers[(*at)++];

        if (!is_property(h))
            continue;
        *out_property = *h;
        return true;
    }
    return false;
}

const char *to_mqtt_route_refusal_name(enum to_mqtt_refusal refusal)
{
    static const char *const names[TO_MQTT_REFUSALS] = {
        [TO_MQTT_REFUSED_NOTHING] = "nothing",     [TO_MQTT_REFUSED_NO_RULE] = "no_rule",
        [TO_MQTT_REFUSED_TOPIC] = "topic",         [TO_MQTT_REFUSED_MATCH] = "match_limit",
        [TO_MQTT_REFUSED_HOPS] = "hop_limit",      [TO_MQTT_REFUSED_EXPIRED] = "expired",
        [TO_MQTT_REFUSED_TOO_LARGE] = "too_large", [TO_MQTT_REFUSED_NO_MEMORY] = "no_memory",
    };

    return names[refusal];
}
