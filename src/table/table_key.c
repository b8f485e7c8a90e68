#include "table/table_key.h"

#include "base/siphash.h"

/* Constants, since every instance must come to the same: what an attacker can aim at is the load of a partition, no more. */
static const struct siphash_key partition_hash = {0, 0}, low_hash = {1, 0}, high_hash = {2, 0};

unsigned table_key_partition(struct str partition_key, unsigned n_partitions)
{
    return (unsigned)(siphash_with(partition_hash, partition_key) % n_partitions);
}

void table_key_make(unsigned partition, struct str key, struct table_bytes *out)
{
    *out = (struct table_bytes){.n = 0};
    table_bytes_add_number(out, partition, TABLE_KEY_PARTITION_BYTES);
    if (!table_key_is_hashed(key)) {
        table_bytes_add(out, key.p, key.n);
        return;
    }
    table_bytes_add(out, key.p, TABLE_KEY_PLAIN);
    table_bytes_add_number(out, siphash_with(high_hash, key), TABLE_KEY_HASH_BYTES / 2);
    table_bytes_add_number(out, siphash_with(low_hash, key), TABLE_KEY_HASH_BYTES / 2);
}
