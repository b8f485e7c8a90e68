/* mqtt_handshake: from CONNECT to CONNACK, and the way to the home worker.
 *
 * A connection is accepted by whichever worker the kernel picks. Once CONNECT has been decoded and its sender is known, the
 * home worker of its session is known too; if that is another one, the stream with its TLS, unread bytes (the CONNECT among them)
 * and the principal go there in one mail, and the home worker decodes the CONNECT again and answers it. */
#pragma once

#include "adapter/mqtt/mqtt_conn.h"

struct mqtt_handover {
    struct mail mail;
    struct mqtt_worker *to;
    struct principal principal;
    int64_t expires_at_s; /* of what it logged in with; 0: never */
    struct stream_parts parts;
    uint8_t listener;
};

/* Releases all that was not taken. NULL is a no-op. */
void mqtt_handshake_drop(struct mqtt_handover *handover);
