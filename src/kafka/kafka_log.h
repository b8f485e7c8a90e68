/* kafka_log: brings librdkafka's own log lines to our log. */
#pragma once

#include <librdkafka/rdkafka.h>

/* The log callback of every handle. Runs on any of librdkafka's threads; never blocks. */
void kafka_log_line(const rd_kafka_t *rk, int level, const char *facility, const char *text);
