#include "adapter/mqtt/mqtt_command_out.h"

#include "adapter/mqtt/mqtt_mapper.h"
#include "adapter/mqtt/mqtt_metrics.h"
#include "adapter/mqtt/mqtt_output.h"
#include "base/check.h"
#include "broker/broker_metrics.h"
#include "broker/outgoing.h"
#include "broker/tracker.h"
#include "command/command_port.h"
#include "core/command_id.h"
#include "core/command_topic.h"
#include "core/message.h"
#include "proto/mqtt/mqtt_property.h"

enum {
    TOPIC_MAX = 65535,          /* [MQTT-1.5.4-3] */
    SILENCE_MS = 60 * 60 * 1000 /* a device that does not acknowledge a command is told of, not thrown out */
};

struct mqtt_command_out {
    struct tracker tracker;
    struct timer timer, repeat;
    struct session *ss; /* while the tracker is held by it */
    struct mqtt_worker *mw;
    struct list link;        /* of the worker's, for the end */
    struct command *command; /* NULL: it was given back */
    uint8_t qos;
};

static void give_back(struct mqtt_command_out *out, enum command_result result, int status, const char *text)
{
    if (out->command)
        command_done(out->command, result, status, text);
    out->command = NULL;
}

static void on_timeout(struct timer *t)
{
    struct mqtt_command_out *out = CONTAINER_OF(t, struct mqtt_command_out, timer);

    give_back(out, COMMAND_FAILED, 503, "timed out waiting for acknowledgement from device");
}

/* Before MQTT 5 a message may be sent again within a connection [MQTT-4.4.0-1], for devices that have lost it by themselves. */
static void on_repeat(struct timer *t)
{
    struct mqtt_command_out *out = CONTAINER_OF(t, struct mqtt_command_out, repeat);
    uint64_t interval_ms = mqtt_config(out->mw)->command.resend_interval_ms;

    if (!out->command || atomic_load(&out->tracker.refs) == 0)
        return;
    if (mqtt_output_version(out->ss->link) < MQTT_VERSION_5 && outgoing_repeat(out->ss, &out->tracker))
        mqtt_metrics_count(MQTT_COUNT_COMMANDS_RESENT, 1);
    if (interval_ms)
        wheel_start(&out->mw->worker->loop.wheel, &out->repeat, interval_ms);
}

/* Nobody has the message any more. What was lost with its session may go to the next one; everything else would be lost again. */
static void conclude(struct mqtt_command_out *out)
{
    unsigned losses = atomic_load(&out->tracker.losses);

    wheel_stop(&out->timer);
    wheel_stop(&out->repeat);
    if (atomic_load(&out->tracker.acknowledged))
        give_back(out, out->qos ? COMMAND_RECEIVED : COMMAND_ATTEMPTED, 0, NULL);
    else if (losses & 1u << BROKER_DROPPED_SESSION_END)
        give_back(out, COMMAND_RETURNED, 0, NULL);
    else if (losses & 1u << BROKER_DROPPED_TOO_LARGE)
        give_back(out, COMMAND_FAILED, 413, "command is larger than the device takes");
    else
        give_back(out, COMMAND_FAILED, 503, "command could not be sent to the device");
    list_remove(&out->link);
    mem_free(MEM_ADAPTER, out);
}

static void on_over(struct mail *m)
{
    conclude(CONTAINER_OF(m, struct mqtt_command_out, tracker.mail));
}

/* MQTT 5's properties, which older clients do not get: the content type, the message id, and the trace. False: no memory. */
static bool encode_properties(struct buf *encoded, const struct command_record *record, struct str content_type)
{
    struct mqtt_properties props = {0};
    struct buf user = {0};
    bool is_good = mqtt_property_append_user(&user, MEM_ADAPTER, STR("message-id"), record->message_id) == E_OK;

    if (record->trace.parent.n)
        is_good = is_good && mqtt_property_append_user(&user, MEM_ADAPTER, STR("traceparent"), record->trace.parent) == E_OK;
    if (record->trace.parent.n && record->trace.state.n)
        is_good = is_good && mqtt_property_append_user(&user, MEM_ADAPTER, STR("tracestate"), record->trace.state) == E_OK;
    props.raw = buf_str(&user);
    if (content_type.n)
        mqtt_property_set_text(&props, MQTT_PROPERTY_CONTENT_TYPE, content_type);
    is_good = is_good && mqtt_property_encode_bare(encoded, MEM_ADAPTER, &props) == E_OK;
    buf_free(&user, MEM_ADAPTER);
    return is_good;
}

static struct message *message_of(const struct command *command, const struct mqtt_mapped *mapped, struct str topic)
{
    struct str payload = mapped ? mapped->payload : command->record.value;
    struct str content_type = mapped && mapped->content_type.n ? mapped->content_type : command->record.content_type;
    struct buf encoded = {0};
    struct message *message = NULL;
    struct str properties;

    if (encode_properties(&encoded, &command->record, content_type)) {
        properties = buf_str(&encoded);
        message = message_new(command->tenant, topic, payload, properties.n);
        if (message && properties.n)
            memcpy(message_properties(message), properties.p, properties.n);
    }
    buf_free(&encoded, MEM_ADAPTER);
    return message;
}

/* NULL: no memory, or the topic is longer than MQTT has them. */
static struct message *make_message(const struct mqtt_conn *c, const struct command_filter *filter,
                                    const struct command *command, const struct mqtt_mapped *mapped)
{
    struct command_address address = {.device = command->target, .subject = command->record.subject};
    char id[COMMAND_ID_BYTES], *topic;
    struct message *message;
    size_t n;

    if (command->record.is_response_required)
        address.request_id = (struct str){id, command_id_write(command->record.correlation_id, id)};
    if (c->version < MQTT_VERSION_5 && mqtt_config(c->mw)->command.has_message_id_in_topic)
        address.message_id = command->record.message_id;
    n = command_topic_size(filter, &address);
    topic = n <= TOPIC_MAX ? mem_try_alloc(MEM_ADAPTER, n) : NULL;
    if (!topic)
        return NULL;
    command_topic_format(filter, &address, topic);
    message = message_of(command, mapped, (struct str){topic, n});
    mem_free(MEM_ADAPTER, topic);
    return message;
}

void mqtt_command_out_fini(struct mqtt_worker *mw)
{
    struct list *link;

    while ((link = list_pop(&mw->commands_out))) {
        struct mqtt_command_out *out = CONTAINER_OF(link, struct mqtt_command_out, link);

        wheel_stop(&out->timer);
        wheel_stop(&out->repeat);
        mem_free(MEM_ADAPTER, out);
    }
}

void mqtt_command_out_deliver(struct mqtt_conn *c, const struct command_filter *filter, uint8_t qos, uint32_t subscription_id,
                              struct command *command, const struct mqtt_mapped *mapped)
{
    struct loop *loop = &c->mw->worker->loop;
    struct message *message = make_message(c, filter, command, mapped);
    struct mqtt_command_out *out;
    struct outgoing_request request;

    if (!message) {
        command_done(command, COMMAND_FAILED, 503, "command could not be sent to the device");
        return;
    }
    message->qos = qos;
    message->received_ms = loop->now_ms;
    out = mem_alloc(MEM_ADAPTER, sizeof *out);
    *out = (struct mqtt_command_out){.timer = {.on_timer = on_timeout},
                                     .repeat = {.on_timer = on_repeat},
                                     .ss = c->ss,
                                     .mw = c->mw,
                                     .command = command,
                                     .qos = qos};
    out->tracker.mail.on_mail = on_over;
    out->tracker.home = &loop->mailbox;
    tracker_start(&out->tracker, SILENCE_MS);
    request = (struct outgoing_request){
        .message = message,
        .tracker = &out->tracker,
        .ids = &subscription_id,
        .n_ids = subscription_id != 0,
        .qos = qos,
    };
    if (qos)
        wheel_start(&loop->wheel, &out->timer, mqtt_config(c->mw)->command.ack_timeout_ms);
    if (qos && mqtt_config(c->mw)->command.resend_interval_ms)
        wheel_start(&loop->wheel, &out->repeat, mqtt_config(c->mw)->command.resend_interval_ms);
    list_push(&c->mw->commands_out, &out->link);
    outgoing_deliver(c->ss, &request);
    message_unref(message);
    if (tracker_note_decided(&out->tracker))
        conclude(out);
}
