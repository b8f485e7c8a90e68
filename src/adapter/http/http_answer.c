#include "adapter/http/http_answer.h"

#include "base/check.h"
#include "command/command_port.h"
#include "core/command_id.h"

enum { MAX_HEADERS = 8, ERROR_BYTES = 256 };

struct headers {
    struct http_header items[MAX_HEADERS];
    size_t n;
};

static const struct {
    uint16_t status;
    const char *text;
} refusals[LEDGER_REFUSALS] = {
    [LEDGER_REFUSED_TOO_LARGE] = {413, "the message is larger than Kafka takes"},
    [LEDGER_REFUSED_UNKNOWN_TOPIC] = {503, "temporarily unavailable: Kafka has no topic for this tenant"},
    [LEDGER_REFUSED_DENIED] = {503, "temporarily unavailable: Kafka refuses access"},
    [LEDGER_REFUSED_INVALID] = {400, "Kafka finds the message faulty"},
    [LEDGER_REFUSED_UNAVAILABLE] = {503, "temporarily unavailable"},
    [LEDGER_REFUSED_OVERLOADED] = {503, "temporarily unavailable: no room for the message"},
    [LEDGER_REFUSED_FAILED] = {503, "temporarily unavailable"},
    [LEDGER_REFUSED_BAD_REQUEST] = {400, "bad request"},
    [LEDGER_REFUSED_FORBIDDEN] = {403, "not authorised for this device"},
    [LEDGER_REFUSED_NOT_FOUND] = {404, "no such device"},
    [LEDGER_REFUSED_PAYLOAD_FORMAT] = {400, "the item is not what the content type says"},
    [LEDGER_REFUSED_NO_MEMORY] = {503, "temporarily unavailable: no memory"},
    [LEDGER_REFUSED_DATA_VOLUME] = {429, "the data volume of the tenant is used up"},
};

uint16_t http_answer_status(enum ledger_refusal why)
{
    return refusals[why].status ? refusals[why].status : 503;
}

const char *http_answer_text(enum ledger_refusal why)
{
    return refusals[why].text ? refusals[why].text : "temporarily unavailable";
}

static void add(struct headers *h, struct str name, struct str value)
{
    ASSERT(h->n < MAX_HEADERS);
    h->items[h->n++] = (struct http_header){name, value};
}

/* Whether a script from the request's origin may send requests. False without an origin: nobody asks. */
static bool admits_origin(const struct http_exchange *x, const struct config_http *config)
{
    struct str origin = http_message_header(&x->request, STR("Origin"));

    return origin.n && (str_equal(config->cors_allowed_origin, STR("*")) || str_equal(config->cors_allowed_origin, origin));
}

static void add_cors(struct headers *h, const struct http_exchange *x, const struct config_http *config)
{
    if (!admits_origin(x, config))
        return;
    add(h, STR("Access-Control-Allow-Origin"), config->cors_allowed_origin);
    if (!str_equal(config->cors_allowed_origin, STR("*")))
        add(h, STR("Vary"), STR("Origin"));
}

static void respond(struct http_exchange *x, const struct config_http *config, uint16_t status, struct str body,
                    bool is_retriable)
{
    struct http_response r = {.status = status, .body = body};
    struct headers h = {.n = 0};

    add_cors(&h, x, config);
    if (h.n)
        add(&h, STR("Access-Control-Expose-Headers"), STR("hono-command, hono-cmd-req-id"));
    if (status == 401)
        add(&h, STR("WWW-Authenticate"), STR("Basic realm=\"Hono\""));
    if (is_retriable)
        add(&h, STR("Retry-After"), STR("2"));
    if (body.n)
        r.content_type = STR("application/json");
    r.headers = h.items;
    r.n_headers = h.n;
    http_exchange_respond(x, &r);
}

/* What scripts may send to an endpoint. */
static const struct str allowed_headers[DEVICE_ENDPOINTS] = {
    [DEVICE_ENDPOINT_TELEMETRY] = STR_INIT("QoS-Level, hono-ttd, authorization, content-type, device-pointer"),
    [DEVICE_ENDPOINT_EVENT] = STR_INIT("hono-ttd, hono-ttl, authorization, content-type, device-pointer"),
    [DEVICE_ENDPOINT_COMMAND] = STR_INIT("hono-cmd-status, authorization, content-type"),
};

void http_answer_accept(struct http_exchange *x, const struct config_http *config)
{
    respond(x, config, 202, (struct str){0}, false);
}

void http_answer_refuse(struct http_exchange *x, const struct config_http *config, uint16_t status, const char *text)
{
    char body[ERROR_BYTES];

    respond(x, config, status, (struct str){body, http_exchange_format_error(body, sizeof body, str_from(text))},
            status == 503);
}

void http_answer_json(struct http_exchange *x, const struct config_http *config, uint16_t status, struct str json,
                      bool is_retriable)
{
    respond(x, config, status, json, is_retriable);
}

void http_answer_command(struct http_exchange *x, const struct config_http *config, const struct command *command)
{
    const struct command_record *record = &command->record;
    struct http_response r = {.status = 200, .content_type = record->content_type, .body = record->value};
    struct headers h = {.n = 0};
    char id[COMMAND_ID_BYTES];

    add_cors(&h, x, config);
    if (h.n)
        add(&h, STR("Access-Control-Expose-Headers"), STR("hono-command, hono-cmd-req-id"));
    add(&h, STR("hono-command"), record->subject);
    add(&h, STR("hono-cmd-id"), record->message_id);
    if (record->is_response_required)
        add(&h, STR("hono-cmd-req-id"), (struct str){id, command_id_write(record->correlation_id, id)});
    if (command->target.n)
        add(&h, STR("hono-cmd-target-device"), command->target);
    r.headers = h.items;
    r.n_headers = h.n;
    http_exchange_respond(x, &r);
}

void http_answer_options(struct http_exchange *x, const struct config_http *config, enum device_endpoint endpoint, bool is_put)
{
    struct str methods = is_put ? STR("PUT, OPTIONS") : STR("POST, OPTIONS");
    struct http_response r = {.status = 204};
    struct headers h = {.n = 0};

    if (http_message_header(&x->request, STR("Origin")).n && !admits_origin(x, config)) {
        http_answer_refuse(x, config, 403, "requests from this origin are not allowed");
        return;
    }
    add(&h, STR("Allow"), methods);
    add_cors(&h, x, config);
    if (h.n > 1) {
        add(&h, STR("Access-Control-Allow-Methods"), methods);
        add(&h, STR("Access-Control-Allow-Headers"), allowed_headers[endpoint]);
    }
    r.headers = h.items;
    r.n_headers = h.n;
    http_exchange_respond(x, &r);
}
