/* registry_request: what the owner of the registry's table is asked, and answers (docs/wire/registry.md). JSON, version 1. What must not differ when
 * another owner repeats a decision (time, new ids, versions, salts) is in the request. Pure functions, any thread. */
#pragma once

#include "base/buf.h"
#include "registry/document.h"

enum registry_op {
    REGISTRY_TENANT_CREATE,
    REGISTRY_TENANT_UPDATE,
    REGISTRY_TENANT_DELETE, /* as REGISTRY_DEVICES_DELETE, and the tenant with the last of them */
    REGISTRY_DEVICE_CREATE,
    REGISTRY_DEVICE_UPDATE,
    REGISTRY_DEVICE_DELETE,
    REGISTRY_DEVICES_DELETE, /* some of them: asked again while the reply says that there are more */
    REGISTRY_CREDENTIALS_UPDATE,
    REGISTRY_OPS,
};

enum {
    REGISTRY_FORMAT = 1,              /* of requests, replies and states */
    REGISTRY_DELETED_AT_ONCE = 200,   /* devices in one decision */
    REGISTRY_VERSION_MAX_BYTES = 100, /* of an If-Match */
};

/* Views; `document` and `credentials` are borrowed. */
struct registry_request {
    enum registry_op op;
    struct str tenant, device;
    struct str version;  /* new and unlike any other: of what is written */
    struct str if_match; /* the version that must be there; `p` NULL: any */
    struct str at;       /* the time, RFC 3339 */
    struct str user;     /* who asks */
    struct str source;   /* "api", "configuration", "import", "device" (auto-provisioned) */
    json_t *document;    /* of creations and updates: normalised, and hashed */
    json_t *credentials; /* of a new device; NULL: none */
};

/* Writes a request, as memory of MEM_REGISTRY. E_NOMEM. */
MUST_USE err registry_request_write(const struct registry_request *request, struct buf *out);

/* "tenant-create" ... */
const char *registry_request_op_name(enum registry_op op);

struct registry_reply {
    struct document_fault fault; /* `status` 0: it is done */
    bool has_more;               /* of a deletion: ask again */
};

/* Writes a reply, as the table's memory (MEM_TABLE), and reads one. E_NOMEM; E_INVAL: it is none of this version. */
MUST_USE err registry_request_write_reply(const struct registry_reply *reply, struct buf *out);
MUST_USE err registry_request_read_reply(struct str text, struct registry_reply *out);
