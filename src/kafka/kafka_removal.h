/* kafka_removal: removing topics. Blocks: the admin thread only. */
#pragma once

#include "kafka/kafka.h"
#include "kafka/kafka_producer.h"

/* One attempt at kafka_remove_topics(). E_AGAIN: not yet, with the reason in the log. Else the code of the mail, with the text in the
 * request's result. */
MUST_USE err kafka_removal_try(struct kafka *k, struct kafka_producer *p, struct kafka_topics *r);
