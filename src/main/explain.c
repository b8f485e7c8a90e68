#include "main/explain.h"

#include <string.h>

#include "adapter/ledger.h"
#include "adapter/mqtt/mqtt_device.h"
#include "adapter/mqtt/mqtt_pending.h"
#include "adapter/mqtt/mqtt_publish_in.h"
#include "adapter/mqtt/mqtt_rules.h"
#include "base/check.h"
#include "proto/mqtt/topic.h"
#include "registry/registry.h"

/* Everything it takes to find out. */
struct work {
    struct arena *arena;
    struct config *config;
    const struct rule_table *rules;
    const struct explain_request *request;
    struct registry *registry;
    struct principal principal; /* borrowed from the registry */
    struct explanation *x;
};

static struct str copy(struct work *w, struct str s)
{
    return arena_copy(w->arena, MEM_CONFIG, s);
}

static void refuse_connect(struct work *w, const char *why)
{
    w->x->refusal = str_from(why);
    w->x->reason_code = 0;
}

static void refuse(struct work *w, struct str route, enum ledger_refusal why)
{
    w->x->route = route;
    w->x->refusal = str_from(ledger_refusal_name(why));
    w->x->reason_code = (uint8_t)mqtt_pending_reason(why);
}

/* --- who it is --- */

static const struct config_device *find_login(const struct config_tenant *ten, struct str auth_id)
{
    for (size_t i = 0; i < ten->device_count; i++)
        if (ten->devices[i].password.n && str_equal(ten->devices[i].auth_id, auth_id))
            return &ten->devices[i];
    return NULL;
}

static const struct config_tenant *find_tenant(const struct config *config, struct str id)
{
    for (size_t i = 0; i < config->tenant_count; i++)
        if (str_equal(config->tenants[i].id, id))
            return &config->tenants[i];
    return NULL;
}

/* The registry's answer for a device whose password is right. */
static bool log_in(struct work *w, struct str tenant_id, struct str auth_id)
{
    const struct config_tenant *ten = find_tenant(w->config, tenant_id);
    const struct config_device *dev = ten ? find_login(ten, auth_id) : NULL;
    struct registration registration;

    if (!dev)
        refuse_connect(w, "the CONNECT is refused: no such user");
    else if (w->x->listener->is_tenant_fixed && !str_equal(tenant_id, w->x->listener->tenant))
        refuse_connect(w, "the CONNECT is refused: the listener serves another tenant");
    else if (!(registry_find_tenant(w->registry, tenant_id)->adapters & 1u << CONFIG_ADAPTER_MQTT))
        refuse_connect(w, "the CONNECT is refused: the tenant does not use MQTT");
    else if (registry_assert(w->registry, tenant_id, dev->id, (struct str){0}, &registration) != REGISTRY_ASSERTED)
        refuse_connect(w, "the CONNECT is refused: tenant or device is disabled");
    else
        w->principal = (struct principal){registration.tenant, registration.device};
    return w->principal.tenant != NULL;
}

static bool identify(struct work *w)
{
    struct str rest = w->request->user;
    const struct config_listener *listener = w->x->listener;
    bool has_tenant;

    if (rest.n > 0) {
        struct str auth_id = str_take(&rest, '@', &has_tenant);

        return log_in(w, has_tenant ? rest : listener->tenant, auth_id);
    }
    if (!listener->is_anonymous) {
        refuse_connect(w, "the CONNECT is refused: the listener does not let anonymous clients in");
        return false;
    }
    w->principal.tenant = registry_find_tenant(w->registry, listener->tenant);
    if (w->principal.tenant->is_enabled)
        return true;
    refuse_connect(w, "the CONNECT is refused: the tenant is disabled");
    return false;
}

/* --- where it goes --- */

static struct str join(struct work *w, struct str a, struct str b)
{
    char *text = arena_alloc(w->arena, MEM_CONFIG, a.n + b.n + 1);

    if (a.n)
        memcpy(text, a.p, a.n);
    memcpy(text + a.n, b.p, b.n);
    return (struct str){text, a.n + b.n};
}

/* Copies what the record borrows. */
static struct explain_record record_of(struct work *w, struct str topic, const struct record *r)
{
    struct record_header *headers = arena_alloc(w->arena, MEM_CONFIG, r->n_headers * sizeof *headers);

    for (size_t i = 0; i < r->n_headers; i++)
        headers[i] = (struct record_header){copy(w, r->headers[i].name), copy(w, r->headers[i].value)};
    return (struct explain_record){
        .topic = join(w, w->config->kafka.topic_prefix, topic),
        .key = copy(w, r->key),
        .value = r->value.p ? copy(w, r->value) : (struct str){0},
        .headers = headers,
        .n_headers = r->n_headers,
        .has_partition = r->has_partition,
        .partition = r->partition,
    };
}

/* `hono.ENDPOINT.TENANT` */
static struct str topic_of(struct work *w, struct str endpoint)
{
    return join(w, join(w, join(w, STR("hono."), endpoint), STR(".")), w->principal.tenant->id);
}

static void explain_device(struct work *w, const struct device_topic *topic, enum device_fault fault)
{
    const struct explain_request *q = w->request;
    struct str route = str_from(device_topic_endpoint_name(topic->endpoint));
    struct mqtt_device_publish p = {
        .config = w->config,
        .registry = w->registry,
        .principal = &w->principal,
        .topic = topic,
        .address = q->topic,
        .payload = q->payload,
        .content_type = q->content_type,
        .qos = q->qos,
        .retain = q->retain,
    };
    bool is_response = topic->endpoint == DEVICE_ENDPOINT_COMMAND;
    struct registration registration;
    struct device_record record;
    struct command_answer answer;
    enum ledger_refusal why;
    bool is_good;

    w->x->is_device = true;
    for (size_t i = 0; i < q->n_properties; i++)
        trace_context_take(&p.trace, q->properties[i].name, q->properties[i].value);
    trace_context_check(&p.trace);
    is_good =
        is_response ? mqtt_device_prepare_response(&p, fault, &answer, &why) : mqtt_device_prepare(&p, fault, &record, &why);
    if (!is_good) {
        refuse(w, route, why);
        w->x->why = str_from(p.text ? p.text : "");
        return;
    }
    w->x->route = route;
    w->x->ack = RULE_ACK_QUORUM;
    w->x->records = arena_alloc(w->arena, MEM_CONFIG, sizeof *w->x->records);
    *w->x->records =
        record_of(w, topic_of(w, is_response ? STR("command_response") : route), is_response ? &answer.record : &record.record);
    w->x->records->limit_ms = w->config->hono_delivery_timeout_ms;
    w->x->n_records = 1;
    if (!is_response && /* mappers have no part in those */
        registry_assert(w->registry, w->principal.tenant->id, record.record.key, (struct str){0}, &registration) ==
            REGISTRY_ASSERTED)
        w->x->mapper = registration.device->mapper;
}

/* User properties one after the other: what is left is a view of the array's end. */
static bool next_property(struct str *rest, struct str *out_name, struct str *out_value)
{
    struct config_property property;

    if (rest->n < sizeof property)
        return false;
    memcpy(&property, rest->p, sizeof property);
    *rest = str_from_offset(*rest, sizeof property);
    *out_name = property.name;
    *out_value = property.value;
    return true;
}

static void explain_rule(struct work *w, const struct rule *rule, const struct str *segments)
{
    const struct explain_request *q = w->request;
    struct rule_scratch scratch = {0};
    struct rule_message m = {
        .client_id = q->client_id,
        .user = w->x->user,
        .tenant = w->x->tenant,
        .device_id = w->x->device,
        .topic = q->topic,
        .qos = q->qos,
        .is_retained = q->retain,
        .payload = q->payload,
        .content_type = q->content_type,
        .next_property = next_property,
        .properties = {(const char *)q->properties, q->n_properties * sizeof *q->properties},
    };
    enum rule_refusal refusal = rule_record_build(rule, &m, segments, w->config->kafka.topic_prefix.n, &scratch);

    w->x->filter = rule->filter.text;
    w->x->mapper = rule->mapper;
    w->x->route = rule->name;
    if (refusal != RULE_REFUSED_NOTHING) {
        refuse(w, rule->name, mqtt_rules_refusal(refusal));
    } else {
        w->x->records = arena_alloc(w->arena, MEM_CONFIG, rule->n_actions * sizeof *w->x->records);
        w->x->n_records = rule->n_actions;
        w->x->ack = rule->ack;
        w->x->is_local = rule->is_local;
        for (size_t i = 0; i < rule->n_actions; i++) {
            w->x->records[i] = record_of(w, rule_name_str(&scratch.records[i].topic), &scratch.records[i].record);
            w->x->records[i].is_creating = rule->actions[i].is_creating;
            w->x->records[i].limit_ms = rule->actions[i].limit_ms;
        }
    }
    rule_record_free_scratch(&scratch);
}

static void explain_topic(struct work *w, uint32_t levels)
{
    struct str segments[RULE_FILTER_MAX_SEGMENTS];
    const struct rule *rule;
    struct device_topic device;

    if (w->x->listener->is_hono && device_topic_may_match(w->request->topic)) {
        enum device_fault fault = device_topic_parse(w->request->topic, 0, &device);

        if (device.endpoint != DEVICE_ENDPOINT_NONE) {
            explain_device(w, &device, fault);
            return;
        }
    }
    w->x->is_local = true;
    w->x->route = STR("mqtt");
    if (levels > w->config->limits.topic_levels)
        refuse(w, STR("mqtt"), LEDGER_REFUSED_TOO_DEEP);
    else if (mqtt_publish_in_is_reserved(w->request->topic))
        refuse(w, STR("mqtt"), LEDGER_REFUSED_FORBIDDEN);
    else if ((rule = rule_table_find(w->rules, w->x->tenant, w->request->topic, segments)))
        explain_rule(w, rule, segments);
}

static err check(const struct config *config, const struct explain_request *q, uint32_t *out_levels, struct errinfo *ei)
{
    if (q->listener >= config->listener_count)
        return errinfo_set(ei, E_INVAL, "there is no listener %zu", q->listener);
    if (!config_listener_mqtt(&config->listeners[q->listener]))
        return errinfo_set(ei, E_INVAL, "listener %zu does not serve MQTT", q->listener);
    if (q->qos > 2)
        return errinfo_set(ei, E_INVAL, "QoS is 0, 1 or 2");
    if (q->client_id.n == 0)
        return errinfo_set(ei, E_INVAL, "a client id is missing");
    if (topic_check_name(q->topic, out_levels) != E_OK)
        return errinfo_set(ei, E_INVAL, "'%.*s' is no topic name", STR_ARG(q->topic));
    return E_OK;
}

err explain_publish(struct arena *a, struct config *config, const struct rule_table *rules,
                    const struct explain_request *request, struct explanation *out, struct errinfo *ei)
{
    struct work w = {.arena = a, .config = config, .rules = rules, .request = request, .x = out};
    uint32_t levels;
    err e = check(config, request, &levels, ei);

    if (e != E_OK)
        return e;
    *out = (struct explanation){.listener = &config->listeners[request->listener]};
    w.registry = registry_new(config);
    if (identify(&w)) {
        out->tenant = copy(&w, w.principal.tenant->id);
        if (w.principal.device) {
            out->device = copy(&w, w.principal.device->id);
            out->user = join(&w, join(&w, w.principal.device->auth_id, STR("@")), out->tenant);
        }
        explain_topic(&w, levels);
    }
    registry_unref(w.registry);
    return E_OK;
}
