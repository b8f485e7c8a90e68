/* import_hono: exports of Eclipse Hono's device registry, as JSON values one after the other or in lists, in any of these forms:
 *
 *   {"tenant-id": T, ...}                                       a tenant of the file-based registry
 *   {"tenant": T, "devices": [{"device-id": D, "data": {...}}]}         its devices
 *   {"tenant": T, "credentials": [{"device-id": D, "type": ...}]}       its credentials
 *   {"tenant-id": T, "tenant": {...}}                           a tenant of the MongoDB-based registry (mongoexport)
 *   {"tenant-id": T, "device-id": D, "device": {...}}           a device of it
 *   {"tenant-id": T, "device-id": D, "credentials": [...]}      the credentials of one
 *   {"total": n, "result": [{"id": ..., ...}]}                  what a search of the management interface shows, or an element of it: devices
 *                                                               of the tenant that is asked for, without one tenants
 *   {"id": D, "device": {...}, "credentials": [...]}            as `millrace device export` has it, of the tenant that is asked for
 *
 * Members that Hono ignores and this registry refuses go to `ext`, where there is one. Main thread. */
#pragma once

#include "main/import_list.h"

/* Adds what a file has. E_INVAL: it is no JSON; what stands before that is in the list. */
MUST_USE err import_hono_read(struct import_list *l, const char *file, struct str text, struct errinfo *ei);

/* When all files were read: tells of credentials whose devices are in none of them. */
void import_hono_check(struct import_list *l);
