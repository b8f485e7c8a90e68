/* webhook_answer: what a webhook says about a log-in (docs/REGISTRY.md): {"result": "allow", "tenant": "t", "device": "d", "ttl": 60}. Pure, any thread; never
 * logs. */
#pragma once

#include "base/err.h"
#include "registry/authority.h"

enum { WEBHOOK_ANSWER_BYTES_MAX = 16 << 10 };

struct webhook_answer {
    enum authority_verdict verdict; /* NONE, ALLOWED, DENIED */
    struct authority_answer who;    /* of ALLOWED; but for expires_at_s */
    int64_t ttl_s;                  /* how long it holds; 0: nothing is said */
};

/* Reads the body of a response. Members that are not known have no meaning. E_INVAL: it is no such answer, or leaves out the device of one that is
 * allowed. */
MUST_USE err webhook_answer_read(struct str body, struct webhook_answer *out);
