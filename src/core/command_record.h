/* command_record: commands as applications write them to Kafka, and the records that answer them (docs/wire/commands.md, compatible with
 * Eclipse Hono). Pure functions, any thread; no memory is allocated. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "core/sink.h"
#include "core/trace_context.h"

enum {
    COMMAND_RECORD_SUBJECT_MAX = 1024, /* bytes */
    COMMAND_RECORD_MESSAGE_ID_BYTES = 256 + 48,
    COMMAND_RECORD_METADATA_MAX = 16, /* headers that a notice copies */
    COMMAND_RECORD_HEADERS_MAX = 10 + COMMAND_RECORD_METADATA_MAX,
};

/* What a record is found to be. The first two have nobody to tell: they are counted and that is all. */
enum command_fault {
    COMMAND_FAULT_NONE,
    COMMAND_FAULT_NO_DEVICE,      /* dropped: no header `device_id` */
    COMMAND_FAULT_KEY,            /* dropped: the key is not the device */
    COMMAND_FAULT_EXPIRED,        /* its time to live had ended */
    COMMAND_FAULT_SUBJECT,        /* 400: none, too long, or nothing that a topic can carry */
    COMMAND_FAULT_CORRELATION_ID, /* 400: it asks for a response but has none, or none that a request id can carry */
    COMMAND_FAULTS,
};

/* A command, as views into its record but for the message id. It points into itself: never copy it. */
struct command_record {
    struct str device_id, subject, content_type, correlation_id, value;
    struct str message_id; /* the same whenever this record is read: header `message-id`, else topic, partition and offset */
    bool is_response_required;
    bool is_ack_required; /* a positive notice is wanted too */
    bool has_value;       /* else the value is null */
    bool has_ttl;
    int64_t expires_at_ms; /* since 1970, of has_ttl */
    struct trace_context trace;
    struct record_header metadata[COMMAND_RECORD_METADATA_MAX]; /* `delivery-failure-notification-metadata*`, for notices */
    size_t n_metadata;
    char text[COMMAND_RECORD_MESSAGE_ID_BYTES];
};

/* Where a record was. */
struct command_place {
    struct str topic; /* as applications know it */
    int32_t partition;
    int64_t offset;
    int64_t timestamp_ms; /* of the record: what a `ttl` without `creation-time` is counted from */
};

/* Reads a record. Of several headers with one name the first counts, one that cannot be decoded counts as absent. On a fault, too,
 * everything that could be read is written, for the notice. */
MUST_USE enum command_fault command_record_read(struct str key, struct str value, const struct record_header *headers,
                                                size_t n_headers, const struct command_place *place, int64_t now_ms,
                                                struct command_record *out_command);

/* The status of a notice for a fault: 400, or 0 for those that have none. */
int command_record_fault_status(enum command_fault fault);

/* The word for logs and metrics, as in "correlation_id". Never NULL. */
const char *command_record_fault_name(enum command_fault fault);

/* A record for the response topic and the memory for what had to be written for it. It points into itself: never copy it. */
struct command_answer {
    struct record record; /* `topic` is left NULL for the caller */
    struct record_header headers[COMMAND_RECORD_HEADERS_MAX];
    char text[96]; /* the numbers' decimal digits */
    char body[512];
};

/* What a device answered. Everything is borrowed. */
struct command_response {
    struct str tenant, device_id, correlation_id, content_type, payload;
    int status;
    int64_t ttl_s; /* negative: none */
    int64_t now_ms;
    struct trace_context trace;
};

/* The record of a device's response. Without a content type a payload is `application/octet-stream`; without a payload the value is null. */
void command_record_build_response(const struct command_response *response, struct command_answer *out_answer);

/* The record that says how a command fared, if not by the device: a failure with its status and why, or, with a status of 2xx, a
 * success of that kind ("attempted", "received"); `text` is one of ours, which needs no escapes in JSON. The headers kept for it are
 * copied; the message id is told where Hono has no such notice. */
void command_record_build_notice(const struct command_record *command, struct str tenant, int status, struct str text,
                                 int64_t now_ms, struct command_answer *out_answer);
