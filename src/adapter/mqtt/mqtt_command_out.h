/* mqtt_command_out: one command on its way to an MQTT client, from the topic to the acknowledgement. One thread. */
#pragma once

#include "adapter/mqtt/mqtt_conn.h"

struct command;
struct command_filter;
struct mqtt_mapped;

/* Publishes a command to the client of an open connection and gives it back with what came of it: when it was written (QoS 0), acknowledged, or
 * not within `command.ack_timeout`. `mapped` is what a mapper has made of it, borrowed for the call; NULL: it goes as it is. */
void mqtt_command_out_deliver(struct mqtt_conn *c, const struct command_filter *filter, uint8_t qos, uint32_t subscription_id,
                              struct command *command, const struct mqtt_mapped *mapped);

/* Of all that is on its way, when the threads have stopped and the sessions are gone. */
void mqtt_command_out_fini(struct mqtt_worker *mw);
