/* to_mqtt_options: from the configuration's rules of `to_mqtt` to those that serve (core/to_mqtt_rule.h), with every error told by
 * file, line and path. Main thread. */
#pragma once

#include "config/config.h"
#include "core/rule_table.h"
#include "core/to_mqtt_rule.h"

/* The caller owns one reference to `*out_rules`, written only on success. E_INVAL: what is wrong has been added to `errors`;
 * `file` is borrowed as long as they are read. */
MUST_USE err to_mqtt_options_make(const struct config *config, const char *file, struct to_mqtt_rules **out_rules,
                                  struct config_errors *errors);

/* Calls `on_loop` with a text such as "to_mqtt[0] -> to_kafka[2] -> to_mqtt[0]" for each circle of rules that may feed each other:
 * what one writes to Kafka another may bring to MQTT, to a topic that the first one takes from clients. Nothing goes round by
 * itself, because what comes from Kafka does not go back there; but a client that passes messages on closes the circle, and
 * subscribers may see a message twice. Returns how many there are. */
size_t to_mqtt_options_find_loops(const struct config *config, const struct to_mqtt_rules *rules,
                                  const struct rule_table *table, void (*on_loop)(void *context, const char *text),
                                  void *context);
