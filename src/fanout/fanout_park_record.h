/* fanout_park_record: a parked event as the bytes that lie on the disk. Pure functions; any thread. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "fanout/fanout_park.h"

struct fanout_park_record {
    struct str channel, uid;
    struct str lines; /* header lines that go with the event */
    struct cloudevent event;
    struct cloudevent_extras extras; /* what became of it */
    uint64_t parked_at_ms;           /* wall clock */
};

/* Which events belong together: those of one subscription have the same number, in every process, since it lies on the disk. */
uint64_t fanout_park_record_lane(struct str channel, struct str uid);

/* Appends the record. E_NOMEM. */
MUST_USE err fanout_park_record_write(struct buf *out, const struct fanout_park_record *record);

/* Reads one: views of the value, and lists in the arena (of MEM_FANOUT). E_PROTO: these are no bytes of ours. */
MUST_USE err fanout_park_record_read(struct arena *a, struct str value, struct fanout_park_record *out_record);
