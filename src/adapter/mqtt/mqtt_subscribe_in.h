/* mqtt_subscribe_in: the barrier before a SUBSCRIBE. The handlers themselves are declared in mqtt_handlers.h.
 *
 * Retained messages set by clients of other workers come by mail. A client whose retained message was acknowledged may tell
 * another one to subscribe, and that one must find it: so a SUBSCRIBE posts a mail to its own worker and waits for it.
 * Whatever was posted before is applied by then, and the subscription and the look-up of retained messages are one step
 * between two mails, so that no message is missed or delivered both as new and as retained. */
#pragma once

#include "adapter/mqtt/mqtt_conn.h"

/* One of the filters for commands that mqtt_commands_ask() was to tell of has its answer. */
void mqtt_subscribe_answered(struct mqtt_conn *c);

/* The connection closes: its barrier, if there is one, will find nobody. */
void mqtt_subscribe_cancel(struct mqtt_conn *c);
