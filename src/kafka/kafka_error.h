/* kafka_error: what librdkafka's and Kafka's error codes mean to a sender. Pure functions, any thread. */
#pragma once

#include <librdkafka/rdkafka.h>

#include "base/err.h"
#include "core/sink.h"

/* How a record ended, from its delivery report or from produce itself. Codes not in the table are OUTCOME_FAILED. */
enum outcome kafka_error_outcome(rd_kafka_resp_err_t code);

/* The outcome of records that a producer still held when it failed for good with `code`: worth another attempt, unless access
 * control is the reason. */
enum outcome kafka_error_fatal_outcome(rd_kafka_resp_err_t code);

/* How making a topic ended: E_OK (it is there, also when it already was), E_DENIED and E_INVAL are for good, E_AGAIN is
 * worth another attempt. */
err kafka_error_create(rd_kafka_resp_err_t code);

/* How removing one ended: E_OK (it is not there, also when it was not), else as of making one. */
err kafka_error_remove(rd_kafka_resp_err_t code);
