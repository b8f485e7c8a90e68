/* fanout_delivery: where a subscription's events go and how hard that is tried: targets, and the section `delivery` that a
 * subscription inherits from its channel field by field. Part of reading a configuration; any thread. */
#pragma once

#include "fanout/fanout_field.h"

struct fanout_delivery {
    struct fanout_target dead_letter;
    struct fanout_retry retry;
    enum fanout_exhausted on_exhausted, on_dead_letter_failed;
    bool has_exhausted; /* else it follows from dead_letter */
    enum fanout_format format;
    uint32_t max_inflight;
};

/* What fanout_delivery_read_target() reads, as a JSON Schema. */
#define FANOUT_DELIVERY_TARGET_SCHEMA "{\"$ref\": \"#/$defs/target\"}"

/* What holds when nothing is said. */
void fanout_delivery_init(struct fanout_delivery *delivery);

/* Puts what the section says over what is in `delivery`; null puts a default back. */
void fanout_delivery_read(struct fanout_reader *r, const struct tree_node *section, struct fanout_delivery *delivery);

/* Checks what concerns several fields and writes it into a subscription. */
void fanout_delivery_apply(struct fanout_reader *r, const struct tree_node *subscription,
                           const struct fanout_delivery *delivery, struct fanout_subscription *out_subscription);

/* Reads an address into the struct fanout_target at `to`: a URL, HOST or HOST:PORT with or without a path, `h2c://`, `kafka:<topic>`,
 * or a map with `uri`. Null and the empty text are none. As of fanout_field.read. */
void fanout_delivery_read_target(struct fanout_reader *r, const struct tree_node *node, void *to);
