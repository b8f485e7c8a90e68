#include "adapter/mqtt/mqtt_device.h"

#include "adapter/mqtt/mqtt_errors.h"
#include "adapter/mqtt/mqtt_pending.h"
#include "adapter/mqtt/mqtt_publish_in.h"
#include "core/device_record.h"
#include "core/message.h"
#include "loop/loop.h"

/* config's properties are pairs of views, which is the layout device_defaults asks for. */
static_assert(sizeof(struct config_property) == 2 * sizeof(struct str), "a property is a name and a value");

static enum mqtt_route route_of(enum device_endpoint endpoint)
{
    static const enum mqtt_route routes[DEVICE_ENDPOINTS] = {
        [DEVICE_ENDPOINT_NONE] = MQTT_ROUTE_MQTT,     [DEVICE_ENDPOINT_TELEMETRY] = MQTT_ROUTE_TELEMETRY,
        [DEVICE_ENDPOINT_EVENT] = MQTT_ROUTE_EVENT,   [DEVICE_ENDPOINT_COMMAND] = MQTT_ROUTE_COMMAND,
        [DEVICE_ENDPOINT_ERROR] = MQTT_ROUTE_COMMAND,
    };

    return routes[endpoint];
}

static bool refusal_of_status(int status, enum mqtt_refusal *out_why)
{
    static const struct {
        int status;
        enum mqtt_refusal why;
    } rows[] = {
        {400, MQTT_REFUSED_BAD_REQUEST}, {403, MQTT_REFUSED_FORBIDDEN},   {404, MQTT_REFUSED_NOT_FOUND},
        {413, MQTT_REFUSED_TOO_LARGE},   {503, MQTT_REFUSED_UNAVAILABLE},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].status == status) {
            *out_why = rows[i].why;
            return true;
        }
    }
    return false;
}

/* Whether an assertion failed for the sender's sake, not for that of the device it speaks for. */
static bool is_about_sender(enum registry_assertion assertion, bool is_own)
{
    return assertion == REGISTRY_NO_TENANT || assertion == REGISTRY_NO_GATEWAY || (assertion == REGISTRY_NO_DEVICE && is_own);
}

/* Who the message is about and whether the sender may speak for it. False: `*out_why` says why not. */
static bool authorise(struct mqtt_device_publish *p, struct registration *out, enum mqtt_refusal *out_why)
{
    const struct principal *who = p->principal;
    struct str tenant = who->tenant->id, sender = who->device ? who->device->id : (struct str){0};
    bool is_own = p->topic->device.n == 0 || str_equal(p->topic->device, sender);
    enum registry_assertion assertion;

    *out_why = MQTT_REFUSED_FORBIDDEN;
    if (p->topic->tenant.n && !str_equal(p->topic->tenant, tenant))
        return false;
    if (!who->device)
        return false; /* anonymous clients have plain topics only */
    assertion =
        registry_assert(p->registry, tenant, is_own ? sender : p->topic->device, is_own ? (struct str){0} : sender, out);
    if (assertion == REGISTRY_ASSERTED) {
        p->is_terminal = !(out->tenant->adapters & 1u << CONFIG_ADAPTER_MQTT);
        return !p->is_terminal;
    }
    p->is_terminal = is_about_sender(assertion, is_own);
    if (!refusal_of_status(registry_assertion_status(assertion), out_why))
        *out_why = MQTT_REFUSED_FAILED;
    return false;
}

static struct device_defaults defaults_of(const struct config_properties *properties)
{
    return (struct device_defaults){(const struct str *)(const void *)properties->items, properties->count};
}

static enum device_fault build(const struct mqtt_device_publish *p, const struct registration *registration,
                               struct device_record *out_record)
{
    const struct config_tenant_limits *bounds = registration->tenant->limits;
    struct device_limits limits = {
        .max_ttl_s = bounds->max_ttl_s,
        .max_ttl_telemetry_qos0_s = bounds->max_ttl_telemetry_qos0_s,
        .max_ttl_telemetry_qos1_s = bounds->max_ttl_telemetry_qos1_s,
    };
    struct device_message message = {
        .endpoint = p->topic->endpoint,
        .qos = p->qos,
        .is_retained = p->retain,
        .device_id = registration->device->id,
        .payload = p->payload,
        .address = p->address,
        .adapter = STR("hono-mqtt"),
        .content_type = p->content_type,
        .bag = &p->bag,
        .tenant_defaults = defaults_of(registration->tenant->defaults),
        .device_defaults = defaults_of(registration->device->defaults),
        .traceparent = p->trace.parent,
        .tracestate = p->trace.state,
        .limits = &limits,
        .creation_time_ms = loop_wall_ms(),
    };

    if (p->config->hono_tenant_id)
        message.tenant_id = registration->tenant->id;
    if (p->config->hono_gateway_id && registration->gateway)
        message.gateway_id = registration->gateway->id;

    return device_record_build(&message, out_record);
}

bool mqtt_device_prepare(struct mqtt_device_publish *p, enum device_fault fault, struct device_record *out_record,
                         enum mqtt_refusal *out_why)
{
    struct registration registration;
    enum device_fault bag_fault = property_bag_parse(p->topic->bag, p->scratch, sizeof p->scratch, &p->bag);

    p->is_terminal = false;
    p->text = NULL;
    if (bag_fault != DEVICE_FAULT_NONE) {
        p->bag = (struct property_bag){0};
        fault = bag_fault;
    }
    /* Responses to commands are not taken yet: nobody may believe that one arrived. */
    if (fault == DEVICE_FAULT_NONE && route_of(p->topic->endpoint) == MQTT_ROUTE_COMMAND)
        fault = DEVICE_FAULT_ENDPOINT;
    if (fault == DEVICE_FAULT_NONE) {
        if (!authorise(p, &registration, out_why))
            return false;
        *out_why = MQTT_REFUSED_PAYLOAD_FORMAT;
        if (p->is_malformed)
            return false;
        fault = build(p, &registration, out_record);
    }
    if (fault == DEVICE_FAULT_NONE)
        return true;
    p->text = device_fault_text(fault);
    if (!refusal_of_status(device_fault_status(fault), out_why))
        *out_why = MQTT_REFUSED_FAILED;
    return false;
}

/* A place for the answer, with all that is to be told if it is a bad one. */
static struct mqtt_pending *place(struct mqtt_conn *c, const struct mqtt_device_publish *p, uint16_t packet_id)
{
    struct mqtt_pending *pending = mqtt_pending_new(c, route_of(p->topic->endpoint), p->qos, packet_id, p->bag.on_error);

    pending->note = mqtt_errors_note(c, p->topic, p->bag.correlation_id);
    return pending;
}

static enum handle refuse(struct mqtt_conn *c, const struct mqtt_device_publish *p, uint16_t packet_id, enum mqtt_refusal why)
{
    struct mqtt_pending *pending = place(c, p, packet_id);

    mqtt_errors_explain(pending->note, p->text);
    pending->is_terminal = p->is_terminal;
    mqtt_metrics_in(route_of(p->topic->endpoint));
    mqtt_pending_refuse_place(c, pending, why);
    return HANDLE_DONE;
}

/* Gives the record to Kafka with a place for the answer. */
static enum handle submit(struct mqtt_conn *c, const struct mqtt_device_publish *p, const struct record *record,
                          uint16_t packet_id)
{
    enum mqtt_route route = route_of(p->topic->endpoint);
    struct mqtt_pending *pending = place(c, p, packet_id);
    err e = sink_submit(c->mw->adapter->settings.sink, record, &pending->delivery);

    if (e == E_OK) {
        mqtt_metrics_in(route);
        mqtt_pending_enter(c, pending);
        return HANDLE_DONE;
    }
    if (e != E_AGAIN) {
        mqtt_metrics_in(route);
        mqtt_pending_refuse_place(c, pending, mqtt_pending_refusal(pending->delivery.outcome));
        return HANDLE_DONE;
    }
    mqtt_pending_drop(pending);
    if (p->qos) {
        if (p->qos == 2)
            (void)session_remove_incoming(c->ss, packet_id);
        sink_wait(c->mw->adapter->settings.sink, &c->mw->room);
        mqtt_conn_wait(c);
        return HANDLE_WAIT;
    }
    mqtt_metrics_in(route);
    mqtt_metrics_refused(route, MQTT_REFUSED_OVERLOADED, 0);
    return HANDLE_DONE;
}

static void take_properties(struct mqtt_device_publish *p, const struct mqtt_properties *props)
{
    struct mqtt_user_property user;

    p->content_type = (struct str){0};
    p->trace = (struct trace_context){0};
    if (mqtt_property_has(props, MQTT_PROPERTY_CONTENT_TYPE))
        p->content_type = props->content_type;
    for (struct str rest = props->raw; mqtt_property_next_user(&rest, &user);)
        trace_context_take(&p->trace, user.name, user.value);
    trace_context_check(&p->trace);
}

enum handle mqtt_device_publish(struct mqtt_conn *c, const struct mqtt_publish *publish, struct str address,
                                const struct device_topic *topic, enum device_fault fault)
{
    struct mqtt_device_publish p;
    struct device_record record;
    enum mqtt_refusal why;

    p.config = mqtt_config(c->mw);
    p.registry = mqtt_registry(c->mw);
    p.principal = &c->ss->principal;
    p.topic = topic;
    p.address = address;
    p.payload = publish->payload;
    p.qos = publish->qos;
    p.retain = publish->retain;
    p.is_malformed = mqtt_publish_in_has_bad_format(publish);
    take_properties(&p, &publish->properties);
    if (!mqtt_device_prepare(&p, fault, &record, &why))
        return refuse(c, &p, publish->packet_id, why);
    if (publish->qos == 2 && session_add_incoming(c->ss, publish->packet_id) != E_OK)
        return refuse(c, &p, publish->packet_id, MQTT_REFUSED_NO_MEMORY);
    record.record.topic = mqtt_worker_topic(c->mw, p.principal->tenant->id, topic->endpoint);
    return submit(c, &p, &record.record, publish->packet_id);
}

void mqtt_device_publish_will(struct mqtt_worker *mw, const struct principal *principal, const struct message *will,
                              const struct device_topic *topic, enum device_fault fault)
{
    enum mqtt_route route = route_of(topic->endpoint);
    struct mqtt_device_publish p = {
        .config = mqtt_config(mw),
        .registry = mqtt_registry(mw),
        .principal = principal,
        .topic = topic,
        .address = will->topic,
        .payload = will->payload,
        .qos = will->qos,
        .retain = will->retain,
    };
    struct device_record record;
    struct mqtt_pending *pending;
    struct mqtt_properties props;
    enum mqtt_refusal why;
    err e;

    mqtt_metrics_in(route);
    if (mqtt_property_decode(will->properties, MQTT_WILL_PROPERTIES, &props) == MQTT_REASON_SUCCESS) /* as before, in CONNECT */
        take_properties(&p, &props);
    if (!mqtt_device_prepare(&p, fault, &record, &why)) {
        mqtt_metrics_refused(route, why, 0);
        return;
    }
    record.record.topic = mqtt_worker_topic(mw, principal->tenant->id, topic->endpoint);
    pending = mqtt_pending_new_will(mw, route);
    e = sink_submit(mw->adapter->settings.sink, &record.record, &pending->delivery);
    if (e == E_OK) {
        mqtt_metrics_wait(route, 1);
        return;
    }
    mqtt_metrics_refused(route, e == E_AGAIN ? MQTT_REFUSED_OVERLOADED : mqtt_pending_refusal(pending->delivery.outcome), 0);
    mqtt_pending_drop(pending);
}
