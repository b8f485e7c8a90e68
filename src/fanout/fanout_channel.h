/* fanout_channel: one channel of a fan-out configuration with its subscriptions. Part of reading it; any thread. */
#pragma once

#include "fanout/fanout_field.h"

/* Reads the channel that `node` describes, with everything in it. False: it has no name to go by, which was told. Other errors are
 * told and the channel written as far as it goes, so that one run finds them all. */
bool fanout_channel_read(struct fanout_reader *r, const struct tree_node *node, struct fanout_channel *out_channel);
