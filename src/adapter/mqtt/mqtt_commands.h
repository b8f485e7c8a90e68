/* mqtt_commands: a device's subscriptions to commands, on listeners with Hono's endpoints, and the commands that come by them
 * (docs/wire/commands.md). They are none of the broker's: nobody can publish to them, and a client that is away gets nothing of them later. They
 * belong to the session: when it is resumed, so are they. One thread. */
#pragma once

#include "adapter/mqtt/mqtt_conn.h"

struct mqtt_command_set;

/* Whether a filter of this connection is for commands: it begins with `command` or `c` as a whole level. */
bool mqtt_commands_is_filter(const struct mqtt_conn *c, struct str filter);

/* Begins to subscribe. True: the answer will come, by mqtt_subscribe_answered(). False: it is known already. */
MUST_USE bool mqtt_commands_ask(struct mqtt_conn *c, struct str filter, uint8_t qos, uint32_t id);

/* The answer: the granted QoS, or why not: 0x80 for another form or QoS, or when applications could not be told; 0x87 for a device the client may
 * not act for; 0x97 when there are as many as a session may have subscriptions. */
uint8_t mqtt_commands_answer(const struct mqtt_conn *c, struct str filter, uint8_t qos);

/* False: there was none. */
bool mqtt_commands_unsubscribe(struct mqtt_conn *c, struct str filter);

/* The client is back in a session that has gone on: subscribes again to all that it had. */
void mqtt_commands_resume(struct mqtt_conn *c);

/* The connection ends: its subscriptions rest, or end with the session. */
void mqtt_commands_leave(struct mqtt_conn *c);

/* The session ends. */
void mqtt_commands_forget(struct mqtt_worker *mw, const struct session *ss);

/* Of all sessions, when the threads have stopped. */
void mqtt_commands_fini(struct mqtt_worker *mw);
