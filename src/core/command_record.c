#include "core/command_record.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/utf8.h"
#include "core/command_id.h"

static const char failure_type[] = "application/vnd.eclipse-hono-delivery-failure-notification+json";
static const char success_type[] = "application/vnd.eclipse-hono-delivery-success-notification+json";

static const struct {
    const char *name;
    int status;
} faults[] = {
    [COMMAND_FAULT_NONE] = {"none", 0},         [COMMAND_FAULT_NO_DEVICE] = {"no_device", 0},
    [COMMAND_FAULT_KEY] = {"key", 0},           [COMMAND_FAULT_EXPIRED] = {"expired", 0},
    [COMMAND_FAULT_SUBJECT] = {"subject", 400}, [COMMAND_FAULT_CORRELATION_ID] = {"correlation_id", 400},
};
static_assert(ARRAY_LEN(faults) == COMMAND_FAULTS, "every fault has a name");

int command_record_fault_status(enum command_fault fault)
{
    ASSERT((unsigned)fault < COMMAND_FAULTS);
    return faults[fault].status;
}

const char *command_record_fault_name(enum command_fault fault)
{
    ASSERT((unsigned)fault < COMMAND_FAULTS);
    return faults[fault].name;
}

/* ---- reading ---- */

enum field {
    FIELD_DEVICE_ID,
    FIELD_SUBJECT,
    FIELD_CONTENT_TYPE,
    FIELD_CORRELATION_ID,
    FIELD_RESPONSE_REQUIRED,
    FIELD_ACK_REQUIRED,
    FIELD_MESSAGE_ID,
    FIELD_TTL,
    FIELD_CREATION_TIME,
    FIELDS,
};

static const struct str field_names[FIELDS] = {
    [FIELD_DEVICE_ID] = STR_INIT("device_id"),
    [FIELD_SUBJECT] = STR_INIT("subject"),
    [FIELD_CONTENT_TYPE] = STR_INIT("content-type"),
    [FIELD_CORRELATION_ID] = STR_INIT("correlation-id"),
    [FIELD_RESPONSE_REQUIRED] = STR_INIT("response-required"),
    [FIELD_ACK_REQUIRED] = STR_INIT("ack-required"),
    [FIELD_MESSAGE_ID] = STR_INIT("message-id"),
    [FIELD_TTL] = STR_INIT("ttl"),
    [FIELD_CREATION_TIME] = STR_INIT("creation-time"),
};

static const struct str metadata_prefix = STR_INIT("delivery-failure-notification-metadata");

static void take_header(const struct record_header *header, struct str fields[FIELDS], struct command_record *out)
{
    for (int i = 0; i < FIELDS; i++)
        if (!fields[i].p && str_equal(header->name, field_names[i]))
            fields[i] = header->value.p ? header->value : STR("");
    if (str_starts_with(header->name, metadata_prefix) && out->n_metadata < COMMAND_RECORD_METADATA_MAX)
        out->metadata[out->n_metadata++] = *header;
    trace_context_take(&out->trace, header->name, header->value);
}

/* A text that can be told again in a topic, a property or a header; else it counts as absent. */
static struct str plain(struct str value)
{
    return utf8_is_plain(value) ? value : (struct str){0};
}

static bool is_true(struct str value)
{
    return str_equal(value, STR("true"));
}

static void read_expiry(const struct str fields[FIELDS], const struct command_place *place, struct command_record *out)
{
    uint64_t ttl_ms, created_ms;

    if (!str_to_u64(fields[FIELD_TTL], INT64_MAX / 2, &ttl_ms))
        return;
    if (!str_to_u64(fields[FIELD_CREATION_TIME], INT64_MAX / 2, &created_ms)) {
        if (place->timestamp_ms < 0)
            return;
        created_ms = (uint64_t)place->timestamp_ms;
    }
    out->has_ttl = true;
    out->expires_at_ms = (int64_t)(created_ms + ttl_ms);
}

static struct str make_message_id(struct str given, const struct command_place *place, char *to)
{
    if (given.n > 0 && given.n < COMMAND_RECORD_MESSAGE_ID_BYTES)
        return given;
    return (struct str){to, (size_t)snprintf(to, COMMAND_RECORD_MESSAGE_ID_BYTES, "%.*s/%" PRId32 "/%" PRId64,
                                             STR_ARG(place->topic), place->partition, place->offset)};
}

/* MQTT forbids wildcards and U+0000 in the topic of a PUBLISH [MQTT-3.3.2-2, MQTT-1.5.4-2]. */
static bool is_subject(struct str subject)
{
    return subject.n > 0 && subject.n <= COMMAND_RECORD_SUBJECT_MAX && utf8_is_plain(subject) &&
           !memchr(subject.p, '+', subject.n) && !memchr(subject.p, '#', subject.n);
}

enum command_fault command_record_read(struct str key, struct str value, const struct record_header *headers, size_t n_headers,
                                       const struct command_place *place, int64_t now_ms, struct command_record *out_command)
{
    struct command_record *c = out_command;
    struct str fields[FIELDS] = {0};

    *c = (struct command_record){.value = value, .has_value = value.p != NULL};
    for (size_t i = 0; i < n_headers; i++)
        take_header(&headers[i], fields, c);
    trace_context_check(&c->trace);
    c->device_id = fields[FIELD_DEVICE_ID];
    c->subject = fields[FIELD_SUBJECT];
    c->content_type = plain(fields[FIELD_CONTENT_TYPE]);
    c->correlation_id = plain(fields[FIELD_CORRELATION_ID]);
    c->is_response_required = is_true(fields[FIELD_RESPONSE_REQUIRED]);
    c->is_ack_required = is_true(fields[FIELD_ACK_REQUIRED]);
    c->message_id = make_message_id(plain(fields[FIELD_MESSAGE_ID]), place, c->text);
    read_expiry(fields, place, c);
    if (c->device_id.n == 0)
        return COMMAND_FAULT_NO_DEVICE;
    if (!str_equal(key, c->device_id))
        return COMMAND_FAULT_KEY;
    if (c->has_ttl && c->expires_at_ms < now_ms)
        return COMMAND_FAULT_EXPIRED;
    if (!is_subject(c->subject))
        return COMMAND_FAULT_SUBJECT;
    if (c->is_response_required && !command_id_is_legal(c->correlation_id))
        return COMMAND_FAULT_CORRELATION_ID;
    return COMMAND_FAULT_NONE;
}

/* ---- answers ---- */

struct builder {
    struct command_answer *out;
    size_t n_text;
};

static void add(struct builder *b, struct str name, struct str value)
{
    ASSERT(b->out->record.n_headers < COMMAND_RECORD_HEADERS_MAX);
    b->out->headers[b->out->record.n_headers++] = (struct record_header){name, value};
}

static void add_number(struct builder *b, struct str name, int64_t number)
{
    char *to = b->out->text + b->n_text;
    int n = snprintf(to, sizeof b->out->text - b->n_text, "%" PRId64, number);

    ASSERT(b->n_text + (size_t)n < sizeof b->out->text);
    b->n_text += (size_t)n;
    add(b, name, (struct str){to, (size_t)n});
}

static struct builder begin(struct command_answer *out, struct str tenant, struct str device_id, struct str correlation_id,
                            int status, int64_t now_ms)
{
    struct builder b = {.out = out};

    out->record = (struct record){.key = device_id, .headers = out->headers};
    if (correlation_id.n > 0)
        add(&b, STR("correlation-id"), correlation_id);
    add_number(&b, STR("creation-time"), now_ms);
    add(&b, STR("device_id"), device_id);
    add(&b, STR("tenant_id"), tenant);
    add_number(&b, STR("status"), status);
    return b;
}

static void add_trace(struct builder *b, const struct trace_context *trace)
{
    if (trace->parent.n > 0)
        add(b, STR("traceparent"), trace->parent);
    if (trace->parent.n > 0 && trace->state.n > 0)
        add(b, STR("tracestate"), trace->state);
}

void command_record_build_response(const struct command_response *response, struct command_answer *out_answer)
{
    const struct command_response *r = response;
    struct builder b = begin(out_answer, r->tenant, r->device_id, r->correlation_id, r->status, r->now_ms);

    if (r->content_type.n > 0)
        add(&b, STR("content-type"), r->content_type);
    else if (r->payload.n > 0)
        add(&b, STR("content-type"), STR("application/octet-stream"));
    if (r->ttl_s >= 0)
        add_number(&b, STR("ttl"), r->ttl_s < INT64_MAX / 1000 ? r->ttl_s * 1000 : INT64_MAX);
    add_trace(&b, &r->trace);
    if (r->payload.n > 0)
        out_answer->record.value = r->payload;
}

void command_record_build_notice(const struct command_record *command, struct str tenant, int status, struct str text,
                                 int64_t now_ms, struct command_answer *out_answer)
{
    bool is_success = status < 300;
    struct builder b = begin(out_answer, tenant, command->device_id, command->correlation_id, status, now_ms);
    int n = snprintf(out_answer->body, sizeof out_answer->body, "{\"%s\":\"%.*s\"}", is_success ? "acknowledgement" : "error",
                     STR_ARG(text));

    ASSERT(n > 0 && (size_t)n < sizeof out_answer->body);
    add(&b, STR("content-type"), is_success ? str_from(success_type) : str_from(failure_type));
    if (is_success || command->correlation_id.n == 0) /* Hono has neither, and nothing but the correlation id in the others */
        add(&b, STR("message-id"), command->message_id);
    for (size_t i = 0; i < command->n_metadata; i++)
        add(&b, command->metadata[i].name, command->metadata[i].value);
    add_trace(&b, &command->trace);
    out_answer->record.value = (struct str){out_answer->body, (size_t)n};
}
