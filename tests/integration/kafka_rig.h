/* kafka_rig: one thread with a loop against kafka/ on the embedded Kafka, for the tests of this folder. What is waited for is
 * an event; the bound on each wait only ends a test that hangs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kafka/kafka_private.h"
#include "loop/loop.h"

enum { RIG_WAIT_MS = 60 * 1000 };

struct rig {
    struct kafka *k;
    struct loop loop;
    struct rig_item *items;
    size_t n_items, n_answered, n_woken, n_drained;
    size_t counts[OUTCOMES];
    struct sink_waiter waiter;
    struct kafka_topics topics;
    struct kafka_drain drain;
    bool is_topics_done;
};

/* A submission that counts its answers. */
struct rig_item {
    struct delivery delivery;
    struct rig *rig;
    unsigned n_answers;
};

/* Opens kafka with these settings (embedded, whatever they say) and room for `n_items` submissions. */
void rig_open(struct rig *r, struct kafka_settings settings, size_t n_items);

/* Stops, fails the test unless every record taken was answered exactly once, and releases. */
void rig_close(struct rig *r);

/* Makes the topic and waits until it is there. */
struct sink_topic *rig_topic(struct rig *r, const char *name);

/* Submits item `i`. */
err rig_submit(struct rig *r, size_t i, const struct record *record);

/* Submits item `i` as a text with a key; fails the test unless it is taken. */
void rig_send(struct rig *r, size_t i, struct sink_topic *topic, const char *key, const char *value);

/* Turns the loop until `counter` has reached `n`. */
void rig_wait(struct rig *r, const size_t *counter, size_t n);

/* Turns the loop until the state is `state`. */
void rig_wait_state(struct rig *r, enum kafka_state state);

/* Reads a topic from its beginning until `n` records came, as another client would. `on_record` may be NULL. Fails the test
 * when there are more. */
void rig_consume(struct rig *r, const char *topic, size_t n, void (*on_record)(const rd_kafka_message_t *m, void *context),
                 void *context);

/* The mock cluster, to inject faults. */
rd_kafka_mock_cluster_t *rig_cluster(struct rig *r);

/* The current producer, only to see whether it is another one; and making it fail for good. */
const void *rig_producer(struct rig *r);
void rig_fail_producer(struct rig *r, rd_kafka_resp_err_t code);
