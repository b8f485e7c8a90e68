/* feed: brings the records of a source to MQTT subscribers by the rules of core/to_mqtt_rule.h, and settles each when nothing
 * more will come of it.
 *
 * Each partition belongs to one worker, which turns its records into messages, in order, and publishes them. A record is settled
 * when every session that got it has acknowledged it (at QoS 0: it was written), or has ended. A record that nobody is subscribed
 * to, or whose sessions all ended without acknowledging it, waits as long as its rule says; records of the same topic wait
 * behind it, others do not. A new subscription that matches wakes what waits.
 *
 * What waits for a slow device does not hold up others: when too much of a partition is unsettled, the oldest records that stand
 * in a session's queue are settled although they are not acknowledged, unless that queue is half full already.
 *
 * The rules may be exchanged while records flow: each worker does that between two records, and a record that it has taken
 * stays what the rules of that moment made of it.
 *
 * Opened, started and freed by one thread while the workers do not run, or run as said; everything else is on the workers. */
#pragma once

#include <stdint.h>

#include "core/source.h"
#include "core/to_mqtt_rule.h"
#include "loop/worker.h"

struct broker;
struct feed;
struct mail;
struct mailbox;

/* A feed into the broker, which it watches. Takes a reference to the rules. Registers metrics: before the threads start. The
 * caller owns it. */
struct feed *feed_new(struct broker *broker, struct workers *workers, struct to_mqtt_rules *rules);

/* What the source is to be opened with; lives as long as the feed. Its wants are a struct to_mqtt_rules. */
const struct source_reader *feed_reader(struct feed *feed);

/* Before the source is started: where records are settled; from now on counts the time that records wait at least after the
 * start. Lives longer than any record. */
void feed_start(struct feed *feed, struct source *source);

/* Gives the workers other rules, to each a reference. `done` is posted to `home` when all of them use the new ones. The source
 * must hand out nothing that only the old ones want from before, and nothing that only the new ones want until then: it would
 * be dropped. One call at a time, while the workers run; any thread. */
void feed_use(struct feed *feed, struct to_mqtt_rules *rules, struct mail *done, struct mailbox *home);

/* The process is about to end: connections that close do not settle what they have not acknowledged. Any thread. */
void feed_drain(struct feed *feed);

/* After the workers have stopped and the broker has been freed, before the source is. NULL is a no-op. */
void feed_free(struct feed *feed);
