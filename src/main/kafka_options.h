/* kafka_options: what the configuration says about Kafka, as the kafka layer takes it. Main thread. */
#pragma once

#include "base/arena.h"
#include "config/config.h"
#include "kafka/kafka.h"

/* Fills `out_settings`. It borrows from `config`; its lists live in `a` (MEM_CONFIG). */
void kafka_options_make(struct arena *a, const struct config *config, struct kafka_settings *out_settings);

/* Whether librdkafka accepts the properties. E_INVAL with the property's name and the reason in `ei`. */
MUST_USE err kafka_options_check(const struct config *config, struct errinfo *ei);
