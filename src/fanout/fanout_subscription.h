/* fanout_subscription: the subscriptions of one channel of a fan-out configuration. Part of reading it; any thread. */
#pragma once

#include "fanout/fanout_delivery.h"

/* Reads the list into the channel's subscriptions. What a subscription does not say of its delivery is as in `inherited`. Errors are told, and
 * what is good written all the same. */
void fanout_subscription_read_all(struct fanout_reader *r, const struct tree_node *list,
                                  const struct fanout_delivery *inherited, struct fanout_channel *channel);
