/* command_topics_metrics: what the transport by topics counts. */
#pragma once

#include "obs/metrics.h"

enum command_topics_metric {
    COMMAND_TOPICS_COUNT_SENT,
    COMMAND_TOPICS_COUNT_STORED,
    COMMAND_TOPICS_COUNT_LOST,
    COMMAND_TOPICS_COUNT_WAITING,
    COMMAND_TOPICS_COUNT_WAITING_BYTES,
    COMMAND_TOPICS_COUNT_AGAIN,
    COMMAND_TOPICS_COUNT_RECEIVED,
    COMMAND_TOPICS_COUNT_MALFORMED,
    COMMAND_TOPICS_COUNTS,
};

extern struct metric command_topics_metrics[COMMAND_TOPICS_COUNTS];
