/* table_key: how a key of a table becomes a key of the store. Partition first, so that a partition is one range; then the
 * key itself, or, when it is longer than TABLE_KEY_PLAIN, so many bytes of it and a hash of the whole. */
#pragma once

#include "base/str.h"
#include "table/table_bytes.h"

enum { TABLE_KEY_PLAIN = 440, TABLE_KEY_HASH_BYTES = 16, TABLE_KEY_PARTITION_BYTES = 2 };

/* The partition that what belongs to this key is in: the same on every instance, for ever. */
unsigned table_key_partition(struct str partition_key, unsigned n_partitions);

static inline bool table_key_is_hashed(struct str key)
{
    return key.n > TABLE_KEY_PLAIN;
}

/* The store's key. Empty `key`: what all of the partition begin with. */
void table_key_make(unsigned partition, struct str key, struct table_bytes *out);
