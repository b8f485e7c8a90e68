/* kafka_options: what the configuration says about Kafka, as the kafka layer takes it. Main thread. */
#pragma once

#include "base/arena.h"
#include "config/config.h"
#include "kafka/kafka.h"

/* Fills `out_settings`. It borrows from `config`; its lists live in `a` (MEM_CONFIG). */
void kafka_options_make(struct arena *a, const struct config *config, struct kafka_settings *out_settings);

enum { KAFKA_OPTIONS_INSTANCE_BYTES = 101 };

/* The name of this instance for its consumer groups: the configured one, or the host's. E_IO: the host has none. */
MUST_USE err kafka_options_instance(const struct config *config, char text[KAFKA_OPTIONS_INSTANCE_BYTES], struct errinfo *ei);

/* Whether librdkafka accepts the properties. E_INVAL with the property's name and the reason in `ei`. */
MUST_USE err kafka_options_check(const struct config *config, struct errinfo *ei);
