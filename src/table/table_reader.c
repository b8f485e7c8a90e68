/* Reading a table's view, from any thread. */
#include "base/mem.h"
#include "table/table_key.h"
#include "table/table_private.h"

err table_reader_open(struct table *t, struct table_reader *r)
{
    struct store_txn *txn = mem_alloc(MEM_TABLE, sizeof *txn);
    err e = store_reader_open(t->view.store, txn);

    *r = (struct table_reader){.table = t, .txn = txn};
    if (e != E_OK) {
        mem_free(MEM_TABLE, txn);
        *r = (struct table_reader){0};
    }
    return e;
}

void table_reader_renew(struct table_reader *r)
{
    ERR_IGNORE(store_reader_renew(r->txn)); /* the store is broken, and says so itself: nothing is found any more */
}

void table_reader_rest(struct table_reader *r)
{
    store_reader_rest(r->txn);
}

void table_reader_close(struct table_reader *r)
{
    if (!r->txn)
        return;
    store_reader_close(r->txn);
    mem_free(MEM_TABLE, r->txn);
    *r = (struct table_reader){0};
}

bool table_reader_get(struct table_reader *r, struct str partition_key, struct str key, struct table_item *out_item)
{
    const struct table_view *v = &r->table->view;

    return table_view_get(r->txn, v, table_key_partition(partition_key, v->n_partitions), key, out_item);
}

bool table_reader_next_in(struct table_reader *r, unsigned partition, struct str prefix, struct str after,
                          struct table_item *out_item)
{
    return table_view_next(r->txn, &r->table->view, partition, prefix, after, out_item);
}

bool table_reader_next(struct table_reader *r, struct str partition_key, struct str prefix, struct str after,
                       struct table_item *out_item)
{
    return table_reader_next_in(r, table_key_partition(partition_key, r->table->n_partitions), prefix, after, out_item);
}
