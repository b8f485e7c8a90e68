/* routes_decide: what the owner of the table makes of a request. Whatever enters the decision is in the request and the table. */
#pragma once

#include "table/table.h"

enum { ROUTES_INSTANCES_MAX = 256 };

/* Of table_ops. */
enum table_verdict routes_decide(void *context, struct table_txn *txn, struct str request, struct buf *out_reply);
