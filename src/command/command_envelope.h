/* command_envelope: requests and results between instances as records of the topics `hono.command_internal.INSTANCE`
 * (docs/wire/commands.md). A request is the command as its application wrote it, with headers that say where it came from, as an
 * Eclipse Hono Command Router adds them, and ours. Pure functions, any thread; every record that is read is a stranger's. */
#pragma once

#include "base/err.h"
#include "command/command_transport.h"
#include "core/sink.h"

enum {
    COMMAND_ENVELOPE_HEADERS = 10, /* that are added, at most */
    COMMAND_ENVELOPE_TEXT_BYTES = 8 * 21,
    COMMAND_ENVELOPE_INSTANCE_BYTES = 249,
};

/* The memory for numbers that are written. A record with them points into it: never copy it. */
struct command_envelope_text {
    char bytes[COMMAND_ENVELOPE_TEXT_BYTES];
    size_t n;
};

/* Writes a record, but for its topic; it borrows from everything given. `room` is for COMMAND_ENVELOPE_HEADERS and, of a request, its own
 * headers. Headers of the command that have a name of ours are left out: nobody but us says where it came from. */
void command_envelope_write_request(const struct command_request *request, struct record_header *room,
                                    struct command_envelope_text *text, struct record *out_record);
void command_envelope_write_result(const struct command_result_message *result, struct record_header *room,
                                   struct command_envelope_text *text, struct record *out_record);

/* A record that was read; views of the record and of `room`. */
struct command_envelope {
    bool is_result;
    union {
        /* `from.instance` empty: nobody waits for a result, and it is not known for which incarnation it is (0), nor for which epoch.
         * `to.instance` is for the caller. */
        struct command_request request;
        struct command_result_message result;
    };
};

/* Reads a record; `room` is for as many headers as it has. Of several headers with one name of ours the last one counts. E_PROTO: it is
 * none of these. */
MUST_USE err command_envelope_read(const struct record *record, struct record_header *room,
                                   struct command_envelope *out_envelope);

/* The tenant of a record; empty: none is named. */
struct str command_envelope_tenant(const struct record_header *headers, size_t n_headers);
