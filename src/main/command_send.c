#include "main/command_send.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/check.h"
#include "loop/loop.h"
#include "main/talk.h"

enum { DEFAULT_TIMEOUT_MS = 10000, ID_BYTES = 16, TOPIC_BYTES = 300, HEADERS_MAX = 9, NOT_USABLE = 2 };

/* A command being sent. It points into itself. */
struct sending {
    const struct cli_talk *talk;
    struct kafka_client *client;
    int64_t timeout_ms, ttl_ms; /* ttl negative: none */
    uint64_t began_ms;
    bool is_json;
    char id[2 * ID_BYTES + 1], topic[TOPIC_BYTES], answers[TOPIC_BYTES], created[24], ttl[24];
    struct record_header headers[HEADERS_MAX];
    size_t n_headers;
};

static bool read_flags(const struct cli *cli, struct sending *s)
{
    bool is_good;

    s->talk = &cli->talk;
    s->is_json = talk_is_json(cli, &is_good);
    return is_good && talk_duration("--timeout", s->talk->timeout, DEFAULT_TIMEOUT_MS, &s->timeout_ms) &&
           talk_duration("--ttl", s->talk->ttl, -1, &s->ttl_ms);
}

static void add(struct sending *s, const char *name, const char *value)
{
    ASSERT(s->n_headers < HEADERS_MAX);
    if (value)
        s->headers[s->n_headers++] = (struct record_header){str_from(name), str_from(value)};
}

static void prepare(struct sending *s)
{
    uint8_t bytes[ID_BYTES];

    ASSERT(getrandom(bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(s->id + 2 * i, 3, "%02x", bytes[i]);
    snprintf(s->topic, sizeof s->topic, "hono.command.%s", s->talk->tenant);
    snprintf(s->answers, sizeof s->answers, "hono.command_response.%s", s->talk->tenant);
    snprintf(s->created, sizeof s->created, "%" PRIu64, loop_wall_ms());
    snprintf(s->ttl, sizeof s->ttl, "%" PRId64, s->ttl_ms);
    add(s, "device_id", s->talk->device);
    add(s, "subject", s->talk->name);
    add(s, "content-type", s->talk->content_type);
    add(s, "correlation-id", s->id);
    add(s, "message-id", s->id);
    add(s, "creation-time", s->created);
    add(s, "ttl", s->ttl_ms >= 0 ? s->ttl : NULL);
    add(s, "response-required", s->talk->wants_response ? "true" : NULL);
    add(s, "ack-required", s->talk->wants_ack ? "true" : NULL);
}

/* What an answer is: of the device, or a notice of its delivery. */
enum answer { ANSWER_DEVICE, ANSWER_DELIVERED, ANSWER_FAILED };

static enum answer kind_of(const struct kafka_client_record *record)
{
    struct str type = talk_header(record, "content-type");

    if (str_equal(type, STR("application/vnd.eclipse-hono-delivery-failure-notification+json")))
        return ANSWER_FAILED;
    return str_equal(type, STR("application/vnd.eclipse-hono-delivery-success-notification+json")) ? ANSWER_DELIVERED
                                                                                                   : ANSWER_DEVICE;
}

static void print_answer(const struct sending *s, const struct kafka_client_record *record, enum answer kind)
{
    static const char *const words[] = {
        [ANSWER_DEVICE] = "answer", [ANSWER_DELIVERED] = "delivered", [ANSWER_FAILED] = "not delivered"};
    static const char *const names[] = {
        [ANSWER_DEVICE] = "answer", [ANSWER_DELIVERED] = "delivered", [ANSWER_FAILED] = "failed"};
    uint64_t took_ms = loop_clock_ms() - s->began_ms;

    if (!s->is_json) {
        printf("%s: %.*s after %" PRIu64 " ms%s", words[kind], STR_ARG(talk_header(record, "status")), took_ms,
               record->value.n ? ": " : "");
        talk_print_payload(record->value);
        printf("\n");
        return;
    }
    printf("{\"outcome\":\"%s\",\"status\":%.*s,\"milliseconds\":%" PRIu64 ",\"content-type\":", names[kind],
           STR_ARG(talk_header(record, "status")), took_ms);
    talk_print_json(talk_header(record, "content-type"));
    printf(",\"payload\":");
    talk_print_json(record->value);
    printf("}\n");
}

/* Waits for what was asked for, an acknowledgement and an answer at most. The exit status. */
static int wait_for_answers(struct sending *s)
{
    bool wants_answer = s->talk->wants_response, wants_ack = s->talk->wants_ack;
    uint64_t until_ms = s->began_ms + (uint64_t)s->timeout_ms, now;
    struct kafka_client_record record;
    struct errinfo ei = {0};
    uint64_t status = 0;

    while ((wants_answer || wants_ack) && (now = loop_clock_ms()) < until_ms) {
        err e = kafka_client_next(s->client, (uint32_t)(until_ms - now), &record, &ei);
        enum answer kind;

        if (e == E_TIMEOUT)
            continue;
        if (e != E_OK) {
            fprintf(stderr, "millrace: %s\n", ei.text);
            return NOT_USABLE;
        }
        if (!str_equal(talk_header(&record, "correlation-id"), str_from(s->id)))
            continue;
        kind = kind_of(&record);
        print_answer(s, &record, kind);
        if (kind == ANSWER_FAILED)
            return EXIT_FAILURE;
        if (kind == ANSWER_DEVICE && (!str_to_u64(talk_header(&record, "status"), 599, &status) || status >= 300))
            return EXIT_FAILURE;
        wants_ack &= kind != ANSWER_DELIVERED;
        wants_answer &= kind != ANSWER_DEVICE;
    }
    if (!wants_answer && !wants_ack)
        return EXIT_SUCCESS;
    fprintf(stderr, "millrace: nothing came back within %" PRId64 " ms\n", s->timeout_ms);
    return EXIT_FAILURE;
}

static int send_it(struct sending *s)
{
    struct str answers = str_from(s->answers);
    struct record record = {
        .key = str_from(s->talk->device),
        .value = s->talk->payload ? str_from(s->talk->payload) : (struct str){0},
        .headers = s->headers,
        .n_headers = s->n_headers,
    };
    struct errinfo ei = {0};
    err e = E_OK;

    if (s->talk->wants_response || s->talk->wants_ack) /* from before it is sent */
        e = kafka_client_follow(s->client, &answers, 1, (uint32_t)s->timeout_ms, &ei);
    s->began_ms = loop_clock_ms();
    if (e == E_OK)
        e = kafka_client_send(s->client, str_from(s->topic), &record, (uint32_t)s->timeout_ms, &ei);
    if (e != E_OK) {
        fprintf(stderr, "millrace: %s\n", ei.text);
        return NOT_USABLE;
    }
    if (!s->is_json)
        printf("sent: %s, message id %s\n", s->topic, s->id);
    fflush(stdout);
    return wait_for_answers(s);
}

int command_send_run(const struct cli *cli)
{
    struct sending s = {0};
    int status;

    if (!read_flags(cli, &s) || talk_open(cli, &s.client) != E_OK)
        return NOT_USABLE;
    prepare(&s);
    status = send_it(&s);
    kafka_client_close(s.client);
    return status;
}
