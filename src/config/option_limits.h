/* option_limits: the rows of the bounds on what peers can make us hold, for the table in option_table.c, whose units they use. */
#pragma once

#define LIMIT_OPTIONS(in_config, range)                                                                                        \
    {.path = "limits",                                                                                                         \
     .type = OPTION_SECTION,                                                                                                   \
     .help = "What a client can make the process hold. The defaults protect the process "                                      \
             "and do not stand in the way of an honest client. What a client was told in its CONNACK holds until it "          \
             "disconnects, whatever is reloaded."},                                                                            \
        {.path = "limits.max_packet_bytes",                                                                                    \
         .type = OPTION_SIZE,                                                                                                  \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "1MiB",                                                                                                    \
         range(1 * KIB, 256 * MIB),                                                                                            \
         in_config(limits.max_packet_bytes),                                                                                   \
         .help =                                                                                                               \
             "The largest MQTT packet accepted, told to MQTT 5 clients. Kafka's own limit (message.max.bytes) may be lower."}, \
        {.path = "limits.topic_levels",                                                                                        \
         .type = OPTION_NUMBER,                                                                                                \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "128",                                                                                                     \
         range(4, 65535),                                                                                                      \
         in_config(limits.topic_levels),                                                                                       \
         .help = "The most levels of a topic name or filter."},                                                                \
        {.path = "limits.subscriptions_per_session",                                                                           \
         .type = OPTION_NUMBER,                                                                                                \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "10000",                                                                                                   \
         range(1, 10000000),                                                                                                   \
         in_config(limits.subscriptions_per_session),                                                                          \
         .help = "The most subscriptions of one client."},                                                                     \
        {.path = "limits.receive_maximum",                                                                                     \
         .type = OPTION_NUMBER,                                                                                                \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "1000",                                                                                                    \
         range(1, 65535),                                                                                                      \
         in_config(limits.receive_maximum),                                                                                    \
         .help = "How many publishes a client may have unacknowledged, told to MQTT 5 clients."},                              \
        {.path = "limits.topic_alias_maximum",                                                                                 \
         .type = OPTION_NUMBER,                                                                                                \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "32",                                                                                                      \
         range(0, 65535),                                                                                                      \
         in_config(limits.topic_alias_maximum),                                                                                \
         .help = "How many topic aliases a client may set up, told to MQTT 5 clients."},                                       \
        {.path = "limits.outgoing_topic_aliases",                                                                              \
         .type = OPTION_NUMBER,                                                                                                \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "32",                                                                                                      \
         range(0, 65535),                                                                                                      \
         in_config(limits.outgoing_topic_aliases),                                                                             \
         .help = "How many topic aliases are set up, at most, for the messages of one MQTT 5 client that allows it by its "    \
                 "Topic Alias "                                                                                                \
                 "Maximum. The first topics it gets messages of have them."},                                                  \
        {.path = "limits.output_bytes",                                                                                        \
         .type = OPTION_SIZE,                                                                                                  \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "2MiB",                                                                                                    \
         range(64 * KIB, 1 * GIB),                                                                                             \
         in_config(limits.output_bytes),                                                                                       \
         .help = "How much may wait to be sent on one connection. Beyond it QoS 0 messages are dropped and others stay "       \
                 "queued. At "                                                                                                 \
                 "least "                                                                                                      \
                 "limits.max_packet_bytes."},                                                                                  \
        {.path = "limits.session_queued_messages",                                                                             \
         .type = OPTION_NUMBER,                                                                                                \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "100000",                                                                                                  \
         range(1, 100000000),                                                                                                  \
         in_config(limits.session_queued_messages),                                                                            \
         .help = "How many messages may wait for one client."},                                                                \
        {.path = "limits.session_queued_bytes",                                                                                \
         .type = OPTION_SIZE,                                                                                                  \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "16MiB",                                                                                                   \
         range(64 * KIB, 1 * GIB),                                                                                             \
         in_config(limits.session_queued_bytes),                                                                               \
         .help = "How many bytes of messages may wait for one client. At least limits.max_packet_bytes."},                     \
        {.path = "limits.sessions",                                                                                            \
         .type = OPTION_NUMBER,                                                                                                \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "1000000",                                                                                                 \
         range(1, 100000000),                                                                                                  \
         in_config(limits.sessions),                                                                                           \
         .help = "How many sessions the process keeps, connected or not, in equal parts on its workers. A client that needs "  \
                 "one more "                                                                                                   \
                 "is refused."},                                                                                               \
        {.path = "limits.retained_messages",                                                                                   \
         .type = OPTION_NUMBER,                                                                                                \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "1000000",                                                                                                 \
         range(1, 100000000),                                                                                                  \
         in_config(limits.retained_messages),                                                                                  \
         .help = "How many retained messages the process keeps. One more topic is refused."},                                  \
        {.path = "limits.retained_bytes",                                                                                      \
         .type = OPTION_SIZE,                                                                                                  \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "256MiB",                                                                                                  \
         range(64 * KIB, 1 * GIB),                                                                                             \
         in_config(limits.retained_bytes),                                                                                     \
         .help = "How many bytes the retained messages take."},                                                                \
        {.path = "limits.connect_timeout",                                                                                     \
         .type = OPTION_DURATION,                                                                                              \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "10s",                                                                                                     \
         range(100, MS_PER_H),                                                                                                 \
         in_config(limits.connect_timeout_ms),                                                                                 \
         .help = "How long a new connection has until its CONNECT is complete."},                                              \
        {.path = "limits.tls_handshakes",                                                                                      \
         .type = OPTION_NUMBER,                                                                                                \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "4096",                                                                                                    \
         range(1, 1000000),                                                                                                    \
         in_config(limits.tls_handshakes),                                                                                     \
         .help = "How many TLS handshakes may be under way at a time in the process; connections past it are closed and "      \
                 "counted."},                                                                                                  \
        {.path = "limits.tls_handshake_timeout",                                                                               \
         .type = OPTION_DURATION,                                                                                              \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "10s",                                                                                                     \
         range(100, MS_PER_H),                                                                                                 \
         in_config(limits.tls_handshake_timeout_ms),                                                                           \
         .help = "How long a TLS handshake may take."},                                                                        \
        {.path = "limits.keep_alive_maximum",                                                                                  \
         .type = OPTION_DURATION,                                                                                              \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "0",                                                                                                       \
         range(0, 65535 * MS_PER_S),                                                                                           \
         in_config(limits.keep_alive_maximum_ms),                                                                              \
         .help =                                                                                                               \
             "The longest keep-alive, in whole seconds; MQTT 5 clients that ask for more or none are told to use it. 0 is no " \
             "bound."},                                                                                                        \
    {                                                                                                                          \
        .path = "limits.max_connections", .type = OPTION_NUMBER, .flags = OPTION_RELOADABLE, .initial = "0",                   \
        range(0, 100000000), in_config(limits.max_connections),                                                                \
        .help = "How many connections the process has at a time; the CONNECT of any more is refused as busy. 0 is no bound "   \
                "but the "                                                                                                     \
                "descriptors the system allows."                                                                               \
    }
