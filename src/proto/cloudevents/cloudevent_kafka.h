/* cloudevent_kafka: events as Kafka records in binary mode (Kafka Protocol Binding for CloudEvents 1.0.2 section 3.2): attributes are
 * headers `ce_<name>` in plain UTF-8, datacontenttype is `content-type`, data is the value. Pure functions; any thread. */
#pragma once

#include "base/arena.h"
#include "proto/cloudevents/cloudevent.h"

struct cloudevent_kafka_header {
    struct str name, value;
};

/* The record's headers, in the arena, with views of event and extras (which may be NULL). Returns how many. */
size_t cloudevent_kafka_headers(struct arena *a, enum mem_sub sub, const struct cloudevent *event,
                                const struct cloudevent_extras *extras, const struct cloudevent_kafka_header **out_headers);

/* The record's value: an event without data has a null one (`p` NULL), which differs from an empty one. */
struct str cloudevent_kafka_value(const struct cloudevent *event);
