/* registry_decide: what becomes of a request to change the registry (registry_request.h), given what is in its table. Nothing enters but the
 * request and what is read, so every owner decides the same. The documents in a request have been checked by who sent it
 * (tenant_document.h ...); here is what depends on others: that the tenant is there, that ids, aliases, log-ins and names of CAs belong to one, that
 * limits and versions hold. Runs on the table's thread; never blocks, never logs.
 *
 * Statuses of refusals: 400 (a secret's id that is not there), 403 (limits), 404, 409 (taken), 412 (another version), 413 (the table takes
 * nothing so large), 503 (written by a later version of the program). */
#pragma once

#include "table/table.h"

/* The `decide` of the table; `context` is not used. */
enum table_verdict registry_decide(void *context, struct table_txn *txn, struct str request, struct buf *out_reply);
