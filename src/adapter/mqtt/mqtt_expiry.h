/* mqtt_expiry: a connection whose log-in is good for a time only, as with a token, is closed when that is over. One thread, the worker's. */
#pragma once

#include <stdint.h>

#include "loop/wheel.h"

struct mqtt_conn;

struct mqtt_expiry {
    struct timer timer;
    struct mqtt_conn *conn;
};

/* The connection, which must be open, is told to go (0xA0, Maximum connect time) at that time since 1970. 0: never. */
void mqtt_expiry_start(struct mqtt_conn *c, int64_t expires_at_s);
