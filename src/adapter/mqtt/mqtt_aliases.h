/* mqtt_aliases: the topic aliases that a client has set on its connection (MQTT 5.0 section 3.3.2.3.4). One thread. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct mqtt_aliases;

/* Sets an alias, 1 to `maximum`; `*aliases` is made with the first. Copies the topic. E_NOMEM. */
MUST_USE err mqtt_aliases_set(struct mqtt_aliases **aliases, uint16_t maximum, uint16_t alias, struct str topic);

/* The topic of an alias; empty when it was not set. Valid until it is set again. */
struct str mqtt_aliases_find(const struct mqtt_aliases *aliases, uint16_t alias);

/* NULL is a no-op. */
void mqtt_aliases_free(struct mqtt_aliases *aliases);
