/* registry_wait: the node of a log-in that cannot be answered at once. Owned by whoever asks, all-zero but for `mail.on_mail` and `home`
 * before the first question, and left alone between REGISTRY_PENDING and its mail. It is the same for all questions about one log-in. */
#pragma once

#include <stdbool.h>

#include "base/list.h"
#include "base/mail.h"
#include "table/table.h"

enum { REGISTRY_TOKEN_BYTES = 32 };

struct registry_wait {
    struct mail mail;     /* on_mail is set by the requester: ask again */
    struct mailbox *home; /* set by the requester: of the thread that asks */

    /* The registry's. */
    struct list link;
    struct table_barrier barrier;
    unsigned char token[REGISTRY_TOKEN_BYTES]; /* of what was checked */
    bool has_caught_up, is_done, is_right, is_dropped;
    bool has_provisioned, is_unavailable;      /* a device was asked for, and whether it was made cannot be told */
    unsigned char asked[REGISTRY_TOKEN_BYTES]; /* of what somebody outside was last asked (authority.h) */
    bool has_asked;
    bool was_refused; /* by what is known here: it need not be found out again */
};
