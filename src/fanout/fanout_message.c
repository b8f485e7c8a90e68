#include "fanout/fanout_message.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/base64.h"
#include "base/check.h"
#include "fanout/fanout_leg.h"
#include "proto/cloudevents/cloudevent_http.h"

enum {
    ERROR_DATA_BYTES = 768, /* of an answer, in base64 1,024 characters */
    TIME_BYTES = 32,
    NUMBER_BYTES = 12,
    MAX_EXTRAS = 9,
};

static struct fanout_message *message_new(const struct fanout_leg *leg)
{
    struct fanout_message *message = mem_alloc_zero(MEM_FANOUT, sizeof *message);

    message->event = &leg->job->event.ce;
    return message;
}

void fanout_message_free(struct fanout_message *message)
{
    if (!message)
        return;
    buf_free(&message->lines, MEM_FANOUT);
    buf_free(&message->document, MEM_FANOUT);
    arena_free(&message->arena, MEM_FANOUT);
    mem_free(MEM_FANOUT, message);
}

static void add(struct fanout_message *message, struct cloudevent_attribute *to, struct str name, struct str value,
                enum cloudevent_type type)
{
    to[message->extras.n++] = (struct cloudevent_attribute){name, value, type};
}

static struct str print_number(struct fanout_message *message, uint32_t n)
{
    char text[NUMBER_BYTES];

    snprintf(text, sizeof text, "%" PRIu32, n);
    return arena_copy(&message->arena, MEM_FANOUT, str_from(text));
}

/* RFC 3339, as section 3.1.2 of CloudEvents has times. */
static struct str print_time(struct fanout_message *message, uint64_t wall_ms)
{
    time_t seconds = (time_t)(wall_ms / 1000);
    char text[TIME_BYTES], all[TIME_BYTES + 8];
    struct tm tm;

    if (!gmtime_r(&seconds, &tm) || !strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm))
        return (struct str){0};
    snprintf(all, sizeof all, "%s.%03uZ", text, (unsigned)(wall_ms % 1000));
    return arena_copy(&message->arena, MEM_FANOUT, str_from(all));
}

/* ---- replies ---- */

static bool has_specversion(const struct http1_response_head *response)
{
    return http1_response_header(response, STR("ce-specversion")).p != NULL;
}

static bool claims_event(const struct http1_response_head *response)
{
    struct str type = http1_response_header(response, STR("content-type"));

    return has_specversion(response) || (type.p && cloudevent_http_mode(type) != CLOUDEVENT_MODE_BINARY);
}

/* The response's memory is not ours for longer than the call's answer. */
static const struct http_header *keep_headers(struct fanout_message *message, const struct http1_response_head *response)
{
    struct http_header *headers = arena_alloc(&message->arena, MEM_FANOUT, (response->n_headers + 1) * sizeof *headers);

    for (size_t i = 0; i < response->n_headers; i++) {
        headers[i].name = arena_copy(&message->arena, MEM_FANOUT, response->headers[i].name);
        headers[i].value = arena_copy(&message->arena, MEM_FANOUT, response->headers[i].value);
    }
    return headers;
}

/* What goes with a reply: the namespace, and the allowed ones of the response's headers. */
static err begin_lines(struct fanout_message *message, const struct fanout_channel *channel, const struct http_header *headers,
                       size_t n_headers)
{
    err e = buf_printf(&message->lines, MEM_FANOUT, "Kn-Namespace: %.*s\r\n", STR_ARG(channel->ns));

    return e == E_OK ? fanout_event_forward(&message->lines, channel, headers, n_headers) : e;
}

enum fanout_reply fanout_message_read_reply(const struct fanout_leg *leg, const struct http1_response_head *response,
                                            struct str body, struct fanout_message **out_message)
{
    const struct fanout_channel *channel = leg->job->channel;
    struct fanout_message *message;
    struct cloudevent_attribute *extras;
    const struct http_header *headers;

    *out_message = NULL;
    if (!claims_event(response))
        return FANOUT_REPLY_NONE;
    message = message_new(leg);
    headers = keep_headers(message, response);
    if (cloudevent_http_read(&message->arena, MEM_FANOUT, headers, response->n_headers,
                             arena_copy(&message->arena, MEM_FANOUT, body), &message->reply, NULL) != E_OK ||
        begin_lines(message, channel, headers, response->n_headers) != E_OK) {
        fanout_message_free(message);
        return FANOUT_REPLY_MALFORMED;
    }
    message->event = &message->reply;
    extras = arena_alloc(&message->arena, MEM_FANOUT, sizeof *extras);
    message->extras.attributes = extras;
    extras[message->extras.n++] = leg->job->event.hops;
    *out_message = message;
    return FANOUT_REPLY_EVENT;
}

/* ---- failures ---- */

static struct str encode(struct fanout_message *message, struct str body)
{
    char *text;

    if (body.n > ERROR_DATA_BYTES)
        body.n = ERROR_DATA_BYTES;
    text = arena_alloc(&message->arena, MEM_FANOUT, BASE64_ENCODED_BYTES(body.n));
    return (struct str){text, base64_encode(body, text)};
}

struct fanout_message *fanout_message_new_failure(const struct fanout_leg *leg, const struct fanout_target *target,
                                                  struct str body)
{
    struct fanout_message *message = message_new(leg);
    struct cloudevent_attribute *extras = arena_alloc(&message->arena, MEM_FANOUT, MAX_EXTRAS * sizeof *extras);
    /* Null takes away what an earlier failure of the same event said. */
    struct str data = body.n ? encode(message, body) : (struct str){0};

    message->extras.attributes = extras;
    extras[message->extras.n++] = leg->job->event.hops;
    add(message, extras, STR("knativeerrordest"), target->text, CLOUDEVENT_STRING);
    add(message, extras, STR("knativeerrorcode"), print_number(message, leg->status), CLOUDEVENT_INTEGER);
    add(message, extras, STR("knativeerrordata"), data, CLOUDEVENT_STRING);
    add(message, extras, STR("millracereason"), str_from(fanout_metrics_fault_name(leg->fault)), CLOUDEVENT_STRING);
    add(message, extras, STR("millraceattempts"), print_number(message, leg->attempts), CLOUDEVENT_INTEGER);
    add(message, extras, STR("millracetime"), print_time(message, leg->failed_at_ms), CLOUDEVENT_STRING);
    add(message, extras, STR("millracesubscription"), leg->subscription->uid, CLOUDEVENT_STRING);
    return message;
}

/* ---- both ---- */

err fanout_message_text(struct fanout_message *message, const struct fanout_leg *leg, struct fanout_text *out_text)
{
    struct str common = message->event == &message->reply ? (struct str){0} : buf_str(&leg->job->event.common);

    if (!message->text.lines.p) {
        err e = fanout_event_write(&message->lines, &message->document, message->event, &message->extras, leg->job->channel,
                                   leg->subscription->format, common, &message->text);

        if (e != E_OK)
            return e;
    }
    *out_text = message->text;
    return E_OK;
}
