/* The records of a table's log: whatever bytes stand in Kafka are read or refused, and what is read can be written again to the
 * same. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "table/table_record.h"

static void compare(struct buf *written, struct str record)
{
    ASSERT(str_equal(buf_str(written), record));
    buf_free(written, MEM_TABLE);
}

static void fuzz_request(struct str record)
{
    struct table_record_request request;
    struct buf written = {0};

    if (table_record_read_request(record, &request) != E_OK)
        return;
    ASSERT(table_record_write_request(&written, &request) == E_OK);
    compare(&written, record);
}

static void fuzz_state(struct str record)
{
    struct buf written = {0};
    struct str value;
    uint64_t cause;

    if (table_record_read_state(record, &value) == E_OK) {
        ASSERT(table_record_write_state(&written, value) == E_OK);
        compare(&written, record);
    }
    if (table_record_read_mark(record, &cause) == E_OK) {
        ASSERT(table_record_write_mark(&written, cause) == E_OK);
        ASSERT(str_starts_with(record, buf_str(&written)));
        buf_free(&written, MEM_TABLE);
    }
}

static void fuzz_reply(struct str record)
{
    struct table_record_reply reply, again;
    struct buf written = {0};

    if (table_record_read_reply(record, &reply) != E_OK)
        return;
    ASSERT(table_record_write_reply(&written, &reply) == E_OK);
    ASSERT(buf_size(&written) == record.n);
    ASSERT(table_record_read_reply(buf_str(&written), &again) == E_OK);
    ASSERT(again.id == reply.id && again.cause == reply.cause && again.base_offset == reply.base_offset &&
           again.verdict == reply.verdict && again.has_states == reply.has_states && str_equal(again.body, reply.body));
    buf_free(&written, MEM_TABLE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Exactly as many bytes as there are: reading past them is seen. */
    char *bytes = malloc(size ? size : 1);
    struct str record = {bytes, size};

    if (size)
        memcpy(bytes, data, size);
    fuzz_request(record);
    fuzz_state(record);
    fuzz_reply(record);
    free(bytes);
    return 0;
}
