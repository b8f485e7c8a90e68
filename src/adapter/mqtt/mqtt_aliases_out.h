/* mqtt_aliases_out: the topic aliases that we set on a connection for the messages it gets (MQTT 5.0 section 3.3.2.3.4), as far
 * as the client allows by its Topic Alias Maximum and the configuration by limits.outgoing_topic_aliases. The first topics have
 * them, for as long as the connection lives: no alias is ever given to a second topic, so that more topics than aliases cost
 * nothing but full names. Made with the first message; one thread. */
#pragma once

#include "adapter/mqtt/mqtt_conn.h"

struct mqtt_aliases_out;

/* Puts the alias of its topic into a PUBLISH: instead of the topic if the client knows it. True: it does not, so
 * mqtt_aliases_out_set() is to be called when the packet has been written, with its topic. */
bool mqtt_aliases_out_use(struct mqtt_conn *c, struct mqtt_publish_out *out) __attribute__((warn_unused_result));

/* Keeps the alias that was given out last. Without memory it is given out again. */
void mqtt_aliases_out_set(struct mqtt_conn *c, struct str topic);

/* NULL is a no-op. */
void mqtt_aliases_out_free(struct mqtt_aliases_out *aliases);
