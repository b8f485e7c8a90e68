/* link: the port by which a session reaches the client that is connected to it now. An adapter implements it; the broker
 * sees neither sockets nor packets. One thread: the session's home worker. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct link;
struct message;

/* How one message goes to one client. */
struct link_publish {
    const struct message *message;
    uint32_t expiry_left_s; /* when the message has an expiry */
    const uint32_t *subscription_ids;
    size_t n_subscription_ids;
    uint16_t packet_id; /* 0 at QoS 0 */
    uint8_t qos;
    bool dup;
    bool retain;
};

struct link_ops {
    /* Sends a PUBLISH. E_AGAIN: no room in the output now; session_pump() is called when there is. E_LIMIT: larger than the
     * client takes, it will never go. */
    err (*publish)(struct link *link, const struct link_publish *p);
    /* Sends a PUBREL; always accepted, a few bytes for a message that had room. */
    void (*pubrel)(struct link *link, uint16_t packet_id);
    /* The client has not acknowledged anything for as long as somebody who follows a message to it is willing to wait (tracker.h).
     * True: the link tells it, detaches (session_detach(), its will is due) and closes; false: it could not be heard, because
     * we do not read from it now. NULL: always false. */
    bool (*overdue)(struct link *link);
    /* The session now belongs to another connection, or was ended from outside: the link must close and never touch the
     * session again. */
    void (*taken_over)(struct link *link);
    /* The client may not be here any more: the link must tell it, detach (session_detach(), its will is due) and close. */
    void (*barred)(struct link *link);
};

struct link {
    const struct link_ops *ops;
};
