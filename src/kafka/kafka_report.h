/* kafka_report: takes delivery reports to the threads that wait for them. The kafka thread. */
#pragma once

#include <librdkafka/rdkafka.h>
#include <stddef.h>

#include "kafka/kafka_sink.h"

/* Answers every record of a delivery report event: fills in the outcomes, posts one chain of mails to each mailbox, then
 * gives the room back. Returns how many of them are stored. The event stays the caller's. */
size_t kafka_report_answer(struct kafka_sink *ks, struct kafka_producer *p, rd_kafka_event_t *event);
