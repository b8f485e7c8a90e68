/* fake_sink: a sink (core/sink.h) without Kafka, for tests. Keeps a copy of every record it took and answers as it is told:
 * at once or when released, with outcomes from a script, with room or without. All functions may be called by any thread. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/mail.h"
#include "core/sink.h"

enum { FAKE_SINK_SCRIPT_MAX = 64 };

/* A record as it was submitted. Owned by the sink, valid until fake_sink_fini(). */
struct fake_record {
    struct str topic;
    struct str key;
    struct str value; /* `p` NULL: a null value */
    struct record_header *headers;
    size_t n_headers;
    struct delivery *delivery; /* NULL once answered */
    enum outcome outcome;
};

/* One step of the script, used up by one submission. */
struct fake_step {
    enum outcome outcome;
    bool is_at_once; /* refused by sink_submit() itself with E_INVAL; the record is not kept */
};

struct fake_sink {
    struct sink sink;
    pthread_mutex_t lock;
    struct sink_topic *topics;
    struct fake_record **records;
    size_t n_records, n_answered;
    struct fake_step script[FAKE_SINK_SCRIPT_MAX];
    size_t n_script, next_script;
    bool is_holding;
    size_t room; /* records that may be unanswered */
    size_t n_reserved;
    size_t n_refused_for_room;
    struct mail *waiting;
    struct mail *creations; /* held back */
    size_t n_creations;
    err creation_result;
    bool is_holding_creations;
};

/* Ready, with room for everything, answering OUTCOME_STORED at once. */
void fake_sink_init(struct fake_sink *fs);

/* Releases what it kept. What is still unanswered stays so. */
void fake_sink_fini(struct fake_sink *fs);

/* Appends to the script; after its end every outcome is OUTCOME_STORED. */
void fake_sink_add_step(struct fake_sink *fs, enum outcome outcome, bool is_at_once);

/* Keeps answers back from now on. */
void fake_sink_hold(struct fake_sink *fs);

/* Answers the `n` oldest records that wait; SIZE_MAX: all of them, and those to come at once again. */
void fake_sink_release(struct fake_sink *fs, size_t n);

/* Answers one record out of turn, by its number. */
void fake_sink_answer(struct fake_sink *fs, size_t i, enum outcome outcome);

/* How many records may be unanswered before submissions find no room; waiters are told when room comes back. */
void fake_sink_set_room(struct fake_sink *fs, size_t n);

/* Keeps back the answers to requests for topics, which otherwise are E_OK at once; and answers them, and those to come. */
void fake_sink_hold_creations(struct fake_sink *fs);
void fake_sink_release_creations(struct fake_sink *fs, err result);

/* How many records were taken, and the one with number `i`, counted from 0 in order of submission. */
size_t fake_sink_count(struct fake_sink *fs);
const struct fake_record *fake_sink_record(struct fake_sink *fs, size_t i);

/* The value of a record's first header with this name; `p` NULL when there is none. */
struct str fake_sink_header(const struct fake_record *record, struct str name);
