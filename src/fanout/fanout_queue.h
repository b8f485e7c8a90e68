/* fanout_queue: events that go one after the other (order: strict, key): the next one begins when the one before is done with every
 * subscription, well or not. All events of a sequence have the same home worker, chosen by what puts them in sequence, so their order is
 * that of their coming there; queues come and go with their events. How many wait is bounded by who waits for an answer, and by max_queued
 * of those that have theirs; how long, by each one's own deadline. Internal to fanout/; one thread. */
#pragma once

#include "fanout/fanout_job.h"

/* What puts a job in sequence with others: hash and key. False: nothing does. The view is of the event and the channel. */
bool fanout_queue_key(const struct fanout_job *job, struct str *out_key, uint64_t *out_hash);

/* Runs the job, on its home, as soon as it is its turn: perhaps now. One that has no key runs now. */
void fanout_queue_enter(struct fanout_job *job);

/* A job of this queue is finished: the next one runs. NULL is a no-op. */
void fanout_queue_leave(struct fanout_queue *queue);

/* The plane ends: all that wait run now, which is their end. */
void fanout_queue_flush(struct fanout_plane *plane);
