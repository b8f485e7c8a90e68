/* retained: the retained messages of all tenants (MQTT 5.0 section 3.3.1.3), as one worker sees them. Every worker holds an
 * index of its own; the messages are shared. Sets reach every worker by mail in no common order, so the higher sequence
 * number wins, and a deletion is remembered for a while lest an older set brings the message back. A message that expires is
 * forgotten then. One thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "broker/topic_tree.h"
#include "loop/wheel.h"

struct message;

struct retained {
    struct topic_tree tree;
    struct wheel *wheel;
    size_t n_messages, n_deleted; /* what is held: messages, and memories of deletions */
    size_t bytes;                 /* of the messages of both */
};

void retained_init(struct retained *r, struct wheel *wheel);
void retained_fini(struct retained *r);

/* Stores, replaces, or with an empty payload deletes, unless what is there is newer. Takes a reference of its own. E_NOMEM. */
MUST_USE err retained_set(struct retained *r, struct message *m);

/* Whether a set stays within the bounds (0: none), deletions counted as long as they are remembered. An estimate: sets of other
 * workers may be on their way. */
bool retained_may_set(const struct retained *r, const struct message *m, size_t max_messages, size_t max_bytes);

typedef void (*retained_visit)(void *context, struct message *m);

/* Visits all whose topic matches and that have not expired. The visitor must not set any. */
void retained_match(struct retained *r, struct str tenant, struct str filter, uint64_t now_ms, retained_visit visit,
                    void *context);
