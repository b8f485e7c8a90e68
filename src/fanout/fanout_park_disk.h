/* fanout_park_disk: events whose delivery failed, kept on the disk until a later attempt is well. One thread of its own does all that
 * waits for the disk: what many workers park in the meantime becomes one commit, and what they are told is true after it. The same thread
 * takes out what is due, hands it to a carrier, and removes it or puts it off, longer each time (delay_ms, doubled up to delay_max_ms), however often it
 * has failed: nothing is given up. So a parked event is delivered at least once, perhaps again after a crash, and in no order. */
#pragma once

#include "base/buf.h"
#include "fanout/fanout_park.h"
#include "fanout/fanout_park_record.h"

struct fanout_park_disk;
struct fanout_park_order;

struct fanout_park_settings {
    const char *path;      /* a folder; made if it is missing, with its parent there */
    uint64_t max_bytes;    /* of all parked events; past it nothing more is taken */
    uint32_t delay_ms;     /* before the first further attempt */
    uint32_t delay_max_ms; /* before any */
};

/* A parked event on its way to its subscriber again. The carrier's from carry() to fanout_park_disk_answer(). */
struct fanout_park_attempt {
    struct mail mail; /* the carrier's, to travel by */
    struct list link;
    const struct fanout_park_record *record;
    void *user;
    /* Set before the answer. E_OK: it is done, and will be forgotten. E_AGAIN: it was not tried. Anything else: it failed. */
    err result;
};

/* Who delivers. Called by the park's thread; does not block. */
struct fanout_park_carrier {
    void (*carry)(struct fanout_park_carrier *carrier, struct fanout_park_attempt *attempt);
};

/* Opens the folder and starts the thread. E_BUSY: another process has it open. E_PROTO: what lies there is damaged. E_IO. The reason is
 * in `ei`. Reads all of what is parked. Main thread. */
MUST_USE err fanout_park_disk_open(const struct fanout_park_settings *settings, struct fanout_park_disk **out_disk,
                                   struct errinfo *ei);

/* For struct fanout_settings. */
struct fanout_park *fanout_park_disk_port(struct fanout_park_disk *disk);

/* From now on what is due is tried again. The carrier is borrowed until fanout_park_disk_close(). Main thread. */
void fanout_park_disk_start(struct fanout_park_disk *disk, struct fanout_park_carrier *carrier);

/* No further attempts are begun once the thread has heard of it; parcels are still taken. Main thread; does not wait. */
void fanout_park_disk_rest(struct fanout_park_disk *disk);

/* Any thread, once for each attempt. */
void fanout_park_disk_answer(struct fanout_park_attempt *attempt);

/* Commits what was put, posts the answers, and ends the thread. Nobody may put any more; attempts may still be answered. NULL is a
 * no-op. Waits for the disk. */
void fanout_park_disk_stop(struct fanout_park_disk *disk);

/* Stops if need be, commits the answers that came since, and frees; attempts without an answer stay parked, and nobody may use them any
 * more. NULL is a no-op. Waits for the disk. */
void fanout_park_disk_close(struct fanout_park_disk *disk);

/* Carries out an order; its mail comes exactly once, before fanout_park_disk_stop() returns at the latest. Any thread; does not block. */
void fanout_park_disk_order(struct fanout_park_disk *disk, struct fanout_park_order *order);

/* Appends what is parked as JSON: numbers, and the oldest events, at most `max` of them. Any thread; blocks as reading the
 * disk does. E_IO; E_NOMEM. */
MUST_USE err fanout_park_disk_list(struct fanout_park_disk *disk, size_t max, struct buf *out);
