/* option_rule: the rows of the option table that a rule to Kafka and each of its actions have in common. Only for option_table.c. */
#pragma once

#include "config/option.h"

static const char *const ack_choices[] = {
    [CONFIG_ACK_QUORUM] = "quorum",
    [CONFIG_ACK_RECEIVED] = "received",
    [CONFIG_ACK_SPOOLED] = "spooled",
    NULL,
};

enum { OPTION_TEMPLATE_BYTES = 4 << 10 };

/* What a rule and each of its actions have in common: the path before, how the structure is reached. */
#define ACTION_OPTIONS(prefix, in)                                                                                             \
    {.path = prefix "topic",                                                                                                   \
     .type = OPTION_TEXT,                                                                                                      \
     .flags = OPTION_RELOADABLE,                                                                                               \
     .min = 0,                                                                                                                 \
     .max = OPTION_TEMPLATE_BYTES,                                                                                             \
     in(topic),                                                                                                                \
     .help = "The Kafka topic, a template: {client_id}, {user}, {tenant}, {device_id}, {topic}, {qos}, the segments of the "   \
             "filter, {user_property.NAME} and {payload./json/pointer} stand for their values. In them a character that "      \
             "Kafka does not allow becomes _ and its two hexadecimal digits, and _ becomes __."},                              \
        {.path = prefix "key",                                                                                                 \
         .type = OPTION_TEXT,                                                                                                  \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .min = 0,                                                                                                             \
         .max = OPTION_TEMPLATE_BYTES,                                                                                         \
         in(key),                                                                                                              \
         .help = "The record's key, a template whose values are written as they are. Records of one key stay in order. An "    \
                 "empty key is none."},                                                                                        \
        {.path = prefix "headers.*",                                                                                           \
         .type = OPTION_PROPERTIES,                                                                                            \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .min = 0,                                                                                                             \
         .max = OPTION_TEMPLATE_BYTES,                                                                                         \
         in(headers),                                                                                                          \
         .help = "Headers beside those that every record has; their values are templates as for the key."},                    \
        {.path = prefix "partition",                                                                                           \
         .type = OPTION_TEXT,                                                                                                  \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .min = 0,                                                                                                             \
         .max = OPTION_TEMPLATE_BYTES,                                                                                         \
         in(partition),                                                                                                        \
         .help = "The number of the partition, or a template that gives one. The default is murmur2 of the key, as Java's "    \
                 "clients do."},                                                                                               \
        {.path = prefix "ack",                                                                                                 \
         .type = OPTION_CHOICE,                                                                                                \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "quorum",                                                                                                  \
         .choices = ack_choices,                                                                                               \
         in(ack),                                                                                                              \
         .help = "When the sender is told that all is well: quorum when Kafka has the record, received at once. Of several "   \
                 "records the strictest counts for all. spooled is reserved."},                                                \
        {.path = prefix "create",                                                                                              \
         .type = OPTION_BOOL,                                                                                                  \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "false",                                                                                                   \
         in(is_creating),                                                                                                      \
         .help = "Makes the topic if it is missing, with the cluster's default partitions and replicas."},                     \
    {                                                                                                                          \
        .path = prefix "timeout", .type = OPTION_DURATION, .flags = OPTION_RELOADABLE, .initial = "0", .min = 0,               \
        .max = 24 * 3600 * 1000, in(timeout_ms),                                                                               \
        .help = "How long a record may wait for Kafka before its sender is told that it failed; all that write to a topic "    \
                "must agree, and a topic keeps its limit until a restart. 0 waits as long as it takes."                        \
    }

#define IN_SINGLE(member) .offset = offsetof(struct config_to_kafka, single) + offsetof(struct config_rule_action, member)
