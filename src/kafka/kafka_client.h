/* kafka_client: what a command line does with Kafka: one record out, the new records of some topics in. Blocks with a limit, and starts no
 * thread of ours. One thread. */
#pragma once

#include <stdint.h>

#include "kafka/kafka.h"

struct kafka_client;

/* A record that was read; views until the next call. */
struct kafka_client_record {
    struct str topic;      /* without the prefix */
    struct str key, value; /* `p` NULL: none */
    const struct record_header *headers;
    size_t n_headers;
    int32_t partition;
    int64_t offset, timestamp_ms;
};

/* Opens both handles; nothing is asked yet. E_INVAL: see kafka_check_settings(). The embedded Kafka cannot be used: it is another process's. */
MUST_USE err kafka_client_open(const struct kafka_settings *settings, struct kafka_client **out_client, struct errinfo *ei);

/* Reads these topics from their present end on. E_NOTFOUND: one is not there. E_TIMEOUT: Kafka did not answer in time. E_DENIED, E_IO: it
 * refused. Once. */
MUST_USE err kafka_client_follow(struct kafka_client *client, const struct str *topics, size_t n, uint32_t limit_ms,
                                 struct errinfo *ei);

/* Writes one record and waits until Kafka has it; `topic` of the record is not used. As above. */
MUST_USE err kafka_client_send(struct kafka_client *client, struct str topic, const struct record *record, uint32_t limit_ms,
                               struct errinfo *ei);

/* The next record of the followed topics. E_TIMEOUT: none came in time. E_IO: reading failed, `ei` says how. */
MUST_USE err kafka_client_next(struct kafka_client *client, uint32_t limit_ms, struct kafka_client_record *out_record,
                               struct errinfo *ei);

/* NULL is a no-op. */
void kafka_client_close(struct kafka_client *client);
