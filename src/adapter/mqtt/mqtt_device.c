#include "adapter/mqtt/mqtt_device.h"

#include "adapter/device_upload.h"
#include "adapter/ledger.h"
#include "adapter/mqtt/mqtt_errors.h"
#include "adapter/mqtt/mqtt_pending.h"
#include "adapter/mqtt/mqtt_provision.h"
#include "adapter/mqtt/mqtt_publish_in.h"
#include "core/message.h"
#include "loop/loop.h"

/* The response's type and device go before all that the message says. */
static void use_mapped(struct mqtt_device_publish *p, struct device_upload *upload)
{
    upload->payload = p->mapped->payload;
    if (p->mapped->content_type.n) {
        p->bag.content_type = (struct str){0};
        upload->content_type = p->mapped->content_type;
    }
    if (p->mapped->device.n)
        upload->device = p->mapped->device;
}

static bool add_headers(struct mqtt_device_publish *p, struct device_record *record, enum ledger_refusal *out_why)
{
    struct mqtt_user_property header;

    for (struct str rest = p->mapped->headers; mqtt_property_next_user(&rest, &header);) {
        if (device_record_add(record, header.name, header.value) == DEVICE_FAULT_NONE)
            continue;
        *out_why = LEDGER_REFUSED_UNAVAILABLE;
        p->text = "the message mapper gives more headers than a record takes";
        return false;
    }
    return true;
}

static struct device_upload upload_of(const struct mqtt_device_publish *p)
{
    return (struct device_upload){
        .config = p->config,
        .registry = p->registry,
        .commands = p->commands,
        .principal = p->principal,
        .adapter = CONFIG_ADAPTER_MQTT,
        .endpoint = p->topic->endpoint,
        .tenant = p->topic->tenant,
        .device = p->topic->device,
        .address = p->address,
        .payload = p->payload,
        .content_type = p->content_type,
        .trace = p->trace,
        .bag = &p->bag,
        .qos = p->qos,
        .is_retained = p->retain,
        .is_malformed = p->is_malformed,
    };
}

/* A bad bag goes before what is wrong with the address. */
static enum device_fault read_bag(struct mqtt_device_publish *p, enum device_fault fault)
{
    enum device_fault bag_fault = property_bag_parse(p->topic->bag, p->scratch, sizeof p->scratch, &p->bag);

    if (bag_fault == DEVICE_FAULT_NONE)
        return fault;
    p->bag = (struct property_bag){0};
    return bag_fault;
}

bool mqtt_device_prepare(struct mqtt_device_publish *p, enum device_fault fault, struct device_record *out_record,
                         enum ledger_refusal *out_why)
{
    struct device_upload upload = upload_of(p);
    bool is_good;

    fault = read_bag(p, fault);
    if (p->mapped)
        use_mapped(p, &upload);
    is_good = device_upload_prepare(&upload, fault, out_record, out_why);
    p->is_terminal = upload.is_terminal;
    p->text = upload.text;
    return is_good && (!p->mapped || add_headers(p, out_record, out_why));
}

bool mqtt_device_prepare_response(struct mqtt_device_publish *p, enum device_fault fault, struct command_answer *out_answer,
                                  enum ledger_refusal *out_why)
{
    struct device_upload upload = upload_of(p);
    bool is_good;

    fault = read_bag(p, fault);
    is_good = device_upload_prepare_response(&upload, fault, p->topic->request_id, p->topic->status, out_answer, out_why);
    p->is_terminal = upload.is_terminal;
    p->text = upload.text;
    return is_good;
}

/* ---- mappers ---- */

/* That of the device the message is about; the configuration names one that is there. */
static struct str mapper_of(const struct mqtt_device_publish *p, const struct device_record *record)
{
    struct registration registration;

    if (p->config->mapper_count == 0 || registry_assert(p->registry, p->principal->tenant->id, record->record.key,
                                                        (struct str){0}, &registration) != REGISTRY_ASSERTED)
        return (struct str){0};
    return registration.device->mapper;
}

static struct mqtt_mapper_request request_of(const struct mqtt_device_publish *p, const struct device_record *record)
{
    struct mqtt_mapper_request request = {
        .mapper = mapper_of(p, record),
        .payload = p->payload,
        .content_type = p->bag.content_type.n ? p->bag.content_type : p->content_type,
        .address = p->address,
        .tenant = p->principal->tenant->id,
        .device = record->record.key,
        .qos = p->qos,
    };

    if (!str_equal(p->principal->device->id, request.device))
        request.gateway = p->principal->device->id;
    return request;
}

/* The record anew, as the mapper has answered; a device that it names must be one that the sender may speak for. */
static bool prepare_mapped(struct mqtt_device_publish *p, const struct mqtt_mapped *mapped, struct device_record *out_record,
                           enum ledger_refusal *out_why)
{
    if (!mapped->is_good) {
        *out_why = LEDGER_REFUSED_UNAVAILABLE;
        p->text = "the message mapper has failed";
        return false;
    }
    p->mapped = mapped;
    return mqtt_device_prepare(p, DEVICE_FAULT_NONE, out_record, out_why);
}

/* A place for the answer, with all that is to be told if it is a bad one. */
static struct mqtt_pending *place(struct mqtt_conn *c, const struct mqtt_device_publish *p, uint16_t packet_id)
{
    struct mqtt_pending *pending =
        mqtt_pending_new(c, device_upload_route(p->topic->endpoint), p->qos, packet_id, p->bag.on_error);

    pending->note = mqtt_errors_note(c, p->topic, p->bag.correlation_id);
    return pending;
}

static enum handle refuse(struct mqtt_conn *c, const struct mqtt_device_publish *p, uint16_t packet_id, enum ledger_refusal why)
{
    struct mqtt_pending *pending = place(c, p, packet_id);

    mqtt_errors_explain(pending->note, p->text);
    pending->is_terminal = p->is_terminal;
    ledger_count_in(device_upload_route(p->topic->endpoint));
    mqtt_pending_refuse_place(c, pending, why);
    return HANDLE_DONE;
}

/* Gives the record to Kafka with a place for the answer. */
static enum handle submit(struct mqtt_conn *c, const struct mqtt_device_publish *p, const struct record *record,
                          uint16_t packet_id)
{
    enum ledger_route route = device_upload_route(p->topic->endpoint);
    struct mqtt_pending *pending = place(c, p, packet_id);
    err e = sink_submit(c->mw->adapter->settings.sink, record, &pending->delivery);

    if (e == E_OK) {
        device_upload_count(p->principal, record);
        ledger_count_in(route);
        mqtt_pending_enter(c, pending);
        return HANDLE_DONE;
    }
    if (e != E_AGAIN) {
        ledger_count_in(route);
        mqtt_pending_refuse_place(c, pending, device_upload_refusal(pending->delivery.outcome));
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
    ledger_count_in(route);
    ledger_count_refused(route, LEDGER_REFUSED_OVERLOADED, 0);
    return HANDLE_DONE;
}

/* A device's response to a command; mappers have no part in it. */
static enum handle publish_response(struct mqtt_conn *c, struct mqtt_device_publish *p, enum device_fault fault,
                                    uint16_t packet_id)
{
    struct command_answer answer;
    enum ledger_refusal why;

    if (!mqtt_device_prepare_response(p, fault, &answer, &why))
        return refuse(c, p, packet_id, why);
    if (p->qos == 2 && session_add_incoming(c->ss, packet_id) != E_OK)
        return refuse(c, p, packet_id, LEDGER_REFUSED_NO_MEMORY);
    answer.record.topic = tenant_topics_find(&c->mw->tenant_topics, p->principal->tenant->id, DEVICE_ENDPOINT_COMMAND);
    return submit(c, p, &answer.record, packet_id);
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
    struct mqtt_mapper_request request;
    const struct mqtt_mapped *mapped;
    struct device_record record;
    enum ledger_refusal why;

    p.config = mqtt_config(c->mw);
    p.registry = mqtt_registry(c->mw);
    p.commands = c->mw->adapter->settings.commands;
    p.principal = &c->ss->principal;
    p.topic = topic;
    p.address = address;
    p.payload = publish->payload;
    p.qos = publish->qos;
    p.retain = publish->retain;
    p.is_malformed = mqtt_publish_in_has_bad_format(publish);
    p.mapped = NULL;
    if (fault == DEVICE_FAULT_NONE && mqtt_provision_ask(c, topic->tenant, topic->device) == HANDLE_WAIT)
        return HANDLE_WAIT;
    take_properties(&p, &publish->properties);
    if (topic->endpoint == DEVICE_ENDPOINT_COMMAND)
        return publish_response(c, &p, fault, publish->packet_id);
    if (!mqtt_device_prepare(&p, fault, &record, &why))
        return refuse(c, &p, publish->packet_id, why);
    request = request_of(&p, &record);
    if (request.mapper.n) {
        if (mqtt_mapper_ask(c, &request, &mapped) == HANDLE_WAIT)
            return HANDLE_WAIT;
        if (!prepare_mapped(&p, mapped, &record, &why))
            return refuse(c, &p, publish->packet_id, why);
    }
    if (publish->qos == 2 && session_add_incoming(c->ss, publish->packet_id) != E_OK)
        return refuse(c, &p, publish->packet_id, LEDGER_REFUSED_NO_MEMORY);
    record.record.topic = tenant_topics_find(&c->mw->tenant_topics, p.principal->tenant->id, topic->endpoint);
    return submit(c, &p, &record.record, publish->packet_id);
}

void mqtt_device_publish_will(struct mqtt_worker *mw, const struct principal *principal, struct message *will,
                              const struct device_topic *topic, enum device_fault fault)
{
    enum ledger_route route = device_upload_route(topic->endpoint);
    struct mqtt_device_publish p = {
        .config = mqtt_config(mw),
        .registry = mqtt_registry(mw),
        .commands = mw->adapter->settings.commands,
        .principal = principal,
        .topic = topic,
        .address = will->topic,
        .payload = will->payload,
        .qos = will->qos,
        .retain = will->retain,
    };
    struct device_record record;
    struct mqtt_mapper_request request;
    const struct mqtt_mapped *mapped;
    struct mqtt_pending *pending;
    struct mqtt_properties props;
    enum ledger_refusal why;
    bool is_good;
    err e;

    if (mqtt_property_decode(will->properties, MQTT_WILL_PROPERTIES, &props) == MQTT_REASON_SUCCESS) /* as before, in CONNECT */
        take_properties(&p, &props);
    is_good = mqtt_device_prepare(&p, fault, &record, &why);
    if (is_good) {
        request = request_of(&p, &record);
        if (request.mapper.n) {
            if (mqtt_mapper_ask_for_will(mw, principal, will, &request, &mapped) == HANDLE_WAIT)
                return; /* it comes again, with the answer */
            is_good = prepare_mapped(&p, mapped, &record, &why);
        }
    }
    ledger_count_in(route);
    if (!is_good) {
        ledger_count_refused(route, why, 0);
        return;
    }
    record.record.topic = tenant_topics_find(&mw->tenant_topics, principal->tenant->id, topic->endpoint);
    pending = mqtt_pending_new_will(mw, route);
    e = sink_submit(mw->adapter->settings.sink, &record.record, &pending->delivery);
    if (e == E_OK) {
        device_upload_count(principal, &record.record);
        ledger_count_waiting(route, 1);
        return;
    }
    ledger_count_refused(route, e == E_AGAIN ? LEDGER_REFUSED_OVERLOADED : device_upload_refusal(pending->delivery.outcome), 0);
    mqtt_pending_drop(pending);
}
