/* kafka_creation: the sink's way (core/sink.h) to topics that are made when the first record needs them. */
#pragma once

#include "core/sink.h"

/* The sink operation: makes the topic as kafka_ensure_topics() does. Any thread; does not block. */
void kafka_creation_begin(struct sink *sink, struct sink_creation *creation);
