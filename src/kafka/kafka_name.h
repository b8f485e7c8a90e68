/* kafka_name: what Kafka accepts as the name of a topic. Pure functions, any thread. */
#pragma once

#include <stdbool.h>

#include "base/str.h"

enum { KAFKA_NAME_MAX_BYTES = 249 };

/* Whether `name` is legal: 1 to 249 of the characters a-z A-Z 0-9 . _ - and neither "." nor "..". */
bool kafka_name_is_legal(struct str name);
