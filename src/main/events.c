#include "main/events.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/check.h"
#include "loop/loop.h"
#include "main/talk.h"

enum { FOLLOW_TIMEOUT_MS = 10000, POLL_MS = 500, TOPIC_BYTES = 300, NOT_USABLE = 2 };

static const struct {
    const char *topic, *name;
} kinds[] = {{"hono.telemetry.", "telemetry"}, {"hono.event.", "event"}, {"hono.command_response.", "response"}};

enum { KINDS = ARRAY_LEN(kinds) };

static volatile sig_atomic_t is_interrupted;

static void on_signal(int number)
{
    (void)number;
    is_interrupted = 1;
}

static void watch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static const char *kind_of(struct str topic)
{
    for (size_t i = 0; i < KINDS; i++)
        if (str_starts_with(topic, str_from(kinds[i].topic)))
            return kinds[i].name;
    return "record";
}

static void print_time(int64_t timestamp_ms)
{
    time_t seconds = (time_t)(timestamp_ms / 1000);
    struct tm utc;
    char text[32];

    gmtime_r(&seconds, &utc);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    printf("%s.%03dZ", text, (int)(timestamp_ms % 1000));
}

static void print_text(const struct kafka_client_record *record)
{
    print_time(record->timestamp_ms);
    printf(" %s %.*s", kind_of(record->topic), STR_ARG(record->key));
    for (size_t i = 0; i < record->n_headers; i++)
        if (!str_equal(record->headers[i].name, STR("device_id")) && !str_equal(record->headers[i].name, STR("creation-time")))
            printf(" %.*s=%.*s", STR_ARG(record->headers[i].name), STR_ARG(record->headers[i].value));
    printf(" | ");
    talk_print_payload(record->value);
    printf("\n");
}

static void print_json(const struct kafka_client_record *record)
{
    printf("{\"time\":\"");
    print_time(record->timestamp_ms);
    printf("\",\"kind\":\"%s\",\"partition\":%" PRId32 ",\"offset\":%" PRId64 ",\"device\":", kind_of(record->topic),
           record->partition, record->offset);
    talk_print_json(record->key);
    printf(",\"headers\":{");
    for (size_t i = 0; i < record->n_headers; i++) {
        printf("%s", i ? "," : "");
        talk_print_json(record->headers[i].name);
        printf(":");
        talk_print_json(record->headers[i].value);
    }
    printf("},\"payload\":");
    if (record->value.p)
        talk_print_json(record->value);
    else
        printf("null");
    printf("}\n");
}

/* Until there were `count` records, time is up or somebody interrupts. */
static int follow(struct kafka_client *client, const struct cli_talk *talk, bool is_json, uint64_t count, int64_t timeout_ms)
{
    uint64_t until_ms = timeout_ms < 0 ? UINT64_MAX : loop_clock_ms() + (uint64_t)timeout_ms, n = 0;
    struct kafka_client_record record;
    struct errinfo ei = {0};

    while (!is_interrupted && n < count && loop_clock_ms() < until_ms) {
        err e = kafka_client_next(client, POLL_MS, &record, &ei);

        if (e == E_TIMEOUT)
            continue;
        if (e != E_OK) {
            fprintf(stderr, "millrace: %s\n", ei.text);
            return NOT_USABLE;
        }
        if (talk->device && !str_equal(record.key, str_from(talk->device)))
            continue;
        (is_json ? print_json : print_text)(&record);
        fflush(stdout);
        n++;
    }
    return count != UINT64_MAX && n < count && !is_interrupted ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int run(struct kafka_client *client, const struct cli_talk *talk, bool is_json, uint64_t count, int64_t timeout_ms)
{
    char names[KINDS][TOPIC_BYTES];
    struct str topics[KINDS];
    struct errinfo ei = {0};

    for (size_t i = 0; i < KINDS; i++) {
        snprintf(names[i], sizeof names[i], "%s%s", kinds[i].topic, talk->tenant);
        topics[i] = str_from(names[i]);
    }
    if (kafka_client_follow(client, topics, KINDS, FOLLOW_TIMEOUT_MS, &ei) != E_OK) {
        fprintf(stderr, "millrace: %s\n", ei.text);
        return NOT_USABLE;
    }
    fprintf(stderr, "following tenant %s\n", talk->tenant);
    return follow(client, talk, is_json, count, timeout_ms);
}

int events_run(const struct cli *cli)
{
    struct kafka_client *client;
    uint64_t count = UINT64_MAX;
    int64_t timeout_ms;
    bool is_good, is_json = talk_is_json(cli, &is_good);
    int status;

    if (!is_good || !talk_duration("--timeout", cli->talk.timeout, -1, &timeout_ms))
        return NOT_USABLE;
    if (cli->talk.count && !str_to_u64(str_from(cli->talk.count), UINT32_MAX, &count)) {
        fprintf(stderr, "millrace: --count is a number, not %s\n", cli->talk.count);
        return NOT_USABLE;
    }
    watch_signals();
    if (talk_open(cli, &client) != E_OK)
        return NOT_USABLE;
    status = run(client, &cli->talk, is_json, count, timeout_ms);
    kafka_client_close(client);
    return status;
}
