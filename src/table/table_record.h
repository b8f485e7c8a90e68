/* table_record: the bytes of requests, states and replies in a table's log, as docs/wire/tables.md has them. Pure functions;
 * any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum { TABLE_RECORD_INSTANCE_BYTES = 16, TABLE_RECORD_OVERHEAD_BYTES = 64 };

/* The key of the mark: the last state of each batch, which says the position of the last request in it. Keys of tables never
 * begin with NUL. */
#define TABLE_RECORD_MARK_KEY "\0mark"

struct table_record_request {
    uint8_t instance[TABLE_RECORD_INSTANCE_BYTES]; /* who wants the reply */
    uint64_t id;                                   /* theirs */
    struct str body;
};

enum table_record_verdict { TABLE_RECORD_ACCEPTED = 1, TABLE_RECORD_REFUSED = 2 };

struct table_record_reply {
    uint8_t instance[TABLE_RECORD_INSTANCE_BYTES];
    uint64_t id;
    enum table_record_verdict verdict;
    bool has_states; /* then a view has them when it has a mark of this request, or a later one, at or behind this offset */
    uint64_t cause, base_offset;
    struct str body;
};

/* Reads. The views point into `record`. E_AGAIN: a later version's, which is nobody's business here and is left alone;
 * E_INVAL: no record of the kind. Of a later version's request `instance` and `id` are read all the same: they have their
 * place for ever. */
MUST_USE err table_record_read_request(struct str record, struct table_record_request *out);
MUST_USE err table_record_read_state(struct str record, struct str *out_value);
MUST_USE err table_record_read_mark(struct str record, uint64_t *out_cause);
MUST_USE err table_record_read_reply(struct str record, struct table_record_reply *out);

/* Writes behind what is in `out`. E_NOMEM. */
MUST_USE err table_record_write_request(struct buf *out, const struct table_record_request *request);
MUST_USE err table_record_write_state(struct buf *out, struct str value);
MUST_USE err table_record_write_mark(struct buf *out, uint64_t cause);
MUST_USE err table_record_write_reply(struct buf *out, const struct table_record_reply *reply);
