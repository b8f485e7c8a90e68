#include "adapter/device_upload.h"

#include <assert.h>

#include "base/check.h"
#include "command/command_port.h"
#include "core/command_id.h"
#include "loop/loop.h"
#include "registry/usage.h"

/* Kafka's outcomes as refusals; OUTCOME_STORED is none. */
static const enum ledger_refusal refusals[OUTCOMES] = {
    [OUTCOME_TOO_LARGE] = LEDGER_REFUSED_TOO_LARGE,     [OUTCOME_UNKNOWN_TOPIC] = LEDGER_REFUSED_UNKNOWN_TOPIC,
    [OUTCOME_DENIED] = LEDGER_REFUSED_DENIED,           [OUTCOME_INVALID] = LEDGER_REFUSED_INVALID,
    [OUTCOME_UNAVAILABLE] = LEDGER_REFUSED_UNAVAILABLE, [OUTCOME_OVERLOADED] = LEDGER_REFUSED_OVERLOADED,
    [OUTCOME_FAILED] = LEDGER_REFUSED_FAILED,
};

/* As the records' orig_adapter has them. */
static const struct str adapter_names[CONFIG_ADAPTER_TYPES] = {
    [CONFIG_ADAPTER_MQTT] = STR_INIT("hono-mqtt"),
    [CONFIG_ADAPTER_HTTP] = STR_INIT("hono-http"),
};

/* config's properties are pairs of views, which is the layout device_defaults asks for. */
static_assert(sizeof(struct config_property) == 2 * sizeof(struct str), "a property is a name and a value");

enum ledger_route device_upload_route(enum device_endpoint endpoint)
{
    static const enum ledger_route routes[DEVICE_ENDPOINTS] = {
        [DEVICE_ENDPOINT_NONE] = LEDGER_ROUTE_MQTT,     [DEVICE_ENDPOINT_TELEMETRY] = LEDGER_ROUTE_TELEMETRY,
        [DEVICE_ENDPOINT_EVENT] = LEDGER_ROUTE_EVENT,   [DEVICE_ENDPOINT_COMMAND] = LEDGER_ROUTE_COMMAND,
        [DEVICE_ENDPOINT_ERROR] = LEDGER_ROUTE_COMMAND,
    };

    return routes[endpoint];
}

static bool refusal_of_status(int status, enum ledger_refusal *out_why)
{
    static const struct {
        int status;
        enum ledger_refusal why;
    } rows[] = {
        {400, LEDGER_REFUSED_BAD_REQUEST}, {403, LEDGER_REFUSED_FORBIDDEN},   {404, LEDGER_REFUSED_NOT_FOUND},
        {413, LEDGER_REFUSED_TOO_LARGE},   {503, LEDGER_REFUSED_UNAVAILABLE},
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
static bool authorise(struct device_upload *u, struct registration *out, enum ledger_refusal *out_why)
{
    const struct principal *who = u->principal;
    struct str tenant = who->tenant->id, sender = who->device ? who->device->id : (struct str){0};
    bool is_own = u->device.n == 0 || str_equal(u->device, sender) || !who->device;
    enum registry_assertion assertion;

    *out_why = LEDGER_REFUSED_FORBIDDEN;
    if (u->tenant.n && !str_equal(u->tenant, tenant))
        return false;
    if (!who->device && !(u->admits_strangers && u->device.n))
        return false;
    assertion = registry_assert(u->registry, tenant, u->device.n ? u->device : sender, is_own ? (struct str){0} : sender, out);
    if (assertion == REGISTRY_ASSERTED) {
        u->is_terminal = !(out->tenant->adapters & 1u << u->adapter);
        return !u->is_terminal;
    }
    u->is_terminal = who->device && is_about_sender(assertion, is_own);
    if (!refusal_of_status(registry_assertion_status(assertion), out_why))
        *out_why = LEDGER_REFUSED_FAILED;
    return false;
}

static struct device_defaults defaults_of(const struct config_properties *properties)
{
    return (struct device_defaults){(const struct str *)(const void *)properties->items, properties->count};
}

static enum device_fault build(const struct device_upload *u, const struct registration *registration,
                               struct device_record *out_record)
{
    const struct config_tenant_limits *bounds = registration->tenant->limits;
    struct device_limits limits = {
        .max_ttl_s = bounds->max_ttl_s,
        .max_ttl_telemetry_qos0_s = bounds->max_ttl_telemetry_qos0_s,
        .max_ttl_telemetry_qos1_s = bounds->max_ttl_telemetry_qos1_s,
    };
    struct device_message message = {
        .endpoint = u->endpoint,
        .qos = u->qos,
        .is_retained = u->is_retained,
        .has_ttd = u->ttd_s > 0,
        .ttd_s = (int32_t)u->ttd_s,
        .device_id = registration->device->id,
        .payload = u->payload,
        .address = u->address,
        .adapter = adapter_names[u->adapter],
        .content_type = u->content_type,
        .bag = u->bag,
        .tenant_defaults = defaults_of(registration->tenant->defaults),
        .device_defaults = defaults_of(registration->device->defaults),
        .traceparent = u->trace.parent,
        .tracestate = u->trace.state,
        .limits = &limits,
        .creation_time_ms = loop_wall_ms(),
    };

    if (u->config->hono_tenant_id)
        message.tenant_id = registration->tenant->id;
    if (u->config->hono_gateway_id && registration->gateway)
        message.gateway_id = registration->gateway->id;

    return device_record_build(&message, out_record);
}

/* With several ways to a device, commands take the one it was heard by last. */
static void note_gateway(const struct device_upload *u, const struct registration *registration)
{
    const struct registry_device *via = registration->gateway ? registration->gateway : registration->device;

    if (u->commands && (registration->device->via->count > 1 || registration->device->via_groups->count))
        command_note_gateway(u->commands, registration->tenant->id, registration->device->id, via->id);
}

/* False: the tenant has no volume left for the record. */
static bool has_volume(const struct registration *registration, const struct record *record, enum ledger_refusal *out_why)
{
    *out_why = LEDGER_REFUSED_DATA_VOLUME;
    return usage_admits(registration->tenant, record->value.n, (int64_t)loop_wall_ms());
}

void device_upload_count(const struct principal *principal, const struct record *record)
{
    usage_count(principal->tenant, record->value.n, (int64_t)loop_wall_ms());
}

/* False: `*out_why` says why not. */
static bool admit(struct device_upload *u, struct registration *out, enum ledger_refusal *out_why)
{
    if (!authorise(u, out, out_why))
        return false;
    note_gateway(u, out);
    *out_why = LEDGER_REFUSED_PAYLOAD_FORMAT;
    return !u->is_malformed;
}

static bool refuse(struct device_upload *u, enum device_fault fault, enum ledger_refusal *out_why)
{
    u->text = device_fault_text(fault);
    if (!refusal_of_status(device_fault_status(fault), out_why))
        *out_why = LEDGER_REFUSED_FAILED;
    return false;
}

bool device_upload_prepare(struct device_upload *u, enum device_fault fault, struct device_record *out_record,
                           enum ledger_refusal *out_why)
{
    struct registration registration;

    u->is_terminal = false;
    u->text = NULL;
    if (fault == DEVICE_FAULT_NONE && device_upload_route(u->endpoint) == LEDGER_ROUTE_COMMAND)
        fault = DEVICE_FAULT_ENDPOINT;
    if (fault == DEVICE_FAULT_NONE) {
        if (!admit(u, &registration, out_why))
            return false;
        fault = build(u, &registration, out_record);
    }
    if (fault != DEVICE_FAULT_NONE)
        return refuse(u, fault, out_why);
    return has_volume(&registration, &out_record->record, out_why);
}

/* docs/wire/commands.md: the default, capped by the tenant's bound, which stands in when there is none. Negative: no limit. */
static int64_t response_ttl_s(const struct registration *registration)
{
    const struct config_properties *sources[] = {registration->device->defaults, registration->tenant->defaults};
    int64_t bound_s = registration->tenant->limits->max_ttl_command_response_s;

    for (size_t i = 0; i < ARRAY_LEN(sources); i++)
        for (size_t k = 0; k < sources[i]->count; k++) {
            uint64_t ttl_s;

            if (str_equal(sources[i]->items[k].name, STR("ttl-command-response")) &&
                str_to_u64(sources[i]->items[k].value, INT64_MAX / 1000, &ttl_s))
                return bound_s >= 0 && (int64_t)ttl_s > bound_s ? bound_s : (int64_t)ttl_s;
        }
    return bound_s;
}

bool device_upload_prepare_response(struct device_upload *u, enum device_fault fault, struct str request_id, int status,
                                    struct command_answer *out_answer, enum ledger_refusal *out_why)
{
    struct command_response response = {
        .content_type = u->bag && u->bag->content_type.n ? u->bag->content_type : u->content_type,
        .payload = u->payload,
        .status = status,
        .now_ms = (int64_t)loop_wall_ms(),
        .trace = u->trace,
    };
    struct registration registration;

    u->is_terminal = false;
    u->text = NULL;
    if (fault == DEVICE_FAULT_NONE && !command_id_read(request_id, &response.correlation_id))
        fault = DEVICE_FAULT_REQUEST_ID;
    if (fault != DEVICE_FAULT_NONE)
        return refuse(u, fault, out_why);
    if (!admit(u, &registration, out_why))
        return false;
    response.tenant = registration.tenant->id;
    response.device_id = registration.device->id;
    response.ttl_s = response_ttl_s(&registration);
    command_record_build_response(&response, out_answer);
    if (!has_volume(&registration, &out_answer->record, out_why))
        return false;
    if (u->commands)
        command_note_answer();
    return true;
}

enum ledger_refusal device_upload_refusal(enum outcome outcome)
{
    return refusals[outcome];
}
