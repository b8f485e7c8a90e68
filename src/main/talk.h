/* talk: what `millrace command send` and `millrace events` share: a client of the Kafka that a command line names. Main thread. */
#pragma once

#include <stdbool.h>

#include "kafka/kafka_client.h"
#include "main/cli.h"

/* Opens it. With --dev it is the embedded Kafka of a server that runs with the same data folder. E_*: was told on stderr. */
MUST_USE err talk_open(const struct cli *cli, struct kafka_client **out_client);

/* Of --timeout and its like; NULL: `by_default`. False: it is no duration, which was told. */
MUST_USE bool talk_duration(const char *flag, const char *text, int64_t by_default_ms, int64_t *out_ms);

/* Whether -o asks for JSON. False in `*out_is_good`: for something else, which was told. */
bool talk_is_json(const struct cli *cli, bool *out_is_good);

/* The first header with this name, empty if there is none. */
struct str talk_header(const struct kafka_client_record *record, const char *name);

/* Prints bytes to stdout as a JSON string, those that are no text as U+FFFD; and for people: text as it is, else how many bytes there are. */
void talk_print_json(struct str text);
void talk_print_payload(struct str payload);
