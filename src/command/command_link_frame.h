/* command_link_frame: what instances say to each other over a link, byte by byte (docs/wire/link.md). Length first, a kind, fields in
 * network order. Knows no connections; every byte that is read is a stranger's. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "command/command_transport.h"

enum {
    COMMAND_LINK_VERSION = 1,
    COMMAND_LINK_FRAME_MAX_BYTES = 8 << 20, /* with its length */
    COMMAND_LINK_GREETING_BYTES = 1024,     /* of the first frame of each side, at most */
    COMMAND_LINK_HEADERS_MAX = 256,
    COMMAND_LINK_INSTANCE_BYTES = 249,
};

enum command_link_kind {
    COMMAND_LINK_HELLO = 1, /* the first frame of whoever connects */
    COMMAND_LINK_WELCOME,   /* the answer, */
    COMMAND_LINK_REFUSAL,   /* or this one, behind which the connection ends */
    COMMAND_LINK_REQUEST,
    COMMAND_LINK_RESULT,
    COMMAND_LINK_PING, /* whoever connected is still there */
    COMMAND_LINK_ACK,  /* so is the other one, and this is what it has received */
    COMMAND_LINK_KINDS,
};

enum command_link_refusal {
    COMMAND_LINK_REFUSED_VERSION = 1, /* not spoken here */
    COMMAND_LINK_REFUSED_NAME,        /* the certificate does not have the name of the instance */
    COMMAND_LINK_REFUSED_STRANGER,    /* it was meant for another instance */
    COMMAND_LINK_REFUSED_BUSY,        /* too many connections */
    COMMAND_LINK_REFUSALS,
};

struct command_link_hello {
    unsigned version;
    uint64_t channel;     /* a random number: the frames of one worker to one incarnation, over however many connections */
    uint64_t first;       /* the number of the oldest frame that is kept, or of the next one */
    uint64_t incarnation; /* of the receiver, that the channel is for */
    unsigned worker;      /* of the sender */
    struct str from, to;  /* instances */
};

/* A frame that was read: views of the bytes it was read from, and of the room for headers. */
struct command_link_frame {
    enum command_link_kind kind;
    uint64_t number; /* of a request or result in its channel, from 1; of a welcome or ack: the last one that was received */
    unsigned refusal;
    struct command_link_hello hello;
    union {
        struct command_request request; /* `from.instance`, `to.instance` and `address` are empty: the connection knows them */
        struct command_result_message result;
    };
};

/* Reads the frame that `bytes` begin with. `headers` has room for COMMAND_LINK_HEADERS_MAX. E_OK: `*out_n` bytes were it. E_AGAIN: it
 * is not all there. E_LIMIT: it is longer than `max`. E_PROTO: no frame begins so. */
MUST_USE err command_link_frame_read(struct str bytes, size_t max, struct record_header *headers,
                                     struct command_link_frame *out_frame, size_t *out_n);

/* The whole length of a frame that command_link_frame_write_*() wrote and that `frame` begins with. */
size_t command_link_frame_bytes(struct str frame);

/* Append a frame. E_NOMEM, and E_LIMIT when something is too large for it: nothing is appended. */
MUST_USE err command_link_frame_write_hello(struct buf *to, const struct command_link_hello *hello);
MUST_USE err command_link_frame_write_welcome(struct buf *to, uint64_t received);
MUST_USE err command_link_frame_write_refusal(struct buf *to, enum command_link_refusal why);
MUST_USE err command_link_frame_write_request(struct buf *to, uint64_t number, const struct command_request *request);
MUST_USE err command_link_frame_write_result(struct buf *to, uint64_t number, const struct command_result_message *result);
MUST_USE err command_link_frame_write_ping(struct buf *to);
MUST_USE err command_link_frame_write_ack(struct buf *to, uint64_t received);

/* The word for logs, as in "stranger". */
const char *command_link_frame_refusal_name(unsigned refusal);
