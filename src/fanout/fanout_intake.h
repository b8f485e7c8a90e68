/* fanout_intake: requests with events: one, or a batch of which each event goes its own way and gets its own status. Holds what the events
 * are views of until the last of their jobs is finished, after the answer too. Internal to fanout/; one thread. */
#pragma once

#include "base/arena.h"
#include "fanout/fanout_job.h"
#include "http/http_exchange.h"

enum { FANOUT_INTAKE_BATCH_MAX = 1000, FANOUT_INTAKE_BATCH_AT_ONCE = 64 };

/* One event of a batch. */
struct fanout_item {
    struct str document;
    uint16_t status; /* 0: not known yet */
    struct str error;
    struct str problem; /* JSON; empty: none */
};

struct fanout_intake {
    struct list link; /* in the pool */
    struct fanout_plane *plane;
    struct http_exchange *x; /* NULL: answered */
    struct http1_head head;  /* these two once it was answered before the end */
    struct buf body;
    struct arena arena;
    struct fanout_view *view;
    const struct fanout_channel *channel;
    uint64_t came_us, deadline_ms;
    struct list jobs; /* not finished */
    /* Of a batch. */
    struct fanout_item *items; /* NULL: it is none */
    uint32_t n_items, n_begun, n_known;
    bool is_beginning, has_taken;
};

/* Handler of POST; the context is the plane. */
void fanout_intake_post(struct http_exchange *x, void *context);

/* Handler of OPTIONS. */
void fanout_intake_options(struct http_exchange *x, void *context);

/* Frees a plane's pool. */
void fanout_intake_free_pool(struct fanout_plane *plane);
