/* explain: what would become of a publish, found out by the same code that decides it when it is served, with nothing sent
 * anywhere. Main thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "config/config.h"
#include "core/rule_record.h"

enum { EXPLAIN_MAX_PROPERTIES = 32 };

/* The publish. Everything is borrowed as long as the explanation is used; all-zero fields mean "not given". */
struct explain_request {
    size_t listener; /* number of the listener the client came by */
    struct str client_id, user, topic, payload, content_type;
    uint8_t qos;
    bool retain;
    struct config_property properties[EXPLAIN_MAX_PROPERTIES]; /* user properties */
    size_t n_properties;
};

struct explain_record {
    struct str topic; /* with the prefix */
    struct str key;
    struct str value; /* `p` NULL: null */
    const struct record_header *headers;
    size_t n_headers;
    bool has_partition, is_creating;
    int32_t partition;
    uint64_t limit_ms;
};

/* What would happen. Lives in the arena it was made in. */
struct explanation {
    const struct config_listener *listener;
    struct str tenant, device, user; /* who the client is */
    struct str route;                /* as in the metrics */
    struct str filter;               /* of the rule; empty: there is none */
    struct str mapper;               /* who rewrites it before; the records are shown as if it changed nothing. Empty: nobody */
    struct str refusal;              /* its name, or of a CONNECT in words; empty: it is taken */
    struct str why;                  /* the refusal in words; empty: there are none but its name */
    uint8_t reason_code;             /* of MQTT 5's PUBACK, when it is refused; 0: the CONNECT is refused already */
    struct explain_record *records;
    size_t n_records;
    enum rule_ack ack; /* of its records; without any it is acknowledged at once */
    bool is_device;    /* device data, where the topic's on-error says what a refusal leads to */
    bool is_local;     /* MQTT's subscribers get it */
};

/* Explains it by the configuration and its rules. E_INVAL: the request itself is wrong (no such listener, no topic name, QoS
 * over 2), with the reason in `ei`. A publish that would be refused is no error. */
MUST_USE err explain_publish(struct arena *a, struct config *config, const struct rule_table *rules,
                             const struct explain_request *request, struct explanation *out, struct errinfo *ei);

/* Prints it for people, or as one JSON object. E_NOMEM. */
void explain_print_text(FILE *to, const struct explain_request *request, const struct explanation *x);
MUST_USE err explain_print_json(FILE *to, const struct explain_request *request, const struct explanation *x);

/* The command. */
struct cli;
int explain_run(const struct cli *cli);
