#include "adapter/mqtt/mqtt_errors.h"

#include "adapter/ledger.h"
#include "adapter/mqtt/mqtt_extras.h"
#include "adapter/mqtt/mqtt_output.h"
#include "base/check.h"
#include "core/device_error.h"
#include "loop/loop.h"

/* Enough for every name and correlation id that means something; an error that does not fit is not told. */
enum { TOPIC_BYTES = 2048, BODY_BYTES = 4096 };

struct error_subscription {
    struct error_subscription *next;
    struct device_error_filter filter; /* views into `text` */
    uint32_t id;
    uint32_t text_bytes;
    char text[];
};

struct mqtt_errors {
    struct error_subscription *first; /* in the order of the SUBSCRIBE packets */
    uint32_t n;
};

struct mqtt_error_note {
    enum device_endpoint endpoint;
    bool is_short;
    const char *text; /* NULL: the refusal's */
    struct str device, correlation_id;
    char bytes[];
};

/* Every error of Kafka is one of the service for a device, save that its own record is too large (docs/wire/device-data.md). */
static const struct {
    int status;
    const char *text;
} faces[] = {
    [LEDGER_REFUSED_TOO_LARGE] = {413, "message is too large"},
    [LEDGER_REFUSED_UNKNOWN_TOPIC] = {503, "temporarily unavailable"},
    [LEDGER_REFUSED_DENIED] = {503, "temporarily unavailable"},
    [LEDGER_REFUSED_INVALID] = {503, "temporarily unavailable"},
    [LEDGER_REFUSED_UNAVAILABLE] = {503, "temporarily unavailable"},
    [LEDGER_REFUSED_OVERLOADED] = {503, "temporarily unavailable"},
    [LEDGER_REFUSED_FAILED] = {503, "temporarily unavailable"},
    [LEDGER_REFUSED_BAD_REQUEST] = {400, "bad request"},
    [LEDGER_REFUSED_FORBIDDEN] = {403, "not authorized to publish for the device"},
    [LEDGER_REFUSED_NOT_FOUND] = {404, "device is unknown or disabled"},
    [LEDGER_REFUSED_TOO_DEEP] = {400, "topic has too many levels"},
    [LEDGER_REFUSED_PAYLOAD_FORMAT] = {400, "payload is not the text it claims to be"},
    [LEDGER_REFUSED_NO_MEMORY] = {503, "temporarily unavailable"},
    [LEDGER_REFUSED_TOPIC_TOO_LONG] = {400, "name of the Kafka topic is too long"},
    [LEDGER_REFUSED_PARTITION] = {400, "no such partition"},
    [LEDGER_REFUSED_HOP_LIMIT] = {400, "message has gone around too often"},
    [LEDGER_REFUSED_TOO_MANY_TOPICS] = {503, "temporarily unavailable"},
    [LEDGER_REFUSED_DATA_VOLUME] = {429, "data volume of the tenant is used up"},
};
static_assert(ARRAY_LEN(faces) == LEDGER_REFUSALS, "every refusal has a status");

int mqtt_errors_status(enum ledger_refusal why)
{
    ASSERT((unsigned)why < LEDGER_REFUSALS);
    return faces[why].status;
}

const char *mqtt_errors_text(enum ledger_refusal why)
{
    ASSERT((unsigned)why < LEDGER_REFUSALS);
    return faces[why].text;
}

static struct mqtt_errors *errors_of(const struct mqtt_conn *c)
{
    return c->state == MQTT_OPEN && c->extras ? c->extras->errors : NULL;
}

/* --- subscriptions --- */

bool mqtt_errors_is_filter(const struct mqtt_conn *c, struct str filter)
{
    struct device_error_filter parsed;

    return mqtt_conn_listener(c)->is_hono && filter.p[0] == 'e' && device_error_parse_filter(filter, &parsed) != E_NOTFOUND;
}

/* A device sees its own errors, a gateway those of its devices too. A client without a name must say whose. */
static bool is_allowed(const struct mqtt_conn *c, const struct device_error_filter *filter)
{
    const struct principal *who = &c->ss->principal;
    struct registration registration;

    if (filter->tenant.n && !str_equal(filter->tenant, who->tenant->id))
        return false;
    if (!who->device)
        return filter->tenant.n && filter->device.n;
    if (filter->device.n == 0 || str_equal(filter->device, who->device->id))
        return true;
    return registry_assert(mqtt_registry(c->mw), who->tenant->id, filter->device, who->device->id, &registration) ==
           REGISTRY_ASSERTED;
}

static struct str text_of(const struct error_subscription *sub)
{
    return (struct str){sub->text, sub->text_bytes};
}

/* Where the subscription with this filter hangs, or would. */
static struct error_subscription **find(struct mqtt_errors *errors, struct str filter)
{
    struct error_subscription **at = &errors->first;

    while (*at && !str_equal(text_of(*at), filter))
        at = &(*at)->next;
    return at;
}

static uint8_t add(struct mqtt_conn *c, struct error_subscription **at, struct str filter, uint32_t id)
{
    struct mqtt_errors *errors = c->extras->errors;
    struct error_subscription *sub;

    if (errors->n >= mqtt_limits(c->mw)->subscriptions_per_session)
        return MQTT_REASON_QUOTA_EXCEEDED;
    sub = mem_try_alloc(MEM_ADAPTER, sizeof *sub + filter.n);
    if (!sub)
        return MQTT_REASON_QUOTA_EXCEEDED;
    *sub = (struct error_subscription){.id = id, .text_bytes = (uint32_t)filter.n};
    memcpy(sub->text, filter.p, filter.n);
    ERR_IGNORE(device_error_parse_filter(text_of(sub), &sub->filter)); /* it was one before */
    *at = sub;
    errors->n++;
    return MQTT_REASON_SUCCESS;
}

uint8_t mqtt_errors_subscribe(struct mqtt_conn *c, struct str filter, uint8_t qos, uint32_t id)
{
    struct device_error_filter parsed;
    struct error_subscription **at;
    struct mqtt_extras *extras;

    if (device_error_parse_filter(filter, &parsed) != E_OK || qos != 0)
        return MQTT_REASON_UNSPECIFIED_ERROR;
    if (!is_allowed(c, &parsed))
        return MQTT_REASON_NOT_AUTHORIZED;
    extras = mqtt_extras_make(c);
    if (!extras->errors)
        extras->errors = mem_alloc_zero(MEM_ADAPTER, sizeof *extras->errors);
    at = find(extras->errors, filter);
    if (!*at)
        return add(c, at, filter, id);
    (*at)->id = id; /* [MQTT-3.8.4-3] */
    return MQTT_REASON_SUCCESS;
}

bool mqtt_errors_unsubscribe(struct mqtt_conn *c, struct str filter)
{
    struct mqtt_errors *errors = errors_of(c);
    struct error_subscription **at = errors ? find(errors, filter) : NULL;
    struct error_subscription *sub = at ? *at : NULL;

    if (!sub)
        return false;
    *at = sub->next;
    errors->n--;
    mem_free(MEM_ADAPTER, sub);
    return true;
}

void mqtt_errors_free(struct mqtt_errors *errors)
{
    while (errors && errors->first) {
        struct error_subscription *sub = errors->first;

        errors->first = sub->next;
        mem_free(MEM_ADAPTER, sub);
    }
    mem_free(MEM_ADAPTER, errors);
}

/* --- notes --- */

struct mqtt_error_note *mqtt_errors_note(const struct mqtt_conn *c, const struct device_topic *topic, struct str correlation_id)
{
    struct mqtt_errors *errors = errors_of(c);
    struct mqtt_error_note *note;
    char *at;

    if (!errors || !errors->first)
        return NULL;
    note = mem_try_alloc(MEM_ADAPTER, sizeof *note + topic->device.n + correlation_id.n);
    if (!note)
        return NULL;
    at = note->bytes;
    *note = (struct mqtt_error_note){.endpoint = topic->endpoint, .is_short = topic->is_short};
    note->device = str_put(&at, topic->device);
    note->correlation_id = str_put(&at, correlation_id);
    return note;
}

void mqtt_errors_explain(struct mqtt_error_note *note, const char *text)
{
    if (note)
        note->text = text;
}

void mqtt_errors_drop_note(struct mqtt_error_note *note)
{
    mem_free(MEM_ADAPTER, note);
}

/* --- messages --- */

/* The subscription that is told: one that names the device goes before others. */
static const struct error_subscription *select_for(const struct mqtt_errors *errors, const struct device_error *error)
{
    struct str failed = error->device.n ? error->device : error->sender;
    const struct error_subscription *chosen = NULL;

    for (const struct error_subscription *sub = errors->first; sub; sub = sub->next) {
        if (!device_error_matches(&sub->filter, error))
            continue;
        if (str_equal(sub->filter.device, failed))
            return sub;
        if (!chosen)
            chosen = sub;
    }
    return chosen;
}

static bool tell(struct mqtt_conn *c, const struct error_subscription *sub, const struct device_error *error)
{
    char topic[TOPIC_BYTES], body[BODY_BYTES];
    size_t topic_bytes, body_bytes;

    if (device_error_format_topic(&sub->filter, error, topic, sizeof topic, &topic_bytes) != E_OK ||
        device_error_format_body(error, body, sizeof body, &body_bytes) != E_OK)
        return false;
    return mqtt_output_json(c, (struct str){topic, topic_bytes}, (struct str){body, body_bytes}, sub->id) == E_OK;
}

bool mqtt_errors_publish(struct mqtt_conn *c, const struct mqtt_error_note *note, uint16_t packet_id, enum ledger_refusal why)
{
    const struct mqtt_errors *errors = errors_of(c);
    const struct error_subscription *sub;
    const struct principal *who;
    struct device_error error;
    bool is_sent;

    if (!note || !errors)
        return false;
    who = &c->ss->principal;
    error = (struct device_error){
        .endpoint = note->endpoint,
        .is_short = note->is_short,
        .device = note->device,
        .sender = who->device ? who->device->id : (struct str){0},
        .tenant = who->tenant->id,
        .correlation_id = note->correlation_id,
        .packet_id = packet_id,
        .status = faces[why].status,
        .message = str_from(note->text ? note->text : faces[why].text),
        .time_ms = loop_wall_ms(),
    };
    sub = select_for(errors, &error);
    if (!sub)
        return false;
    is_sent = tell(c, sub, &error);
    mqtt_metrics_count(is_sent ? MQTT_COUNT_ERRORS_TOLD : MQTT_COUNT_ERRORS_UNTOLD, 1);
    return is_sent;
}
